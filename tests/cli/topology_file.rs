//! The topology file, as every command that needs it reads it.

use crate::support::Folder;

const BROKEN: &str = r#"name = "orders"

[delay]
levels = ["5s", "1s", "0s", "30m"]

[[timeout]]
name = "unpaid"
after = "31m"
"#;

#[test]
fn a_valid_file() {
    let folder = Folder::with(&[("topology.toml", include_str!("../../topology.toml"))]);
    insta::assert_snapshot!(folder.run(&["check"], &[]));
}

#[test]
fn a_file_that_is_not_there() {
    let folder = Folder::with(&[]);
    for command in [&["check"][..], &["apply"], &["run"], &["publish", "4711"]] {
        let run = folder.run(command, &[]);
        assert_eq!(run.code, Some(78), "{command:?}: {run}");
        assert!(run.stderr.contains("cannot read the topology file topology.toml"), "{run}");
        assert!(run.stderr.contains("--topology or OVERDUE_TOPOLOGY"), "{run}");
    }
}

#[test]
fn a_file_with_findings_is_shown_with_each_of_them_and_nothing_is_asked_of_the_broker() {
    let folder = Folder::with(&[("topology.toml", BROKEN)]);
    insta::assert_snapshot!(folder.run(&["check"], &[]));
    // No broker listens there: had it been asked, the exit code would be another.
    let nowhere = [
        ("OVERDUE_BROKER__URL", "amqp://127.0.0.1:1/%2f"),
        ("OVERDUE_DATABASE__URL", "postgres://127.0.0.1:1/x"),
    ];
    for command in [&["apply"][..], &["run"], &["publish", "4711"]] {
        let run = folder.run(command, &nowhere);
        assert_eq!(run.code, Some(78), "{command:?}: {run}");
        assert!(run.stderr.contains("findings in topology.toml"), "{run}");
    }
}

#[test]
fn a_file_that_is_no_toml() {
    let folder = Folder::with(&[("topology.toml", "name = orders\n")]);
    insta::assert_snapshot!(folder.run(&["apply"], &[]));
}

#[test]
fn a_file_with_an_unknown_key() {
    let text = BROKEN.replace("after =", "befor =");
    let folder = Folder::with(&[("elsewhere.toml", &text)]);
    insta::assert_snapshot!(folder.run(&["--topology", "elsewhere.toml", "check"], &[]));
}

#[test]
fn a_file_that_is_no_text_and_one_that_is_a_folder() {
    let folder = Folder::with(&[]);
    std::fs::write(folder.path("binary.toml"), b"name = \"\xff\xfe\"").unwrap();
    std::fs::create_dir(folder.path("folder.toml")).unwrap();
    for name in ["binary.toml", "folder.toml"] {
        let run = folder.run(&["check", "--topology", name], &[]);
        assert_eq!(run.code, Some(78), "{run}");
        assert!(run.stderr.contains(&format!("cannot read the topology file {name}")), "{run}");
    }
}
