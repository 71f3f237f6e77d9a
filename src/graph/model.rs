//! From a topology to what is drawn.

use super::{Count, Edge, Flow, Graph, Group, Kind, Live, Node};
use crate::topology::{Timeout, Topology, file::QueueType, level::Level};

impl Graph {
    /// The picture of `topology`; with `live`, the names and counts of a broker on it.
    #[must_use]
    pub fn of(topology: &Topology, live: Option<&Live>) -> Self {
        let delays = delays(topology, live);
        let business = business(topology, live);
        let groups = vec![
            Group {
                id: "levels".to_owned(),
                title: "delay levels".to_owned(),
                details: "a queue each, message TTL".to_owned(),
                nodes: delays.iter().map(|node| node.id.clone()).collect(),
            },
            Group {
                id: "business".to_owned(),
                title: "business queues".to_owned(),
                details: "one per timeout".to_owned(),
                nodes: business.iter().map(|node| node.id.clone()).collect(),
            },
        ];
        let mut nodes = vec![
            node("services", Kind::Publisher, "order services", &["any language"]),
            exchange("in", topology.entry_exchange(), "topic exchange"),
            exchange("dlx", topology.due_exchange(), "topic exchange"),
            node("worker", Kind::Worker, "overdue run", &["worker"]),
            node("database", Kind::Database, "PostgreSQL", &["orders, outbox"]),
            exchange("events", topology.events_exchange(), "topic exchange"),
            exchange("park", topology.park_exchange(), "fanout exchange"),
        ];
        nodes.splice(2..2, delays);
        let before_worker = nodes.len() - 4;
        nodes.splice(before_worker..before_worker, business);
        nodes.extend(parked(topology, live));
        let live_total = live.map(Live::total);
        Self {
            name: topology.name.clone(),
            summary: summary(topology, live_total),
            nodes,
            groups,
            edges: edges(topology),
            live: live.is_some(),
        }
    }
}

fn summary(topology: &Topology, live_total: Option<u64>) -> String {
    let count = |number: usize, noun: &str| crate::text::counted(number, noun);
    let mut parts = vec![
        format!("{} queues", topology.queue_type.as_str()),
        topology.delays_in_short(),
        count(topology.timeouts.len(), "timeout"),
    ];
    parts.extend(live_total.map(|total| match Count::Messages(total) {
        Count::Messages(1) => "1 message in its queues now".to_owned(),
        total => format!("{total} messages in its queues now"),
    }));
    parts.join(" · ")
}

fn node(id: &str, kind: Kind, name: &str, details: &[&str]) -> Node {
    Node {
        id: id.to_owned(),
        kind,
        name: name.to_owned(),
        details: details.iter().map(|text| vec![(*text).to_owned()]).collect(),
        messages: None,
        retired: false,
    }
}

fn exchange(id: &str, name: String, what: &str) -> Node {
    Node { name, ..node(id, Kind::Exchange, "", &[what]) }
}

/// A queue of the topology, with what `live` knows of it.
fn queue(
    id: String,
    kind: Kind,
    base: String,
    details: Vec<Vec<String>>,
    live: Option<&Live>,
) -> Node {
    let current = live.map(|live| live.current(&base));
    let (name, messages) = current.map_or((base, None), |(name, count)| (name, Some(count)));
    Node { id, kind, name, details, messages, retired: false }
}

fn retired<'a>(
    prefix: &'a str,
    kind: Kind,
    queues: &'a [(String, Count)],
) -> impl Iterator<Item = Node> {
    queues.iter().enumerate().map(move |(at, (name, count))| Node {
        id: format!("{prefix}_retired_{at}"),
        kind,
        name: name.clone(),
        details: vec![vec!["retired".to_owned()]],
        messages: Some(*count),
        retired: true,
    })
}

fn delays(topology: &Topology, live: Option<&Live>) -> Vec<Node> {
    let levels = topology.delay_queues().map(|(level, name)| {
        let id = format!("delay_{}", level.name());
        queue(id, Kind::Delay, name, vec![vec![level.name().to_owned()]], live)
    });
    let gone = live.map_or(&[][..], |live| &live.retired_delays);
    levels.chain(retired("delay", Kind::Delay, gone)).collect()
}

fn business(topology: &Topology, live: Option<&Live>) -> Vec<Node> {
    let timeouts = topology.timeouts.iter().enumerate().map(|(at, timeout)| {
        let name = topology.business_queue(timeout);
        queue(format!("business_{at}"), Kind::Business, name, rule(timeout), live)
    });
    let gone = live.map_or(&[][..], |live| &live.retired_business);
    timeouts.chain(retired("business", Kind::Business, gone)).collect()
}

/// What a timeout says: what comes to it and what is done, then when.
fn rule(timeout: &Timeout) -> Vec<Vec<String>> {
    let by_category = timeout.after_by_category.iter();
    let mut after = vec![format!("after {}", timeout.after)];
    after.extend(by_category.map(|(category, level)| format!("{category} {level}")));
    vec![vec![format!("#.{}", timeout.name), format!("effect {}", timeout.effect)], after]
}

fn parked(topology: &Topology, live: Option<&Live>) -> Vec<Node> {
    let details = ["parking lot", "reason in x-park-reason"].map(|line| vec![line.to_owned()]);
    let name = topology.parked_queue();
    let lot = queue("parked".to_owned(), Kind::Parked, name, details.to_vec(), live);
    let gone = live.map_or(&[][..], |live| &live.retired_parked);
    std::iter::once(lot).chain(retired("parked", Kind::Parked, gone)).collect()
}

fn edges(topology: &Topology) -> Vec<Edge> {
    let edge = |from: &str, to: &str, label: &str, flow: Flow| Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        label: label.to_owned(),
        flow,
    };
    let first = topology.timeouts.first();
    let key = first.map(|timeout| Topology::routing_key(&timeout.after, timeout));
    let given_up = match topology.queue_type {
        QueueType::Quorum => format!("delivered over {} times", topology.delivery_limit),
        QueueType::Classic => "rejected".to_owned(),
    };
    vec![
        edge("services", "in", key.as_deref().unwrap_or("<level>.<timeout>"), Flow::Onward),
        edge("in", "levels", "<level>.*", Flow::Onward),
        edge("levels", "dlx", "TTL over", Flow::Onward),
        edge("dlx", "business", "#.<timeout>", Flow::Onward),
        edge("business", "worker", "batches", Flow::Onward),
        edge("worker", "database", "one statement", Flow::Onward),
        edge("database", "events", "outbox", Flow::Event),
        edge("worker", "in", &again(&topology.retry), Flow::Again),
        edge("in", "park", "no route", Flow::Unroutable),
        edge("dlx", "park", "no route", Flow::Unroutable),
        edge("business", "park", &given_up, Flow::Parked),
        edge("worker", "park", "given up", Flow::Parked),
        edge("park", "parked", "", Flow::Parked),
    ]
}

/// What the worker publishes to the entry again.
fn again(retry: &[Level]) -> String {
    let early = "came early: wait for the rest";
    if retry.is_empty() {
        return early.to_owned();
    }
    let levels: Vec<&str> = retry.iter().map(Level::name).collect();
    format!("retry after {} · {early}", levels.join(", then "))
}
