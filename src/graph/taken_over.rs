//! `[compat.x-delay]` in the picture: the way of messages that were published for the plugin.

use super::{
    Edge, Flow, Group, Kind, Live, Node,
    parts::{exchange, node, queue},
};
use crate::{
    text::counted,
    topology::{Topology, taken_over_exchange::XDelay},
};

/// The frame.
pub(super) const GROUP: &str = "taken_over";
const OLD: &str = "old_name";
const BY_HEADER: &str = "old_in";
const LEVELS: &str = "old_levels";
const REST: &str = "old_rest";
const DUE: &str = "old_due";
const CONSUMERS: &str = "old_consumers";

/// Boxes in the order in which messages pass them; those of one column together.
pub(super) const COLUMNS: [&[&str]; 5] =
    [&[OLD], &[BY_HEADER], &[LEVELS, REST], &[DUE], &[CONSUMERS]];

/// Nothing where nothing is taken over.
pub(super) fn nodes(topology: &Topology, live: Option<&Live>) -> Vec<Node> {
    let Some(XDelay { exchange: old, routing }) = &topology.compat else { return Vec::new() };
    let entry = topology.objects().exchanges.get(old).map_or("", |it| it.kind.as_str()).to_owned();
    let mut nodes = vec![
        exchange(OLD, old.clone(), &format!("{entry} exchange, the old name")),
        exchange(BY_HEADER, topology.compat_in_exchange(), "headers exchange"),
    ];
    nodes.extend(levels(topology, live));
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

/// One box for all levels: they differ by nothing but the time.
fn levels(topology: &Topology, live: Option<&Live>) -> Option<Node> {
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

pub(super) fn group(nodes: &[Node]) -> Option<Group> {
    (!nodes.is_empty()).then(|| Group {
        id: GROUP.to_owned(),
        title: "taken over from the delayed message plugin".to_owned(),
        details: "its publishers and consumers go on as they are".to_owned(),
        nodes: nodes.iter().map(|node| node.id.clone()).collect(),
    })
}

pub(super) fn edges(topology: &Topology) -> Vec<Edge> {
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
