//! Which queues a timeout has: more than one while a retired generation drains, none where it was removed.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout;

use crate::{
    administration::Management,
    messaging::{
        Link,
        consume::ConsumeError,
        passive::{self, FAR, NEAR},
    },
    objects::shard::{self, MAX_SHARDS},
    plan::generation::{is_of, name_of, number_of},
    telemetry,
    topology::Timeout,
    worker::context::Worker,
};

/// The names of the queues of each timeout.
pub(super) type ByTimeout<'a> = Vec<(&'a Timeout, BTreeSet<String>)>;

/// What a session knows of the queues.
pub(super) struct Known {
    /// Of these it is known without a question that they are there.
    pub(super) consumed: BTreeSet<String>,
    /// They are not asked for again where all queues can be listed.
    pub(super) missing: BTreeSet<String>,
    /// These could not be consumed.
    pub(super) troubled: BTreeSet<String>,
    /// Of the timeouts with these queues the broker does not say whether they had another number of shards.
    pub(super) hidden: BTreeSet<String>,
    /// How often it was looked for queues.
    pub(super) looks: u16,
    /// Whether they could be listed the last time.
    pub(super) listed: bool,
}

/// The queues that are there.
///
/// Where the broker does not say whether a queue is there, it is taken for being there: consuming shows it.
pub(super) async fn find<'a>(worker: &'a Worker, link: &Link, known: &mut Known) -> ByTimeout<'a> {
    let listing = listed(worker, &known.consumed);
    let listed = timeout(worker.timing.listing, listing).await.ok().flatten();
    known.listed = listed.is_some();
    let first_up_to = if known.looks.is_multiple_of(TURNS) { FAR } else { NEAR };
    let mut queues = Vec::new();
    for timeout in &worker.rules {
        let base = worker.topology.business_queue(timeout);
        let bases = worker.topology.business_queues(timeout);
        let mut found = of_timeout(listed.as_ref().unwrap_or(&known.consumed), &base);
        if listed.is_none() && !known.hidden.contains(&base) {
            if let Some(former) = former(link, timeout, &base, known).await {
                found.extend(former);
            } else {
                telemetry::shards_hidden(&base);
                known.hidden.insert(base);
            }
        }
        let Known { consumed, missing, troubled, .. } = &*known;
        for base in &bases {
            let is_known = missing.contains(base) || !generations(&found, base).is_empty();
            if listed.is_none() || !is_known {
                // One that was lost is of any generation.
                let was_lost = !generations(troubled, base).is_empty();
                let up_to = if was_lost { FAR } else { first_up_to };
                found.extend(probed_new(link, base, generations(consumed, base), up_to).await);
            }
        }
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
    let in_use: BTreeSet<String> =
        worker.rules.iter().flat_map(|rule| topology.business_queues(rule)).collect();
    let is_generation =
        |name: &str| !in_use.contains(name) && bases.iter().any(|base| is_of(base, name));
    if !names.iter().any(|name| is_generation(name)) {
        return Some(names);
    }
    // Without marks, as while they are being made again, each generation counts.
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

/// With shards, of any number, and the queue that it has without.
fn of_timeout(names: &BTreeSet<String>, base: &str) -> BTreeSet<String> {
    names.iter().filter(|name| is_of(base, name)).cloned().collect()
}

/// Looks in which each queue of another number of shards is asked for once, in nine generations, and one that is not there up to the
/// farthest generation: a question is a line in the broker's log.
const TURNS: u16 = 16;

/// Queues that the timeout had with another number of shards: in the first look the first generation of each, later nine of some
/// in turn, and of those that were lost. Where it has no shards now, their exchange is there as long as one of them. `None` if it may not
/// be asked: nor could they be consumed.
async fn former(
    link: &Link,
    timeout: &Timeout,
    base: &str,
    known: &Known,
) -> Option<BTreeSet<String>> {
    let asked = match timeout.shards {
        Some(_) => Ok(true),
        None => passive::exchange_exists(link, &shard::exchange(base)).await,
    };
    let shares = match asked {
        Err(ConsumeError::Refused { .. }) => return None,
        asked => asked.unwrap_or(true),
    };
    let plain = timeout.shards.map(|_| (0, base.to_owned()));
    let others = (timeout.shards.unwrap_or(0)..MAX_SHARDS).filter(|_| shares);
    let others = others.map(|number| (number, shard::queue(base, number)));
    let is_first = known.looks == 0;
    let mut found = BTreeSet::new();
    for (number, queue) in plain.into_iter().chain(others) {
        let is_its_turn = number % TURNS == known.looks.wrapping_sub(1) % TURNS;
        let asked = if is_first {
            let there = passive::queue_exists(link, &queue).await;
            there.map(|there| there.then(|| queue.clone()).into_iter().collect())
        } else if is_its_turn || !generations(&known.troubled, &queue).is_empty() {
            passive::generations(link, &queue, NEAR).await
        } else {
            continue;
        };
        match asked {
            Ok(there) => found.extend(there),
            Err(ConsumeError::Refused { .. }) => return None,
            Err(_) if !link.is_connected() => break,
            Err(_) => found.extend([queue]),
        }
    }
    Some(found)
}

/// Those that are consumed, and the one after them.
async fn probed_new(
    link: &Link,
    base: &str,
    mut consumed: BTreeSet<String>,
    up_to: u32,
) -> BTreeSet<String> {
    if consumed.is_empty() {
        let found = passive::generations(link, base, up_to).await;
        return found.unwrap_or_else(|_| BTreeSet::from([base.to_owned()]));
    }
    let next = next_generation(base, &consumed);
    if passive::queue_exists(link, &next).await.unwrap_or(false) {
        consumed.insert(next);
    }
    consumed
}

/// Twice before `overdue apply` deletes the old queue, so that its consumer is not cancelled. Questions one by one are fewer.
pub(super) fn look_every(worker: &Worker, listed: bool) -> Duration {
    let settles = |management: &Management| management.statistics_interval().counts_settle() / 2;
    let timing = &worker.timing;
    let every = |api| timing.queues_every.min(settles(api));
    let api = worker.management.as_ref().filter(|_| listed);
    api.map_or(timing.queues_probed_every, every)
}

/// The name that the queue of the next `overdue apply` would have.
fn next_generation(base: &str, consumed: &BTreeSet<String>) -> String {
    let newest = consumed.iter().filter_map(|name| number_of(base, name)).max();
    name_of(base, newest.map_or(1, |number| number.saturating_add(1)))
}
