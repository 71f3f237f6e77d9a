//! `[[alert]]` in the settings, and `overdue alert test` where nothing is to be sent.

use crate::support::Folder;

const TOPOLOGY: &str = include_str!("../../topology.toml");

fn folder(settings: &str) -> Folder {
    Folder::with(&[("topology.toml", TOPOLOGY), ("overdue.toml", settings)])
}

/// The example of docs/alerts.md, with every key; what is secret is not shown.
#[test]
fn the_example_of_the_page_can_be_used_and_shows_no_secret() {
    let page = include_str!("../../docs/alerts.md");
    let (_, example) = page.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let run = folder(example).run(&["config"], &[]);
    assert_eq!(run.code, Some(0), "{run}");
    let secret = format!(
        "{example}\nsecret = \"s3cret\"\n[[alert]]\nname = \"x\"\nformat = \"slack\"\nurl = \"https://hooks.example.com/s3cret\"\n"
    );
    let secret = secret.replace("format = \"mail\"", "format = \"mail\"\n# mail");
    let run = folder(&secret).run(&["config"], &[]);
    assert!(!run.to_string().contains("s3cret"), "{run}");
    let shown = folder(&secret.replace("secret = \"s3cret\"\n", "")).run(&["config"], &[]);
    assert_eq!(shown.code, Some(0), "{shown}");
    assert!(shown.stdout.contains("url = \"***\"") && !shown.stdout.contains("s3cret"), "{shown}");
}

/// All at once, each with the name of its alert, and no secret in any of them.
#[test]
fn mistakes_in_alerts() {
    let settings = "[[alert]]\nname = \"a\"\nformat = \"slack\"\nurl = \"ftp://s3cret\"\nsecret = \"s3cret\"\n\
                    [[alert]]\nname = \"a\"\nformat = \"mail\"\nurl = \"smtp://localhost\"\nurl_file = \"x\"\non = []\n\
                    [[alert]]\nname = \"\"\nformat = \"json\"\nto = [\"me@example.com\"]\nsecret = \"s3cret\"\nsecret_file = \"x\"\n";
    let run = folder(settings).run(&["config"], &[]);
    assert_eq!(run.code, Some(78), "{run}");
    assert!(!run.to_string().contains("s3cret"), "{run}");
    insta::assert_snapshot!(run);
    let settings = "[[alert]]\nname = \"a\"\nformat = \"slak\"\nurl = 5\non = [\"lat\"]\nlate_after = \"soon\"\nurll = \"s3cret\"\n";
    let folder = folder(settings);
    let run = folder.run(&["config"], &[]);
    assert_eq!(run.code, Some(78), "{run}");
    let path = folder.path("overdue.toml").display().to_string();
    let shown = run.to_string().replace(&path, "<folder>/overdue.toml");
    assert!(!shown.contains("s3cret"), "{shown}");
    insta::assert_snapshot!("mistakes_in_the_keys_of_alerts", shown);
}

#[test]
fn there_is_nothing_to_test() {
    let none = folder("").run(&["alert", "test"], &[]);
    assert_eq!(none.code, Some(78), "{none}");
    assert!(
        none.stderr.contains("the settings have no alert: write one below [[alert]]"),
        "{none}"
    );
    let one = "[[alert]]\nname = \"on-call\"\nformat = \"slack\"\nurl_file = \"slack.url\"\n";
    let folder = folder(one);
    let other = folder.run(&["alert", "test", "night"], &[]);
    assert_eq!(other.code, Some(78), "{other}");
    assert!(
        other.stderr.contains("there is no alert `night`: the settings have `on-call`"),
        "{other}"
    );
    let unread = folder.run(&["alert", "test"], &[]);
    assert_eq!(unread.code, Some(1), "{unread}");
    assert!(
        unread.stdout.starts_with(
            "FAILED  on-call (slack, ?): cannot read url_file slack.url: No such file"
        ),
        "{unread}"
    );
    std::fs::write(folder.path("slack.url"), "s3cret\ns3cret\n").unwrap();
    let two = folder.run(&["alert", "test"], &[]);
    assert!(two.stdout.contains("url_file slack.url has to be one line"), "{two}");
    std::fs::write(folder.path("slack.url"), "s3cret\n").unwrap();
    let not_a_url = folder.run(&["alert", "test"], &[]);
    assert!(not_a_url.stdout.contains("its URL cannot be used"), "{not_a_url}");
    for run in [two, not_a_url] {
        assert!(!run.to_string().contains("s3cret"), "{run}");
    }
}

/// Somebody is there to correct it.
#[test]
fn a_worker_does_not_start_with_an_alert_that_cannot_speak() {
    let one = "[[alert]]\nname = \"on-call\"\nformat = \"slack\"\nurl_file = \"slack.url\"\n";
    let run = folder(one).run(&["run"], &[]);
    assert_eq!(run.code, Some(78), "{run}");
    assert!(run.stderr.contains("alert `on-call`: cannot read url_file slack.url"), "{run}");
    let mail = "[[alert]]\nname = \"m\"\nformat = \"mail\"\nurl = \"smtp://localhost\"\nfrom = \"x\"\nto = [\"me@example.com\"]\n";
    let run = folder(mail).run(&["run"], &[]);
    assert_eq!(run.code, Some(78), "{run}");
    assert!(run.stderr.contains("alert `m`: from has `x`, which is not an address"), "{run}");
}
