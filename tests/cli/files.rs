//! The command line itself, and the topology file as every command reads it: no service is needed.

use crate::{
    runs::Runs,
    support::{
        Folder,
        samples::{WITHOUT_FINDINGS, edited},
    },
};

/// No broker listens there: a command that asks it has another exit code.
const NOWHERE: [(&str, &str); 2] = [
    ("OVERDUE_BROKER__URL", "amqp://127.0.0.1:1/%2f"),
    ("OVERDUE_DATABASE__URL", "postgres://127.0.0.1:1/x"),
];

const BROKEN: &str = r#"name = "orders"

[delay]
levels = ["5s", "1s", "0s", "30m"]

[[timeout]]
name = "unpaid"
after = "31m"
"#;

#[test]
fn what_check_says() {
    let ladder = |ladder: &str| {
        format!(
            "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\nladder = {{ {ladder} }}\n\
             [[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n[retry]\nafter = [\"1m\"]\n"
        )
    };
    let warning = edited("= 20", "= 2");
    let note = edited("effect = \"close\"", "effect = \"write_off\"");
    let errors = warning.replace("after = \"30m\"", "after = \"31m\"");
    let mut runs = Runs::default();
    for (topology, arguments) in [
        (WITHOUT_FINDINGS, &["check"][..]),
        (include_str!("../../topology.toml"), &["check"]),
        (&ladder("max = \"30d\""), &["check"]),
        (&ladder("max = \"1h\", queues = 74"), &["check"]),
        (&warning, &["check"]),
        (&warning, &["check", "--deny-warnings"]),
        (&note, &["check", "--deny-warnings"]),
        (&errors, &["check", "--deny-warnings"]),
        (BROKEN, &["check"]),
        (&BROKEN.replace("after =", "befor ="), &["check"]),
        ("name = orders\n", &["apply"]),
        (&edited("= 20", "= 0"), &["check", "-o", "json"]),
        (WITHOUT_FINDINGS, &["check", "-o", "json"]),
        (WITHOUT_FINDINGS, &["check", "--broker", "4.3"]),
        (WITHOUT_FINDINGS, &["check", "--broker", "3.13"]),
        (WITHOUT_FINDINGS, &["check", "--broker", "latest"]),
    ] {
        runs.on(&[("topology.toml", topology)], arguments, &[]);
    }
    let settings = "[effects.write_off]\nsql = \"write_off.sql\"\n";
    runs.heading("the effect is in the settings");
    runs.on(&[("topology.toml", &note), ("overdue.toml", settings)], &["check"], &[]);
    insta::assert_snapshot!(runs);
}

/// Every command reads the file before it asks a service.
#[test]
fn a_topology_file_that_cannot_be_used() {
    let mut runs = Runs::default();
    for command in [&["check"][..], &["apply"], &["run"], &["publish", "4711"]] {
        runs.on(&[], command, &[]);
    }
    for command in [&["apply"][..], &["run"], &["publish", "4711"]] {
        runs.on(&[("topology.toml", BROKEN)], command, &NOWHERE).exits(78);
    }
    insta::assert_snapshot!(runs);
    let folder = Folder::with(&[]);
    std::fs::write(folder.path("binary.toml"), b"name = \"\xff\xfe\"").unwrap();
    std::fs::create_dir(folder.path("folder.toml")).unwrap();
    for name in ["binary.toml", "folder.toml"] {
        let run = folder.run(&["check", "--topology", name], &[]).exits(78);
        assert!(run.stderr.contains(&format!("cannot read the topology file {name}")), "{run}");
    }
}

#[test]
fn help_and_what_is_generated() {
    let folder = Folder::with(&[]);
    for (arguments, begins) in [
        (&["--help"][..], ""),
        (&["help"], ""),
        (&["-h"], ""),
        (&["publish", "--help"], ""),
        (&["--version"], concat!("overdue ", env!("CARGO_PKG_VERSION"), "\n")),
        (&["generate", "completions", "bash"], "_overdue()"),
        (&["generate", "schema"], "{"),
        (&["generate", "man", "share/man1"], "the manual pages are in share/man1"),
    ] {
        let run = folder.run(arguments, &[]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{arguments:?}: {run}");
        assert!(!run.stdout.is_empty() && run.stdout.starts_with(begins), "{arguments:?}: {run}");
    }
    assert!(folder.path("share/man1/overdue-parked-replay.1").is_file());
    let help = folder.run(&["--help"], &[]).stdout;
    let words: Vec<&str> = help.split_whitespace().collect();
    for code in ["0", "1", "64", "69", "77", "78", "130"] {
        assert!(words.contains(&code), "{code} is not in the help: {help}");
    }
    // Where services are is the same for all commands, and has a heading of its own.
    for command in [&["--help"][..], &["check", "--help"], &["database", "init", "-h"]] {
        let help = folder.run(command, &[]).stdout;
        let (options, connections) = help.split_once("\nConnections ").unwrap();
        assert!(options.contains("--topology"), "{help}");
        for url in ["--broker-url", "--management-url", "--database-url"] {
            assert!(!options.contains(url) && connections.contains(url), "{url}: {help}");
        }
    }
    // Each command has one line, in one group, which fits into a terminal of 80 columns.
    let (head, groups) = help.split_once("\nSet up:\n").unwrap();
    assert!(head.contains("overdue init") && head.contains("overdue status"), "{head}");
    let groups = groups.split("\nOptions:").next().unwrap();
    assert_eq!(groups.matches(":\n").count(), 3, "{groups}");
    let program = overdue::internals::cli::command();
    for command in program.get_subcommands() {
        let (name, about) = (command.get_name(), command.get_about().unwrap().to_string());
        let line = format!("\n  {name:<11}  {about}\n");
        assert_eq!(format!("\n{groups}").matches(&line).count(), 1, "{line}{groups}");
        assert!(line.trim_matches('\n').len() <= 80, "{line}");
    }
    // A terminal of a usual width shows the lines without a break in a word.
    let help = folder.run(&["publish", "--help"], &[]).stdout;
    let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 120).collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn what_cannot_be_understood_exits_64() {
    let mut runs = Runs::default();
    for arguments in [
        &["close"][..],
        &["publish", "4711", "--levle", "30m"],
        &["publish", "4711", "--level", "30m", "--category", "virtual"],
        &["publish", "4711", "--due-at", "soon"],
    ] {
        let run = runs.on(&[], arguments, &[]);
        assert_eq!((run.code, &*run.stdout), (Some(64), ""), "{run}");
    }
    insta::assert_snapshot!(runs);
    let unfit = [["apply", "--within", "5s"], ["apply", "--plan", "plan.json"]];
    for arguments in [&[][..], &["database"], &unfit[0], &unfit[1]] {
        let run = Folder::with(&[]).run(arguments, &[]);
        assert!(run.code == Some(64) && run.stdout.is_empty() && !run.stderr.is_empty(), "{run}");
    }
}
