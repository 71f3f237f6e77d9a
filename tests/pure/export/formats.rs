//! Snapshots of every format, and the order of what has one.

use std::collections::{BTreeMap, BTreeSet};

use overdue::internals::{
    export::{Item, definitions, items, kubernetes, rabbitmqadmin, terraform},
    objects::Argument,
    topology::Topology,
};

use crate::samples;

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
    for topology in topologies() {
        assert_ordered(&topology);
    }
}

/// One of each strategy.
fn topologies() -> Vec<Topology> {
    let texts = [samples::dotted_ladder(), samples::dotted_delayed(), samples::dotted_compat()];
    let others = texts.iter().map(|text| Topology::parse(text).unwrap());
    [samples::named("a_b.c", "quorum")].into_iter().chain(others).collect()
}

fn assert_ordered(topology: &Topology) {
    let mut there = BTreeSet::new();
    for item in items(topology) {
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

/// Terraform finds an order by itself, where there is one: no circle, and no resource that is not there.
#[test]
fn terraform_can_create_one_resource_after_the_other() {
    for topology in topologies() {
        assert_can_be_ordered(&terraform::render(&topology, "/"));
    }
}

/// Neither of their tools is here; no object and no binding is left out.
#[test]
fn terraform_and_kubernetes_have_every_object() {
    let target = || kubernetes::Target {
        vhost: "/".to_owned(),
        cluster: "rabbit".to_owned(),
        namespace: None,
    };
    for topology in topologies() {
        let objects = topology.objects();
        let wanted = [objects.exchanges.len(), objects.queues.len(), objects.bindings.len()];
        let text = terraform::render(&topology, "/");
        let resources = ["exchange", "queue", "binding"]
            .map(|kind| text.matches(&format!("resource \"rabbitmq_{kind}\"")).count());
        assert_eq!(resources, wanted, "{text}");
        let text = kubernetes::render(&topology, &target());
        let kinds = ["Exchange", "Queue", "Binding"]
            .map(|kind| text.lines().filter(|line| *line == format!("kind: {kind}")).count());
        assert_eq!(kinds, wanted, "{text}");
    }
}

fn assert_can_be_ordered(text: &str) {
    let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut of = String::new();
    for line in text.lines() {
        if let Some(resource) = line.strip_prefix("resource ") {
            let words: Vec<&str> = resource.split('"').collect();
            of = format!("{}.{}", words[1], words[3]);
            assert!(left.insert(of.clone(), BTreeSet::new()).is_none(), "{of} twice");
            continue;
        }
        let value = line.rsplit(" = ").next().unwrap().trim().trim_end_matches(',');
        if value.starts_with("rabbitmq_") {
            let referred = value.trim_end_matches(".name").to_owned();
            left.get_mut(&of).unwrap().insert(referred);
        }
    }
    assert!(left.values().map(BTreeSet::len).sum::<usize>() > 10, "{text}");
    while !left.is_empty() {
        let next = |needed: &BTreeSet<String>| needed.is_empty();
        let ready: Vec<String> =
            left.iter().filter(|(_, needed)| next(needed)).map(|(name, _)| name.clone()).collect();
        assert!(!ready.is_empty(), "a circle, or not there: {left:?}");
        for name in ready {
            left.remove(&name);
            for needed in left.values_mut() {
                needed.remove(&name);
            }
        }
    }
}
