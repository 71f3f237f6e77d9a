//! `[[alert]]` in the settings, and `overdue doctor --send-alert` without a message to send.

use crate::{runs::Runs, support::Folder};

const TOPOLOGY: &str = include_str!("../../topology.toml");

fn folder(settings: &str) -> Folder {
    Folder::with(&[("topology.toml", TOPOLOGY), ("overdue.toml", settings)])
}

/// The examples of docs/alerts.md; secrets are not shown.
#[test]
fn the_examples_of_the_page_can_be_used_and_show_no_secret() {
    let page = include_str!("../../docs/alerts.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 6, "the first example, and five services");
    for example in examples {
        let run = folder(example).run(&["config"], &[]).exits(0);
        assert!(!run.stdout.contains("routing_key"), "{run}");
    }
    let secret =
        "[[alert]]\nname = \"x\"\nurl = \"https://hooks.example.com/s3cret\"\nbody = \"s3cret\"\n";
    let shown = folder(secret).run(&["config"], &[]).prints("url = \"***\"");
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
}

/// Every command reads the settings. All mistakes are reported at once, each with its alert and its place.
#[test]
fn mistakes_in_alerts() {
    let mut runs = Runs::default();
    for settings in [
        "name = \"a\"\nurl = \"https://s3cret\"\nbody = \"s3cret\"\nbody_file = \"x\"\n\
         [[alert]]\nname = \"a\"\nurl = \"smtp://localhost\"\nurl_file = \"x\"\non = []\n\
         [[alert]]\nname = \"\"",
        "name = \"a\"\nurl = 5\non = [\"lat\"]\nurll = \"s3cret\"\n\
         from = \"s3cret\"\nto = [\"s3cret\"]",
        "name = \"a\"\nurl = \"s3cret\"",
        "name = \"a\"\nurl = \"ftp://s3cret\"",
        "name = \"a\"\nurl = \"smtps://s3cret\"",
        "name = \"a\"\nurl = \"http://localhost\"\nbody = '{\"s3cret\": \"{tekst}\"}'",
        "name = \"a\"\nurl = \"http://localhost\"\nagain_after = \"59s\"",
    ] {
        let file = format!("[[alert]]\n{settings}\n");
        runs.on(&[("overdue.toml", &file)], &["config"], &[]).exits(78);
    }
    insta::assert_snapshot!(runs);
}

#[test]
fn there_is_nothing_to_send() {
    let none = folder("").run(&["doctor", "--send-alert"], &[]).exits(78);
    assert!(none.stderr.contains("the settings have no alert: write one below"), "{none}");
}

/// A person who starts the worker can correct it; `doctor` reports it as well.
#[test]
fn a_worker_does_not_start_with_an_alert_that_cannot_send() {
    let cases = [
        ("url_file = \"gone.url\"", "cannot read url_file gone.url: No such file"),
        (
            "url_file = \"topology.toml\"",
            "its URL cannot be used: it begins with https:// or http://",
        ),
        ("url = \"https://localhost\"\nca_file = \"gone.pem\"", "cannot read ca_file gone.pem"),
    ];
    for (keys, reason) in cases {
        let folder = folder(&format!("[[alert]]\nname = \"a\"\n{keys}\n"));
        let run = folder.run(&["run"], &[]).exits(78);
        assert!(run.stderr.contains(&format!("alert `a`: {reason}")), "{reason}: {run}");
        let run = folder.run(&["doctor"], &[]).exits(2);
        let line = run.stdout.lines().find(|line| line.contains("a cannot be used: "));
        assert!(line.is_some_and(|it| it.contains("error") && it.contains(reason)), "{run}");
    }
    let run = folder("[[alert]]\nname = \"a\"\nurl = \"http://localhost\"\n").run(&["doctor"], &[]);
    assert!(run.stdout.contains("a (http://localhost) can be used"), "{run}");
}
