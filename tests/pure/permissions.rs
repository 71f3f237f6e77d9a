//! The texts: snapshots, and that commands and definitions say the same.

use std::{collections::BTreeSet, process::Command};

use overdue::internals::{
    permissions::{
        Request, Right, Role, definitions,
        grants::{self, DatabaseRequest, DatabaseRole, EffectSql},
        rabbitmqctl,
    },
    topology::Topology,
};
use serde_json::Value;

use crate::samples::dotted;

fn request(create_users: bool, routing_keys: bool) -> Request {
    let (vhost, user_prefix) = ("/".to_owned(), "overdue-".to_owned());
    Request { vhost, user_prefix, create_users, routing_keys }
}

#[test]
fn rabbitmqctl_commands() {
    let roles = Role::all(&dotted());
    insta::assert_snapshot!(rabbitmqctl::render(&roles, &request(false, false)));
}

#[test]
fn definitions_with_everything() {
    let roles = Role::all(&dotted());
    insta::assert_snapshot!(definitions::render(&roles, &request(true, true)));
}

#[test]
fn definitions_leave_users_alone_unless_asked() {
    let roles = Role::all(&dotted());
    let text = definitions::render(&roles, &request(false, false));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), ["permissions"]);
}

#[test]
fn both_forms_say_the_same() {
    for topology in [dotted(), minimal()] {
        let roles = Role::all(&topology);
        let request = Request {
            vhost: "it's $HOME `x`".to_owned(),
            user_prefix: "o'brien \"$USER\" ".to_owned(),
            create_users: true,
            routing_keys: true,
        };
        let json = serde_json::from_str(&definitions::render(&roles, &request)).unwrap();
        let script = rabbitmqctl::render(&roles, &request);
        assert_eq!(run(&script), commands(&json), "{script}");
    }
}

fn database_request(schemas: &'static [&str]) -> DatabaseRequest<'static> {
    DatabaseRequest {
        schemas: schemas.to_vec(),
        user_prefix: "overdue_",
        create_users: false,
        effects: vec![
            EffectSql { name: "close", file: None },
            EffectSql { name: "expire", file: Some("expire.sql") },
        ],
    }
}

#[test]
fn grants_in_postgresql() {
    let request = database_request(&["overdue", "public"]);
    insta::assert_snapshot!(grants::render(&DatabaseRole::all(&request)));
    let quoted = DatabaseRequest {
        user_prefix: "o'brien \"$USER\" ",
        create_users: true,
        effects: Vec::new(),
        ..database_request(&["Shop"])
    };
    let publisher = DatabaseRole::all(&quoted).remove(2);
    assert_eq!(publisher.before, ["CREATE ROLE \"o'brien \"\"$USER\"\" publisher\" LOGIN"]);
    assert!(publisher.statements()[0].0.starts_with("GRANT USAGE ON SCHEMA \"Shop\" TO \"o'brien"));
}

/// docs/permissions.md has a table for a topology `orders`.
#[test]
fn the_document_has_what_is_printed() {
    let text =
        "name = 'orders'\ndelay.levels = ['30m']\n[[timeout]]\nname = 'unpaid'\nafter = '30m'";
    let document = include_str!("../../docs/permissions.md");
    for role in Role::all(&Topology::parse(text).unwrap()) {
        let begin = format!("| `{}`", request(false, false).user(&role));
        let row = document
            .lines()
            .find(|line| line.starts_with(&begin))
            .unwrap_or_else(|| panic!("{begin}"));
        for right in Right::ALL {
            let expression = format!(" `{}` |", role.expression(right).replace('|', r"\|"));
            assert!(row.contains(&expression), "{right}: {expression}\n{row}");
        }
        let tag = role.tag.map_or("–".to_owned(), |tag| format!("`{}`", tag.name));
        assert!(row.contains(&format!("| {tag}")), "{tag}\n{row}");
    }
}

/// One of everything, so that no expression has alternatives.
fn minimal() -> Topology {
    let text = "name = 'x'\ndelay.levels = ['1s']\n[[timeout]]\nname = 'y'\nafter = '1s'";
    Topology::parse(text).unwrap()
}

/// Runs the script in a shell whose `rabbitmqctl` writes down how it was called.
fn run(script: &str) -> BTreeSet<Vec<String>> {
    let stub = r#"rabbitmqctl() { for word; do printf '%s\037' "$word"; done; printf '\036'; }"#;
    let run = Command::new("sh").arg("-eu").arg("-c").arg(format!("{stub}\n{script}")).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let calls = String::from_utf8(run.stdout).unwrap();
    let words = |call: &str| call.split_terminator('\u{1f}').map(str::to_owned).collect();
    calls.split_terminator('\u{1e}').map(words).collect()
}

/// The commands that do what an import of the definitions does.
fn commands(definitions: &Value) -> BTreeSet<Vec<String>> {
    let entries = |key: &str| definitions[key].as_array().unwrap().clone();
    let words = |entry: &Value, command: &[&str], keys: &[&str]| {
        let values = keys.iter().map(|key| entry[key].as_str().unwrap().to_owned());
        command.iter().map(|word| (*word).to_owned()).chain(values).collect::<Vec<_>>()
    };
    let mut all = BTreeSet::new();
    for user in entries("users") {
        all.insert(words(&user, &["add_user"], &["name"]));
        let tags = user["tags"].as_array().unwrap();
        if !tags.is_empty() {
            let mut command = words(&user, &["set_user_tags"], &["name"]);
            command.extend(tags.iter().map(|tag| tag.as_str().unwrap().to_owned()));
            all.insert(command);
        }
    }
    for entry in entries("permissions") {
        let keys = ["vhost", "user", "configure", "write", "read"];
        all.insert(words(&entry, &["set_permissions", "-p"], &keys));
    }
    for entry in entries("topic_permissions") {
        let keys = ["vhost", "user", "exchange", "write", "read"];
        all.insert(words(&entry, &["set_topic_permissions", "-p"], &keys));
    }
    all
}
