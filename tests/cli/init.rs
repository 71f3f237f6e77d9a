//! `overdue init`: options that contradict each other, or cannot be read.

use insta::assert_snapshot;

use crate::support::Folder;

#[test]
fn what_cannot_be_read_says_what_to_write() {
    let cases: [&[&str]; 6] = [
        &["--set", "state"],
        &["--after", "soon"],
        &["--after", "0m"],
        &["--release", "article.on_hand = 1 WHERE true"],
        &["--release", "article.on_hand += 1"],
        &["--delete", "--set", "state=90"],
    ];
    let mut said = String::new();
    for case in cases {
        let folder = Folder::with(&[]);
        let run = folder.run(&[&["init", "--table", "bookings"], case].concat(), &[]).exits(64);
        assert!(!folder.path("overdue.toml").exists());
        said += &["$ overdue init … ", &case.join(" "), "\n", &run.stderr].concat();
    }
    assert_snapshot!(said);
}

/// The command asks no question before it knows that it can write.
#[test]
fn files_that_are_there_are_not_touched() {
    let folder = Folder::with(&[("overdue.toml", ""), ("topology.toml", "mine")]);
    let run = folder.run(&["init", "--table", "bookings"], &[]).exits(1);
    assert!(
        run.stderr.contains("already has topology.toml, overdue.toml: nothing was written"),
        "{run}"
    );
    let run = Folder::with(&[]).run(&["init", "--add", "--table", "bookings"], &[]).exits(1);
    assert!(run.stderr.contains("./topology.toml cannot be read"), "{run}");
}
