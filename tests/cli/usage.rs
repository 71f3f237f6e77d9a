//! The command line itself: help, version, and what cannot be understood.

use crate::support::Folder;

#[test]
fn help_and_version_go_to_standard_output_and_exit_0() {
    let folder = Folder::with(&[]);
    for arguments in [&["--help"][..], &["help"], &["-h"], &["publish", "--help"], &["--version"]] {
        let run = folder.run(arguments, &[]);
        assert_eq!(run.code, Some(0), "{arguments:?}: {run}");
        assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{arguments:?}: {run}");
    }
    let version = folder.run(&["--version"], &[]);
    assert_eq!(version.stdout.trim(), format!("overdue {}", env!("CARGO_PKG_VERSION")));
    let help = folder.run(&["--help"], &[]);
    let words: Vec<&str> = help.stdout.split_whitespace().collect();
    for code in ["0", "1", "64", "69", "77", "78", "130"] {
        assert!(words.contains(&code), "{code} is not in the help: {help}");
    }
}

/// Where services are is the same for all commands, and not in the way of what one command takes.
#[test]
fn connections_have_a_heading_of_their_own() {
    let folder = Folder::with(&[]);
    for command in [&["--help"][..], &["check", "--help"], &["database", "init", "-h"]] {
        let help = folder.run(command, &[]).stdout;
        let (options, connections) = help.split_once("\nConnections ").unwrap();
        assert!(options.contains("--topology"), "{help}");
        for url in ["--broker-url", "--management-url", "--database-url"] {
            assert!(!options.contains(url) && connections.contains(url), "{url}: {help}");
        }
    }
}

#[test]
fn what_cannot_be_understood_exits_64() {
    let folder = Folder::with(&[]);
    let cases: [&[&str]; 7] = [
        &[],
        &["--no-such-flag"],
        &["close"],
        &["publish", "4711", "--level", "30m", "--category", "virtual"],
        &["publish", "4711", "--due-at", "soon"],
        &["apply", "--within", "5s"],
        &["database"],
    ];
    for arguments in cases {
        let run = folder.run(arguments, &[]);
        assert_eq!(run.code, Some(64), "{arguments:?}: {run}");
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{arguments:?}: {run}");
    }
}

#[test]
fn a_mistake_in_a_flag_is_named() {
    let run = Folder::with(&[]).run(&["publish", "4711", "--levle", "30m"], &[]);
    insta::assert_snapshot!(run);
}

/// Lines that a terminal of a usual width shows without a break in a word.
#[test]
fn the_help_of_publish_has_no_long_lines() {
    let run = Folder::with(&[]).run(&["publish", "--help"], &[]);
    let long: Vec<&str> = run.stdout.lines().filter(|line| line.chars().count() > 120).collect();
    assert!(run.code == Some(0) && long.is_empty(), "{long:?}");
    assert!(run.stdout.contains(r#"{"order_id": "4711"}, and optionally "timeout""#), "{run}");
}

#[test]
fn completions_manual_pages_and_schemas_are_generated() {
    let folder = Folder::with(&[]);
    for (arguments, begins) in [
        (&["generate", "completions", "bash"][..], "_overdue()"),
        (&["generate", "schema"], "{"),
        (&["generate", "man", "share/man1"], "the manual pages are in share/man1"),
    ] {
        let run = folder.run(arguments, &[]);
        assert!(run.code == Some(0) && run.stdout.starts_with(begins), "{run}");
    }
    assert!(folder.path("share/man1/overdue-parked-replay.1").is_file());
}
