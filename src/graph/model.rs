//! Builds the graph of a topology.

use super::{Count, Edge, Flow, Graph, Group, Kind, Live, Node};
use crate::{
    ladder::Ladder,
    text::{counted, duration, millis},
    topology::{
        Timeout, Topology, file::QueueType, level::Level, strategy::Strategy,
        taken_over_exchange::XDelay,
    },
};

impl Graph {
    /// The graph of `topology`; with `live`, it has names and counts of a broker.
    pub fn of(topology: &Topology, live: Option<&Live>) -> Self {
        let delays = delays(topology, live);
        let business = business(topology, live);
        let mut groups = vec![
            delaying(topology, &delays),
            Group {
                id: "business".to_owned(),
                title: "business queues".to_owned(),
                details: "one per timeout".to_owned(),
                nodes: business.iter().map(|node| node.id.clone()).collect(),
            },
        ];
        let mut nodes =
            vec![node("services", Kind::Publisher, "order services", &["any language"])];
        // With another strategy only messages of earlier levels pass these two exchanges.
        if !topology.levels.is_empty() {
            nodes.push(exchange("in", topology.entry_exchange(), "topic exchange"));
        }
        nodes.extend(delays);
        if topology.comes_out_at() == topology.due_exchange() {
            nodes.push(exchange("dlx", topology.due_exchange(), "topic exchange"));
        }
        nodes.extend(business);
        nodes.extend([
            node("worker", Kind::Worker, "overdue run", &["worker"]),
            node("database", Kind::Database, "PostgreSQL", &["orders, outbox"]),
            exchange("events", topology.events_exchange(), "topic exchange"),
            exchange("park", topology.park_exchange(), "fanout exchange"),
        ]);
        nodes.extend(parked(topology, live));
        let taken_over = taken_over(topology, live);
        groups.extend(taken_over_group(&taken_over));
        nodes.extend(taken_over);
        Self {
            name: topology.name.clone(),
            summary: summary(topology, live),
            nodes,
            groups,
            edges: [edges(topology), taken_over_edges(topology)].concat(),
            live: live.is_some(),
        }
    }
}

/// The frame of the delay queues.
fn delaying(topology: &Topology, nodes: &[Node]) -> Group {
    let (title, details) = match (&topology.strategy, topology.levels.is_empty()) {
        (Strategy::Levels, _) => ("delay levels", "a queue each, message TTL"),
        (Strategy::Ladder(_), true) => {
            ("ladder: an exchange per place", "a queue per digit, message TTL; 0 goes straight on")
        }
        (Strategy::Ladder(_), false) => {
            ("delay levels and a ladder", "a queue each, and a queue per digit; 0 goes straight on")
        }
        (Strategy::DelayedExchange, _) => {
            ("x-delayed-message (plugin)", "holds in memory of one node, in one copy")
        }
    };
    Group {
        id: "levels".to_owned(),
        title: title.to_owned(),
        details: details.to_owned(),
        nodes: nodes.iter().map(|node| node.id.clone()).collect(),
    }
}

fn summary(topology: &Topology, live: Option<&Live>) -> String {
    let count = |number: usize, noun: &str| crate::text::counted(number, noun);
    let mut parts = vec![
        format!("{} queues", topology.queue_type.as_str()),
        topology.delays_in_short(),
        count(topology.timeouts.len(), "timeout"),
    ];
    parts.extend(live.map(|live| {
        let total = live.total();
        let (count, messages) = (Count::Messages(total), crate::text::noun(total, "message"));
        format!("{count} {messages} in its queues, counted up to {} s ago", live.counted_within_s)
    }));
    parts.join(" · ")
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
    let mut nodes: Vec<Node> = levels.collect();
    match &topology.strategy {
        Strategy::Levels => {}
        Strategy::Ladder(ladder) => nodes.extend(places(ladder, live)),
        Strategy::DelayedExchange => nodes.push(Node {
            messages: live.map(|live| live.delayed),
            ..exchange("delayed", topology.delayed_exchange(), "any delay")
        }),
    }
    let gone = live.map_or(&[][..], |live| &live.retired_delays);
    nodes.extend(retired("delay", Kind::Delay, gone));
    nodes
}

/// A node for each place of a ladder, in the direction of the messages: largest first.
fn places<'a>(ladder: &'a Ladder, live: Option<&'a Live>) -> impl Iterator<Item = Node> + 'a {
    let places = ladder.places().iter().enumerate().rev();
    places.map(move |(at, place)| {
        let queues: Vec<String> =
            (1..=place.highest()).map(|it| ladder.queue(*place, it)).collect();
        let unit = millis(place.unit());
        let last = duration(unit.saturating_mul(place.highest().into()));
        let range = match place.highest() {
            1 => last,
            _ => format!("{} to {last}", duration(unit)),
        };
        Node {
            id: place_id(at),
            kind: Kind::Delay,
            name: ladder.exchange(*place),
            details: vec![vec![range, counted(queues.len(), "queue")]],
            messages: live.map(|live| live.sum(&queues)),
            retired: false,
        }
    })
}

fn place_id(index: usize) -> String {
    format!("place_{index}")
}

fn business(topology: &Topology, live: Option<&Live>) -> Vec<Node> {
    let timeouts = topology.timeouts.iter().enumerate().flat_map(|(at, timeout)| {
        let queues = topology.business_queues(timeout).into_iter().enumerate();
        queues.map(move |(shard, name)| {
            let id = match timeout.shards {
                None => format!("business_{at}"),
                Some(_) => format!("business_{at}_{shard}"),
            };
            queue(id, Kind::Business, name, rule(timeout), live)
        })
    });
    let gone = live.map_or(&[][..], |live| &live.retired_business);
    timeouts.chain(retired("business", Kind::Business, gone)).collect()
}

/// The rule of a timeout: routing key and effect, then its delays.
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
    let entry = !topology.levels.is_empty();
    let ladder = topology.strategy.ladder();
    let due = topology.comes_out_at() == topology.due_exchange();
    let given_up = match topology.queue_type {
        QueueType::Quorum => format!("over {} deliveries", topology.delivery_limit),
        QueueType::Classic => "rejected".to_owned(),
    };
    let mut edges = Vec::new();
    if entry {
        let first = topology.timeouts.first();
        let key = first.map(|timeout| Topology::routing_key(&timeout.after, timeout));
        edges.push(edge(
            "services",
            "in",
            key.as_deref().unwrap_or("<level>.<timeout>"),
            Flow::Onward,
        ));
        edges.push(edge("in", "levels", "<level>.*", Flow::Onward));
    }
    if ladder.is_some() {
        edges.push(edge("services", "levels", "any delay, as digits", Flow::Onward));
    }
    for at in (1..ladder.map_or(0, |ladder| ladder.places().len())).rev() {
        edges.push(edge(&place_id(at), &place_id(at - 1), "", Flow::Onward));
    }
    if due {
        edges.push(edge("levels", "dlx", "TTL over", Flow::Onward));
        edges.push(edge("dlx", "business", "#.<timeout>", Flow::Onward));
    } else {
        edges.push(edge("services", "levels", "<timeout>, x-delay", Flow::Onward));
        edges.push(edge("levels", "business", "#.<timeout>", Flow::Onward));
    }
    edges.push(edge("business", "worker", "batches", Flow::Onward));
    edges.push(edge("worker", "database", "one statement", Flow::Onward));
    edges.push(edge("database", "events", "outbox", Flow::Event));
    edges.push(edge("worker", "levels", &again(topology), Flow::Again));
    let unroutable = [("in", entry), ("levels", ladder.is_some()), ("dlx", due)];
    for (from, _) in unroutable.into_iter().filter(|(_, drawn)| *drawn) {
        edges.push(edge(from, "park", "no route", Flow::Unroutable));
    }
    edges.push(edge("business", "park", &given_up, Flow::Parked));
    edges.push(edge("worker", "park", "given up", Flow::Parked));
    edges.push(edge("park", "parked", "", Flow::Parked));
    edges
}

/// Messages that the worker republishes, and their destination.
fn again(topology: &Topology) -> String {
    let (to, early) = (topology.put_back_to(), "came early: wait for the rest");
    let levels: Vec<&str> = topology.retry.iter().map(Level::name).collect();
    if levels.is_empty() {
        return format!("{to}: {early}");
    }
    format!("{to}: retry after {} · {early}", levels.join(", then "))
}

/// Id of the frame.
const TAKEN_OVER: &str = "taken_over";
const OLD: &str = "old_name";
const BY_HEADER: &str = "old_in";
const LEVELS: &str = "old_levels";
const REST: &str = "old_rest";
const DUE: &str = "old_due";
const CONSUMERS: &str = "old_consumers";

/// Empty if the topology takes over no exchange.
fn taken_over(topology: &Topology, live: Option<&Live>) -> Vec<Node> {
    let Some(XDelay { exchange: old, routing }) = &topology.compat else { return Vec::new() };
    let entry = topology.objects().exchanges.get(old).map_or("", |it| it.kind.as_str()).to_owned();
    let mut nodes = vec![
        exchange(OLD, old.clone(), &format!("{entry} exchange")),
        exchange(BY_HEADER, topology.compat_in_exchange(), "headers exchange"),
    ];
    nodes.extend(taken_over_levels(topology, live));
    nodes.push(queue(
        REST.to_owned(),
        Kind::Business,
        topology.compat_queue(),
        vec![vec!["any other x-delay".to_owned()], vec!["a worker sends it on".to_owned()]],
        live,
    ));
    let due = format!("{} exchange", routing.as_str());
    nodes.push(exchange(DUE, topology.compat_due_exchange(), &due));
    nodes.push(node(CONSUMERS, Kind::Publisher, "their consumers", &["queues of their own"]));
    nodes
}

/// A single node for all levels, which differ only by the time.
fn taken_over_levels(topology: &Topology, live: Option<&Live>) -> Option<Node> {
    let levels = topology.compat_levels();
    let queues: Vec<String> = levels.map(|level| topology.compat_delay_queue(level)).collect();
    let name = match queues.as_slice() {
        [] => return None,
        [only] => only.clone(),
        _ => format!("{}.delay.*", topology.compat_queue()),
    };
    let details = vec![vec!["x-delay of a level".to_owned(), counted(queues.len(), "queue")]];
    let messages = live.map(|live| live.sum(&queues));
    Some(Node { id: LEVELS.to_owned(), kind: Kind::Delay, name, details, messages, retired: false })
}

fn taken_over_group(nodes: &[Node]) -> Option<Group> {
    (!nodes.is_empty()).then(|| Group {
        id: TAKEN_OVER.to_owned(),
        title: "taken over from the delayed message plugin".to_owned(),
        details: "its publishers and consumers go on as they are".to_owned(),
        nodes: nodes.iter().map(|node| node.id.clone()).collect(),
    })
}

fn taken_over_edges(topology: &Topology) -> Vec<Edge> {
    if topology.compat.is_none() {
        return Vec::new();
    }
    let all = [
        (OLD, BY_HEADER, ""),
        (BY_HEADER, LEVELS, "its x-delay"),
        (BY_HEADER, REST, "anything else"),
        (LEVELS, DUE, "TTL over"),
        (REST, DUE, "when due"),
        (DUE, CONSUMERS, "the old keys"),
    ];
    let there = |id: &str| id != LEVELS || topology.compat_levels().next().is_some();
    let drawn = all.into_iter().filter(|(from, to, _)| there(from) && there(to));
    let edges = drawn.map(|(from, to, label)| Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        label: label.to_owned(),
        flow: Flow::Onward,
    });
    edges.collect()
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

/// A queue of the topology, with name and count from `live`.
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
