//! The same topology for those who may not run `overdue` with rights: text for other tools.
//!
//! Each format is a pure function from the topology's objects to text. Where a format has an order, it is
//! the one of the plan for an empty virtual host: a thing comes after everything it leads to.

pub(crate) mod definitions;
pub(crate) mod kubernetes;
pub(crate) mod ladder;
mod names;
pub(crate) mod rabbitmqadmin;
pub(crate) mod terraform;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{
    objects::{Binding, Exchange, Queue, arguments_json, mark::mark},
    plan::{Change, diff::diff, snapshot::Snapshot},
    topology::Topology,
};

/// One object to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An exchange.
    Exchange(Exchange),
    /// A queue.
    Queue(Queue),
    /// A binding.
    Binding(Binding),
}

/// The objects of `topology` in the order in which they are created.
pub fn items(topology: &Topology) -> Vec<Item> {
    let plan = diff(topology, &Snapshot::default(), &BTreeSet::new());
    let items = |change| match change {
        Change::CreateExchange(exchange) => {
            let mark = topology.exchange_mark(&exchange.name).map(Item::Binding);
            std::iter::once(Item::Exchange(exchange)).chain(mark).collect()
        }
        Change::CreateQueue(queue) => {
            let mark = mark(&topology.name, &queue.name).map(Item::Binding);
            std::iter::once(Item::Queue(queue)).chain(mark).collect()
        }
        Change::Bind(binding) => vec![Item::Binding(binding)],
        // There is nothing yet that could be deleted.
        Change::Leave(_)
        | Change::Unbind(_)
        | Change::DeleteExchange { .. }
        | Change::DeleteQueue { .. } => Vec::new(),
    };
    plan.steps.into_iter().flat_map(|step| items(step.change)).collect()
}

/// `queue` or `exchange`.
fn destination_type(binding: &Binding) -> &'static str {
    if binding.to_queue { "queue" } else { "exchange" }
}

/// A queue's arguments with its type, for formats that have no other place for it.
fn arguments_with_type(queue: &Queue) -> Map<String, Value> {
    let mut all = arguments_json(&queue.arguments);
    all.insert("x-queue-type".to_owned(), Value::from(queue.kind.as_str()));
    all
}
