//! Waiting messages in the picture: the generation in use, and retired queues that drain.

use overdue::internals::{
    graph::{Count, Graph, Live, mermaid},
    plan::Snapshot,
    topology::{Topology, file::QueueType},
};

use crate::samples::WITHOUT_FINDINGS;

/// A broker after a change of the queues' type and the removal of a level and a timeout; waiting messages drain.
fn changed() -> (Topology, Snapshot) {
    let mut then = Topology::parse(WITHOUT_FINDINGS).expect("the good file");
    then.queue_type = QueueType::Classic;
    then.levels.push("1d".parse().expect("a level"));
    let mut gone = then.timeouts[0].clone();
    "unshipped".clone_into(&mut gone.name);
    then.timeouts.push(gone);
    let mut snapshot = Snapshot::of(&then);
    let now = Topology::parse(WITHOUT_FINDINGS).expect("the good file");
    for (name, queue) in now.objects().queues {
        let name = format!("{name}.2");
        let renamed = overdue::internals::objects::Queue { name: name.clone(), ..queue };
        snapshot.objects.queues.insert(name.clone(), renamed);
        snapshot.messages.insert(name, 0);
    }
    let waiting = [
        ("orders.delay.30m", 1_234_567),
        ("orders.delay.30m.2", 88),
        ("orders.delay.1d", 37),
        ("orders.unshipped", 420),
        ("orders.parked", 3),
    ];
    snapshot.messages.extend(waiting.map(|(name, count)| (name.to_owned(), count)));
    snapshot.messages.remove("orders.delay.5s.2");
    (now, snapshot)
}

#[test]
fn the_generation_in_use_and_those_that_drain() {
    let (topology, snapshot) = changed();
    let graph = Graph::of(&topology, Some(&Live::of(&topology, &snapshot)));
    let found = |name: &str| {
        let mut nodes = graph.nodes.iter().filter(|node| node.name == name);
        let node = nodes.next().unwrap_or_else(|| panic!("{name} is not shown"));
        assert_eq!(nodes.count(), 0, "{name} is shown twice");
        (node.messages, node.retired)
    };
    assert_eq!(found("orders.delay.30m.2"), (Some(Count::Messages(88)), false));
    assert_eq!(found("orders.delay.30m"), (Some(Count::Messages(1_234_567)), true));
    assert_eq!(found("orders.delay.1d"), (Some(Count::Messages(37)), true));
    assert_eq!(found("orders.unshipped"), (Some(Count::Messages(420)), true));
    assert_eq!(found("orders.parked"), (Some(Count::Messages(3)), true));
    assert_eq!(found("orders.delay.5s.2"), (Some(Count::Unknown), false));
    assert!(
        graph.summary.ends_with("1,235,115 messages in its queues, counted up to 10 s ago"),
        "{}",
        graph.summary
    );
    insta::assert_snapshot!(mermaid::render(&graph));
}

#[test]
fn a_broker_without_the_topology() {
    let topology = Topology::parse(WITHOUT_FINDINGS).expect("the good file");
    let graph = Graph::of(&topology, Some(&Live::of(&topology, &Snapshot::default())));
    let queues = graph.nodes.iter().filter_map(|node| node.messages);
    let queues: Vec<Count> = queues.collect();
    assert_eq!(queues, vec![Count::Absent; topology.objects().queues.len()]);
}

/// A queue that only shares the prefix belongs to another program.
#[test]
fn foreign_queues_are_not_shown() {
    let topology = Topology::parse(WITHOUT_FINDINGS).expect("the good file");
    let mut snapshot = Snapshot::of(&topology);
    let mut foreign = snapshot.objects.queues["orders.parked"].clone();
    foreign.name = "orders.reports".to_owned();
    snapshot.objects.queues.insert(foreign.name.clone(), foreign);
    let graph = Graph::of(&topology, Some(&Live::of(&topology, &snapshot)));
    assert!(graph.nodes.iter().all(|node| node.name != "orders.reports"));
}

#[test]
fn counts_have_commas() {
    for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
        assert_eq!(Count::Messages(count).to_string(), text);
    }
    assert_eq!(Count::Messages(u64::MAX).to_string(), "18,446,744,073,709,551,615");
}

/// A place is one box with the sum of its queues.
#[test]
fn a_place_has_the_sum_of_its_queues() {
    let topology = Topology::parse(crate::samples::LADDER).expect("a good file");
    let mut snapshot = Snapshot::of(&topology);
    for (queue, count) in [("3m", 30), ("9m", 12), ("10m", 5)] {
        snapshot.messages.insert(format!("orders.ladder.delay.{queue}"), count);
    }
    snapshot.messages.retain(|queue, _| !queue.ends_with('h'));
    let graph = Graph::of(&topology, Some(&Live::of(&topology, &snapshot)));
    let of = |unit: &str| {
        let name = format!("orders.ladder.{unit}");
        graph.nodes.iter().find(|node| node.name == name).expect("a place").messages
    };
    assert_eq!(of("1m"), Some(Count::Messages(42)));
    assert_eq!(of("10m"), Some(Count::Messages(5)));
    assert_eq!(of("1h"), Some(Count::Unknown));
    assert_eq!(of("1d"), Some(Count::Messages(0)));
    let none = Graph::of(&topology, Some(&Live::of(&topology, &Snapshot::default())));
    assert!(none.nodes.iter().filter_map(|node| node.messages).all(|count| count == Count::Absent));
}

/// The plugin's exchange has its own count, if one node reports it.
#[test]
fn what_the_plugin_holds() {
    let topology = Topology::parse(crate::samples::DELAYED).expect("a good file");
    let mut snapshot = Snapshot::of(&topology);
    let shown = |snapshot: &Snapshot| {
        let graph = Graph::of(&topology, Some(&Live::of(&topology, snapshot)));
        (graph.node("delayed").expect("the exchange").messages, graph.summary)
    };
    assert_eq!(shown(&snapshot).0, Some(Count::Messages(0)));
    snapshot.delayed.clear();
    assert_eq!(shown(&snapshot).0, Some(Count::Unknown));
    snapshot.delayed.insert("orders.delayed".to_owned(), 7);
    let (count, summary) = shown(&snapshot);
    assert_eq!(count, Some(Count::Messages(7)));
    assert!(summary.ends_with("7 messages in its queues, counted up to 10 s ago"), "{summary}");
}
