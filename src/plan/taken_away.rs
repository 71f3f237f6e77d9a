//! What another topology file would take away from one that is in use.

use std::collections::BTreeMap;

use crate::{
    objects::{Binding, Objects},
    topology::Topology,
};

/// Each exchange, queue and binding of `in_use` that `file` lacks or has otherwise; empty where `file` only adds.
#[must_use]
pub fn taken_away(in_use: &Topology, file: &Topology) -> Vec<String> {
    let (in_use, file): (Objects, Objects) = (in_use.objects(), file.objects());
    let exchanges = changed("exchange", &in_use.exchanges, &file.exchanges);
    let queues = changed("queue", &in_use.queues, &file.queues);
    let bindings = in_use.bindings.difference(&file.bindings).map(binding);
    exchanges.into_iter().chain(queues).chain(bindings).collect()
}

fn changed<T: PartialEq>(
    kind: &str,
    in_use: &BTreeMap<String, T>,
    file: &BTreeMap<String, T>,
) -> Vec<String> {
    let each = in_use.iter().filter_map(|(name, object)| match file.get(name) {
        Some(same) if same == object => None,
        Some(_) => Some(format!("{kind} {name} (with other arguments)")),
        None => Some(format!("{kind} {name}")),
    });
    each.collect()
}

fn binding(Binding { source, destination, routing_key, .. }: &Binding) -> String {
    format!("binding {source} to {destination} ({routing_key})")
}
