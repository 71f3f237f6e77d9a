//! A broker that took in what was exported has nothing left to plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use overdue::internals::{
    broker::apply,
    export::{definitions, rabbitmqadmin},
    topology::Topology,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Services, World,
    samples::{LADDER, dotted_compat, dotted_ladder, named},
};

async fn assert_complete(world: &World, topology: &Topology) {
    let management = world.management();
    let (plan, _) = apply::plan(&management, topology, &BTreeSet::new()).await.unwrap();
    assert!(plan.is_empty() && plan.draining.is_empty(), "{plan}");
}

/// As definitions, and as commands of rabbitmqadmin.
pub(crate) async fn assert_exports_are_complete(services: Services, text: &str) {
    let world = World::bare(services.clone(), text).await;
    let body = exported(&world.topology, &world, false);
    world.call(Method::POST, "definitions", &[], body).await;
    assert_complete(&world, &world.topology).await;

    let world = World::bare(services, text).await;
    for words in run(&rabbitmqadmin::render(&world.topology, &world.vhost)) {
        carry_out(&world, &words).await;
    }
    assert_complete(&world, &world.topology).await;
}

#[apply(world_test)]
async fn a_ladder() {
    assert_exports_are_complete(Services::main(), LADDER).await;
    assert_exports_are_complete(Services::main(), &dotted_ladder()).await;
}

#[apply(world_test)]
async fn an_exchange_that_is_taken_over() {
    assert_exports_are_complete(Services::main(), &dotted_compat()).await;
}

fn exported(topology: &Topology, world: &World, create_vhost: bool) -> Value {
    serde_json::from_str(&definitions::render(topology, &world.vhost, create_vhost)).unwrap()
}

#[apply(world_test)]
async fn definitions_imported_into_a_virtual_host() {
    for queue_type in ["quorum", "classic"] {
        let (topology, world) = (named("a.b", queue_type), World::empty().await);
        let path = ["definitions", &world.vhost];
        world
            .services
            .call(None, Method::POST, &path, exported(&topology, &world, false))
            .await
            .unwrap();
        assert_complete(&world, &topology).await;
    }
}

#[apply(world_test)]
async fn definitions_imported_as_a_whole_leave_the_virtual_host_as_it_is() {
    let (topology, world) = (named("a.b", "quorum"), World::empty().await);
    let path = ["vhosts", &world.vhost];
    let properties = json!({ "description": "a shop", "default_queue_type": "quorum" });
    world.services.call(None, Method::PUT, &path, properties).await.unwrap();
    let before = world.services.call(None, Method::GET, &path, Value::Null).await.unwrap();
    let body = exported(&topology, &world, false);
    world.services.call(None, Method::POST, &["definitions"], body).await.unwrap();
    assert_complete(&world, &topology).await;
    let after = world.services.call(None, Method::GET, &path, Value::Null).await.unwrap();
    assert_eq!(after["metadata"], before["metadata"]);
    assert_eq!(after["metadata"]["description"], "a shop");
}

#[apply(world_test)]
async fn definitions_create_the_virtual_host_where_asked() {
    let (topology, world) = (named("a.b", "quorum"), World::empty().await);
    world
        .services
        .call(None, Method::DELETE, &["vhosts", &world.vhost], Value::Null)
        .await
        .unwrap();
    let import = |create_vhost| {
        world.services.call(
            None,
            Method::POST,
            &["definitions"],
            exported(&topology, &world, create_vhost),
        )
    };
    let refused = import(false).await.unwrap_err();
    assert!(refused.contains("create virtual host"), "{refused}");
    import(true).await.unwrap();
    assert_complete(&world, &topology).await;
}

#[apply(world_test)]
async fn rabbitmqadmin_commands() {
    for queue_type in ["quorum", "classic"] {
        let (topology, world) = (named("-a.b", queue_type), World::empty().await);
        for words in run(&rabbitmqadmin::render(&topology, &world.vhost)) {
            carry_out(&world, &words).await;
        }
        assert_complete(&world, &topology).await;
    }
}

/// Runs the script in a shell whose `rabbitmqadmin` writes down how it was called.
fn run(script: &str) -> Vec<Vec<String>> {
    let stub = r#"rabbitmqadmin() { for word; do printf '%s\037' "$word"; done; printf '\036'; }"#;
    let run = Command::new("sh").arg("-c").arg(format!("{stub}\n{script}")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let calls = String::from_utf8(run.stdout).unwrap();
    let words = |call: &str| call.split_terminator('\u{1f}').map(str::to_owned).collect();
    calls.split_terminator('\u{1e}').map(words).collect()
}

/// Does what rabbitmqadmin 2.35 does with these words (its `src/commands.rs`), and knows no others.
async fn carry_out(world: &World, words: &[String]) {
    let (mut options, mut command) = (BTreeMap::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (word.strip_prefix("--"), word.split_once('=')) {
            (None, _) => command.push(word.as_str()),
            (Some(_), Some((name, value))) => drop(options.insert(name, value)),
            (Some(_), None) => drop(options.insert(word.as_str(), words.next().unwrap().as_str())),
        }
    }
    let mut take = |name: &str| options.remove(name);
    let vhost = take("--vhost").unwrap();
    let arguments: Value = serde_json::from_str(take("--arguments").unwrap_or("{}")).unwrap();
    let mut flag = |name: &str| take(name).unwrap().parse::<bool>().unwrap();
    let (path, how, body) = match command.as_slice() {
        ["exchanges", "declare"] => {
            let body = json!({ "durable": flag("--durable"), "auto_delete": flag("--auto-delete"),
                "type": take("--type").unwrap(), "arguments": arguments });
            (vec!["exchanges", vhost, take("--name").unwrap()], Method::PUT, body)
        }
        ["queues", "declare"] => {
            let (durable, auto_delete) = (flag("--durable"), flag("--auto-delete"));
            let mut arguments = arguments;
            arguments["x-queue-type"] = take("--type").unwrap().into();
            let body =
                json!({ "durable": durable, "auto_delete": auto_delete, "arguments": arguments });
            (vec!["queues", vhost, take("--name").unwrap()], Method::PUT, body)
        }
        ["exchanges", "bind"] => {
            let to_type = match take("--destination-type").unwrap() {
                "queue" => "q",
                "exchange" => "e",
                other => panic!("no such destination: {other}"),
            };
            let body =
                json!({ "routing_key": take("--routing-key").unwrap(), "arguments": arguments });
            let (source, to) = (take("--source").unwrap(), take("--destination").unwrap());
            (vec!["bindings", vhost, "e", source, to_type, to], Method::POST, body)
        }
        other => panic!("no such command: {other:?}"),
    };
    assert!(options.is_empty(), "{options:?}");
    world.services.call(None, how, &path, body).await.unwrap();
}
