//! Snapshots of every format, and the order of what has one.

use std::collections::BTreeSet;

use overdue::internals::{
    export::{Item, definitions, items, kubernetes, rabbitmqadmin, terraform},
    objects::Argument,
    topology::Topology,
};

fn tiny() -> Topology {
    let text =
        "name = 'orders'\ndelay.levels = ['30m']\n[[timeout]]\nname = 'unpaid'\nafter = '30m'";
    Topology::parse(text).unwrap()
}

#[test]
fn definitions() {
    insta::assert_snapshot!(definitions::render(&tiny(), "/", false));
}

#[test]
fn definitions_with_the_virtual_host() {
    let text = definitions::render(&tiny(), "a \"shop\"", true);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["vhosts"], serde_json::json!([{ "name": "a \"shop\"" }]));
    assert!(!definitions::render(&tiny(), "/", false).contains("vhosts"));
}

#[test]
fn rabbitmqadmin() {
    insta::assert_snapshot!(rabbitmqadmin::render(&tiny(), "it's mine"));
}

#[test]
fn terraform() {
    insta::assert_snapshot!(terraform::render(&tiny(), "${a}%{b}\"c"));
}

#[test]
fn kubernetes() {
    let target = kubernetes::Target {
        vhost: "/".to_owned(),
        cluster: "rabbit".to_owned(),
        namespace: Some("shop".to_owned()),
    };
    insta::assert_snapshot!(kubernetes::render(&tiny(), &target));
}

/// Whoever stops in the middle has nothing that leads nowhere.
#[test]
fn a_thing_comes_after_everything_it_leads_to() {
    let mut there = BTreeSet::new();
    let topology = crate::samples::named("orders", "quorum");
    for item in items(&topology) {
        let (name, leads_to) = match &item {
            Item::Exchange(exchange) => {
                (exchange.name.clone(), exchange.arguments.get("alternate-exchange"))
            }
            Item::Queue(queue) => {
                (queue.name.clone(), queue.arguments.get("x-dead-letter-exchange"))
            }
            Item::Binding(binding) => {
                assert!(there.contains(&binding.source), "{item:?}");
                assert!(there.contains(&binding.destination), "{item:?}");
                continue;
            }
        };
        if let Some(Argument::Text(target)) = leads_to {
            assert!(there.contains(target), "{item:?}");
        }
        there.insert(name);
    }
    let objects = topology.objects();
    assert_eq!(there.len(), objects.exchanges.len() + objects.queues.len());
}

/// So the graph has no cycle, and no resource is named that is not there.
#[test]
fn terraform_refers_only_to_what_stands_above() {
    let text = terraform::render(&crate::samples::named("a_b.c", "quorum"), "/");
    let mut above = BTreeSet::new();
    let mut references = 0;
    for line in text.lines() {
        if let Some(resource) = line.strip_prefix("resource ") {
            let words: Vec<&str> = resource.split('"').collect();
            above.insert(format!("{}.{}", words[1], words[3]));
            continue;
        }
        let value = line.rsplit(" = ").next().unwrap().trim().trim_end_matches(',');
        if value.starts_with("rabbitmq_") {
            references += 1;
            assert!(above.contains(value.trim_end_matches(".name")), "{line}");
        }
    }
    assert!(references > 10, "{references}");
}
