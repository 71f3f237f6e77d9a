//! Which queues a timeout has: more than one while a retired generation drains, none where it was removed.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout;

use crate::{
    administration::Management,
    messaging::{Link, passive},
    plan::generation::{name_of, number_of},
    topology::Timeout,
    worker::context::Worker,
};

/// The names of the queues of each timeout.
pub(super) type ByTimeout<'a> = Vec<(&'a Timeout, BTreeSet<String>)>;

/// The queues that are there. Of `consumed` it is known without a question; timeouts in `missing` are not asked for
/// again where all queues can be listed.
///
/// Where the broker does not say whether a queue is there, it is taken for being there: consuming shows it.
pub(super) async fn find<'a>(
    worker: &'a Worker,
    link: &Link,
    consumed: &BTreeSet<String>,
    missing: &BTreeSet<String>,
) -> ByTimeout<'a> {
    let listed = timeout(worker.timing.listing, listed(worker, consumed)).await.ok().flatten();
    let mut queues = Vec::new();
    for timeout in &worker.rules {
        let base = worker.topology.business_queue(timeout);
        let found = match &listed {
            Some(names) if is_known(names, &base) || missing.contains(&timeout.name) => {
                generations(names, &base)
            }
            _ => probed_new(link, &base, generations(consumed, &base)).await,
        };
        queues.push((timeout, found));
    }
    queues
}

/// The queues below the topology's prefix, without generations that are not ours. `None` where the management API does not
/// answer, or is not asked: that must not stop the work.
async fn listed(worker: &Worker, consumed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let management = worker.management.as_ref()?;
    let topology = &worker.topology;
    let mut names = management.queue_names(&topology.name).await.ok()?;
    let bases: Vec<String> =
        worker.rules.iter().map(|rule| topology.business_queue(rule)).collect();
    let is_generation =
        |name: &str| bases.iter().any(|base| name != base && number_of(base, name).is_some());
    if !names.iter().any(|name| is_generation(name)) {
        return Some(names);
    }
    // Without marks, as while they are being made anew, each generation counts.
    if let Some(marked) = management.marked_queues(topology).await.ok()? {
        names.retain(|name| {
            !is_generation(name) || marked.contains(name) || consumed.contains(name)
        });
    }
    Some(names)
}

fn generations(names: &BTreeSet<String>, base: &str) -> BTreeSet<String> {
    names.iter().filter(|name| number_of(base, name).is_some()).cloned().collect()
}

fn is_known(names: &BTreeSet<String>, base: &str) -> bool {
    names.iter().any(|name| number_of(base, name).is_some())
}

/// Those that are consumed, and the one after them.
async fn probed_new(link: &Link, base: &str, mut consumed: BTreeSet<String>) -> BTreeSet<String> {
    if consumed.is_empty() {
        let found = passive::generations(link, base).await;
        return found.unwrap_or_else(|_| BTreeSet::from([base.to_owned()]));
    }
    let next = next_generation(base, &consumed);
    if passive::queue_exists(link, &next).await.unwrap_or(false) {
        consumed.insert(next);
    }
    consumed
}

/// Twice before `overdue apply` deletes the old queue, so that its consumer is not cancelled.
pub(super) fn look_every(worker: &Worker) -> Duration {
    let settles = |management: &Management| management.statistics_interval().counts_settle() / 2;
    let timing = &worker.timing;
    let listed = |api| timing.queues_every.min(settles(api));
    worker.management.as_ref().map_or(timing.queues_probed_every, listed)
}

/// The name that the queue of the next `overdue apply` would have.
fn next_generation(base: &str, consumed: &BTreeSet<String>) -> String {
    let newest = consumed.iter().filter_map(|name| number_of(base, name)).max();
    name_of(base, newest.map_or(1, |number| number.saturating_add(1)))
}
