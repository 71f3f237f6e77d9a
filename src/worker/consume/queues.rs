//! The queues of a timeout: more than one while a retired generation drains, none if they were deleted.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout;

use crate::{
    administration::Management,
    messaging::{Link, passive},
    plan::generation::{is_of, name_of, number_of},
    topology::Timeout,
    worker::context::Worker,
};

/// The names of the queues of each timeout.
pub(super) type ByTimeout<'a> = Vec<(&'a Timeout, BTreeSet<String>)>;

/// The queues that a session knows.
pub(super) struct Known {
    pub(super) consumed: BTreeSet<String>,
    /// Queues that could not be consumed.
    pub(super) troubled: BTreeSet<String>,
}

/// The existing queues, and whether the management API listed them. Otherwise these are the consumed queues, the queues of
/// the topology file, and the next generation of each.
pub(super) async fn find<'a>(
    worker: &'a Worker,
    link: &Link,
    known: &Known,
) -> (ByTimeout<'a>, bool) {
    let listing = listed(worker, &known.consumed);
    let listed = timeout(worker.timing.listing, listing).await.ok().flatten();
    let mut queues = Vec::new();
    for timeout in &worker.rules {
        let base = worker.topology.business_queue(timeout);
        let mut found = of_timeout(listed.as_ref().unwrap_or(&known.consumed), &base);
        if listed.is_none() {
            let bases = worker.topology.business_queues(timeout);
            let named = bases.iter().flat_map(|base| [base.clone(), next_generation(base, &found)]);
            let asked: BTreeSet<String> = named.chain(of_timeout(&known.troubled, &base)).collect();
            for queue in asked.difference(&found.clone()) {
                // If the broker does not answer whether the queue exists, consuming shows it.
                let there = passive::queue_exists(link, queue).await;
                if there.unwrap_or(bases.contains(queue) || known.troubled.contains(queue)) {
                    found.insert(queue.clone());
                }
            }
        }
        queues.push((timeout, found));
    }
    (queues, listed.is_some())
}

/// The queues with the topology's prefix, without foreign generations. `None` if the management API does not answer, or is
/// not configured: consuming must continue.
async fn listed(worker: &Worker, consumed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let management = worker.management.as_ref()?;
    let topology = &worker.topology;
    let mut names = management.queue_names(&topology.name).await.ok()?;
    let bases: Vec<String> =
        worker.rules.iter().map(|rule| topology.business_queue(rule)).collect();
    let in_use: BTreeSet<String> =
        worker.rules.iter().flat_map(|rule| topology.business_queues(rule)).collect();
    let is_generation =
        |name: &str| !in_use.contains(name) && bases.iter().any(|base| is_of(base, name));
    if !names.iter().any(|name| is_generation(name)) {
        return Some(names);
    }
    // Without marks, for example while they are being made again, each generation counts.
    if let Some(marked) = management.marked_queues(topology).await.ok()? {
        names.retain(|name| {
            !is_generation(name) || marked.contains(name) || consumed.contains(name)
        });
    }
    Some(names)
}

/// The queues of a timeout: its shards, whatever their number, and its queue without shards.
fn of_timeout(names: &BTreeSet<String>, base: &str) -> BTreeSet<String> {
    names.iter().filter(|name| is_of(base, name)).cloned().collect()
}

/// Interval of the search: half the time after which `overdue apply` deletes an old queue, so that its consumer is not
/// cancelled.
pub(super) fn look_every(worker: &Worker) -> Duration {
    let settles = |management: &Management| management.statistics_interval().counts_settle() / 2;
    let every = worker.timing.queues_every;
    worker.management.as_ref().map_or(every, |management| every.min(settles(management)))
}

/// Name of the queue that the next `overdue apply` would declare, after the first generation and the consumed ones.
fn next_generation(base: &str, consumed: &BTreeSet<String>) -> String {
    let newest = consumed.iter().filter_map(|name| number_of(base, name)).max();
    name_of(base, newest.unwrap_or(1).saturating_add(1))
}
