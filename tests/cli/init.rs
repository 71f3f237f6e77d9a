//! `overdue init`: what it writes for a table, and names that it cannot write SQL for.

use std::fs;

use insta::assert_snapshot;

use crate::support::Folder;

/// With its arguments, each after its name.
const BOOKINGS: &str = "init --table bookings --key booking_ref:uuid --state state=pending:expired --deadline hold_until";

fn bookings(more: &[&'static str]) -> Vec<&'static str> {
    BOOKINGS.split(' ').chain(more.iter().copied()).collect()
}

#[test]
fn the_files_for_a_table() {
    let folder = Folder::with(&[]);
    let stock = bookings(&["--stock", "events.seats_free=seats", "by", "event_id"]);
    let run = folder.run(&stock, &[]).exits(0);
    assert_snapshot!("said", run.stdout);
    for name in ["expire.sql", "expire_overdue.sql", "topology.toml"] {
        assert_snapshot!(name, fs::read_to_string(folder.path(name)).unwrap());
    }
}

/// Its commands find the files where they run.
#[test]
fn the_first_step_goes_into_the_folder() {
    let folder = Folder::with(&[]);
    fs::create_dir(folder.path("a shop")).unwrap();
    for (named, first) in [
        ("a shop", "next:\n  1. cd 'a shop'\n  2. in the database"),
        ("./", "next:\n  1. in the database"),
    ] {
        folder.run(&bookings(&[named]), &[]).prints(first);
    }
}

#[test]
fn what_no_sql_can_be_written_for_says_what_to_write() {
    let cases: [&[&str]; 12] = [
        &["--table", "a.b.c"],
        &["--table", ""],
        &["--table", "or\"der"],
        &["--key", "id"],
        &["--key", "id:serial"],
        &["--state", "state"],
        &["--state", "state=pending:pending"],
        &["--state", "state=pending:"],
        &["--deadline", "a deadline of more than sixty-three bytes, which PostgreSQL cuts off"],
        &["--stock", "events"],
        &["--stock", "events.free=seats", "by", "a", "of", "b"],
        &["--stock", "events.free=seats", "by", "=id"],
    ];
    let mut said = String::new();
    for case in cases {
        let folder = Folder::with(&[]);
        let mut arguments = bookings(&[]);
        if let Some(at) = arguments.iter().position(|it| *it == case[0]) {
            drop(arguments.drain(at..at + 2));
        }
        arguments.extend(case);
        let run = folder.run(&arguments, &[]).exits(64);
        assert!(!folder.path("expire.sql").exists());
        said += &["$ overdue init … ", &case.join(" "), "\n", &run.stderr].concat();
    }
    assert_snapshot!(said);
    Folder::with(&[]).run(&["init", "--table", "bookings"], &[]).exits(64);
}
