//! Snapshots of the texts; commands and definitions give the same rights.

use std::{collections::BTreeSet, process::Command};

use fancy_regex::Regex;
use overdue::internals::{
    permissions::{
        Object, Request, Right, Role, definitions,
        grants::{self, DatabaseRequest, DatabaseRole, EffectSql},
        rabbitmqctl,
    },
    topology::Topology,
};
use serde_json::Value;

use crate::samples::{dotted, dotted_compat, dotted_delayed, dotted_ladder};

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

#[test]
fn a_name_is_quoted_where_it_is_not_plain() {
    for (prefix, is_quoted) in [
        ("overdue_", false),
        ("_", false),
        ("v2_", false),
        ("2_", true),
        ("Shop", true),
        ("a-", true),
    ] {
        let request = DatabaseRequest { user_prefix: prefix, ..database_request(&["public"]) };
        let roles = DatabaseRole::all(&request);
        assert!(roles.iter().all(|role| role.name.starts_with('"') == is_quoted), "{prefix}");
    }
    // PostgreSQL reserves this name.
    let administrator = DatabaseRole::all(&database_request(&["order"])).remove(0);
    let created = "CREATE SCHEMA \"order\" AUTHORIZATION overdue_administrator";
    assert_eq!(administrator.before, [created]);
}

/// The order tables are in the same schema.
#[test]
fn nothing_is_granted_twice() {
    for role in DatabaseRole::all(&database_request(&["public"])) {
        let granted = role.grants.iter().map(|it| (it.privilege, &it.object));
        assert_eq!(granted.collect::<BTreeSet<_>>().len(), role.grants.len(), "{}", role.name);
    }
}

/// A topology with each strategy, and with every feature that has its own objects.
fn topologies() -> [Topology; 5] {
    let sharded = dotted_ladder().replace("after = \"3s\"", "after = \"3s\"\nshards = 2");
    let texts = [dotted_ladder(), dotted_delayed(), dotted_compat(), sharded];
    let [ladder, delayed, compat, sharded] = texts.map(|text| Topology::parse(&text).unwrap());
    [dotted(), ladder, delayed, compat, sharded]
}

/// Names of the objects that need a right.
fn names(object: &Object) -> Vec<String> {
    let ends: &[&str] = match object {
        Object::Named(_) => &[""],
        Object::Generations(_) => &[".2", ".17"],
        Object::Shards(_) => {
            &["", ".2", ".shards", ".shard-0", ".shard-0.2", ".shard-1", ".shard-1.2"]
        }
        Object::Below(_) => &[".a", ".a.b"],
    };
    ends.iter().map(|end| format!("{}{end}", object.name())).collect()
}

fn needed(role: &Role, right: Right) -> impl Iterator<Item = String> {
    let needs = role.needs.iter().filter(move |need| need.right == right);
    needs.flat_map(|need| names(&need.object))
}

fn allows(role: &Role, right: Right, name: &str) -> bool {
    Regex::new(&role.expression(right)).unwrap().is_match(name).unwrap()
}

/// The administrator's rights must outlive a change of the strategy.
#[test]
fn each_role_may_do_what_it_needs_and_nothing_else_with_the_objects_that_are_there() {
    let with_each_strategy = topologies().map(|topology| Role::all(&topology))[..3].concat();
    for topology in topologies() {
        let objects = topology.objects();
        let queues = objects.queues.keys().flat_map(|it| [it.clone(), format!("{it}.2")]);
        let others = [topology.lock_queue(), "other".to_owned(), "aXb.unpaid".to_owned()];
        let there: BTreeSet<String> =
            objects.exchanges.keys().cloned().chain(queues).chain(others).collect();
        for role in Role::all(&topology) {
            let later = with_each_strategy
                .iter()
                .filter(|it| it.name == "topology" && it.name == role.name);
            for right in Right::ALL {
                let needs: BTreeSet<String> =
                    later.clone().chain([&role]).flat_map(|it| needed(it, right)).collect();
                for name in there.union(&needs) {
                    let says = format!("{} {right} {name}: {}", role.name, role.expression(right));
                    assert_eq!(allows(&role, right, name), needs.contains(name), "{says}");
                }
            }
        }
    }
}

#[test]
fn a_worker_reads_every_business_queue_in_each_generation() {
    for topology in topologies() {
        let [_, worker, ..] = &Role::all(&topology)[..] else { panic!("four roles") };
        for queue in topology.timeouts.iter().flat_map(|it| topology.business_queues(it)) {
            for name in [queue.clone(), format!("{queue}.2")] {
                assert!(allows(worker, Right::Read, &name), "{name}");
            }
        }
    }
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

/// A topology with one of each object, so that no expression has alternatives.
fn minimal() -> Topology {
    let text = "name = 'x'\ndelay.levels = ['1s']\n[[timeout]]\nname = 'y'\nafter = '1s'";
    Topology::parse(text).unwrap()
}

/// Runs the script in a shell whose `rabbitmqctl` records its arguments.
fn run(script: &str) -> BTreeSet<Vec<String>> {
    let stub = r#"rabbitmqctl() { for word; do printf '%s\037' "$word"; done; printf '\036'; }"#;
    let run = Command::new("sh").arg("-eu").arg("-c").arg(format!("{stub}\n{script}")).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let calls = String::from_utf8(run.stdout).unwrap();
    let words = |call: &str| call.split_terminator('\u{1f}').map(str::to_owned).collect();
    calls.split_terminator('\u{1e}').map(words).collect()
}

/// The commands that are equal to an import of the definitions.
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
