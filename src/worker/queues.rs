//! Which queues a timeout has: more than one while a retired generation drains.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{context::Worker, jitter, session_end::SessionEnd};
use crate::{
    broker::{Link, Management, passive},
    plan::generation::{name_of, number_of},
    shutdown::Stop,
    topology::Timeout,
};

/// How soon a worker consumes from a queue that `overdue apply` has put in the place of another, at the latest.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same without the management API: each look that finds nothing is a line in the broker's log.
const PROBE_EVERY: Duration = Duration::from_secs(15);
/// Generations looked for one by one where the management API does not answer.
const PROBED: u32 = 9;

/// The names of the queues of each timeout.
pub(super) type ByTimeout<'a> = Vec<(&'a Timeout, BTreeSet<String>)>;

/// The queues to consume from, oldest generation first; the plain name where there is none yet.
pub(super) async fn find<'a>(worker: &'a Worker, link: &Link) -> Result<ByTimeout<'a>, SessionEnd> {
    let listed = listed(worker).await;
    let mut queues = Vec::new();
    for timeout in &worker.topology.timeouts {
        let base = worker.topology.business_queue(timeout);
        let mut found = match &listed {
            Some(names) => generations(names, &base),
            None => probed(link, &base).await?,
        };
        if found.is_empty() {
            found.insert(base);
        }
        queues.push((timeout, found));
    }
    Ok(queues)
}

/// All queues of the virtual host. `None` where the management API does not answer, or is not asked: that must not
/// stop the work.
async fn listed(worker: &Worker) -> Option<BTreeSet<String>> {
    worker.management.as_ref()?.queue_names().await.ok()
}

fn generations(names: &BTreeSet<String>, base: &str) -> BTreeSet<String> {
    names.iter().filter(|name| number_of(base, name).is_some()).cloned().collect()
}

pub(crate) async fn probed(link: &Link, base: &str) -> Result<BTreeSet<String>, SessionEnd> {
    let mut found = BTreeSet::new();
    for name in (1..=PROBED).map(|number| name_of(base, number)) {
        if passive::queue_exists(link, &name).await? {
            found.insert(name);
        }
    }
    Ok(found)
}

/// Ends the session when a queue came, so that the next one consumes from it, too.
pub(super) async fn watch(
    worker: Arc<Worker>,
    link: Arc<Link>,
    consumed: BTreeSet<String>,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let longest = worker.management.as_ref().map_or(PROBE_EVERY, look_every);
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = tokio::time::sleep(jitter::up_to(longest)) => {}
        }
        let came = match worker.management {
            Some(_) => listed_new(&worker, &consumed).await,
            None => probed_new(&worker, &link, &consumed).await?,
        };
        if came {
            return Err(SessionEnd::QueuesChanged);
        }
    }
}

/// Without an answer nothing has changed.
async fn listed_new(worker: &Worker, consumed: &BTreeSet<String>) -> bool {
    let Some(names) = listed(worker).await else { return false };
    let mut bases = worker.topology.timeouts.iter().map(|t| worker.topology.business_queue(t));
    bases.any(|base| !generations(&names, &base).is_subset(consumed))
}

async fn probed_new(
    worker: &Worker,
    link: &Link,
    consumed: &BTreeSet<String>,
) -> Result<bool, SessionEnd> {
    for timeout in &worker.topology.timeouts {
        let base = worker.topology.business_queue(timeout);
        if passive::queue_exists(link, &next_generation(&base, consumed)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Twice before `overdue apply` deletes the old queue, so that its consumer is not cancelled.
fn look_every(management: &Management) -> Duration {
    LOOK_EVERY.min(management.statistics_interval().counts_settle() / 2)
}

/// The name that the queue of the next `overdue apply` would have.
fn next_generation(base: &str, consumed: &BTreeSet<String>) -> String {
    let newest = consumed.iter().filter_map(|name| number_of(base, name)).max();
    name_of(base, newest.map_or(1, |number| number.saturating_add(1)))
}
