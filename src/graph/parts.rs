//! Boxes of a picture.

use super::{Kind, Live, Node};

pub(super) fn node(id: &str, kind: Kind, name: &str, details: &[&str]) -> Node {
    Node {
        id: id.to_owned(),
        kind,
        name: name.to_owned(),
        details: details.iter().map(|text| vec![(*text).to_owned()]).collect(),
        messages: None,
        retired: false,
    }
}

pub(super) fn exchange(id: &str, name: String, what: &str) -> Node {
    Node { name, ..node(id, Kind::Exchange, "", &[what]) }
}

/// A queue of the topology, with what `live` knows of it.
pub(super) fn queue(
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
