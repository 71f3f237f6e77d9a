//! A virtual host that others use, too.

use std::collections::BTreeMap;

use overdue::internals::{
    objects::{Binding, Exchange, Queue},
    plan::Snapshot,
    topology::Topology,
    verify::findings,
};

use super::NOW;
use crate::samples::LADDER;

/// 200 exchanges, each with 100 queues that are bound to it.
fn neighbours(observed: &mut Snapshot) {
    let plain = &observed.objects.exchanges["orders.in"];
    let exchange = |name: String| Exchange { name, ..plain.clone() };
    let exchanges: Vec<Exchange> = (0..200).map(|x| exchange(format!("theirs.{x}"))).collect();
    let queue = &observed.objects.queues["orders.parked"];
    let queues: Vec<Queue> =
        (0..20_000).map(|q| Queue { name: format!("theirs.{q}"), ..queue.clone() }).collect();
    for (at, queue) in queues.into_iter().enumerate() {
        observed.objects.bindings.insert(Binding {
            source: format!("theirs.{}", at % 200),
            destination: queue.name.clone(),
            to_queue: true,
            routing_key: format!("key.{at}.#"),
            arguments: BTreeMap::new(),
        });
        observed.objects.queues.insert(queue.name.clone(), queue);
    }
    observed.objects.exchanges.extend(exchanges.into_iter().map(|it| (it.name.clone(), it)));
}

#[test]
fn twenty_thousand_bindings_of_others() {
    let topology = Topology::parse(LADDER).unwrap();
    let mut observed = Snapshot::of(&topology);
    neighbours(&mut observed);
    assert_eq!(findings(&topology, &observed, &BTreeMap::new(), NOW), []);
    // One of them leads back, through two exchanges of theirs: it is still found.
    for (source, destination) in
        [("orders.dlx", "theirs.0"), ("theirs.0", "theirs.1"), ("theirs.1", "orders.ladder.1s")]
    {
        observed.objects.bindings.insert(Binding {
            source: source.to_owned(),
            destination: destination.to_owned(),
            to_queue: false,
            routing_key: "#".to_owned(),
            arguments: BTreeMap::new(),
        });
    }
    let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
    let rules: Vec<&str> = found.iter().map(|found| found.rule).collect();
    assert!(rules.contains(&"dead-letter-cycle"), "{rules:?}");
}
