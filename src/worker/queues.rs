//! Which queues a timeout has: more than one while a retired generation drains.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{context::Worker, session_end::SessionEnd};
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

/// The queues to consume from, oldest generation first; the plain name where there is none yet.
pub(super) async fn of(
    worker: &Worker,
    link: &Link,
    timeout: &Timeout,
) -> Result<BTreeSet<String>, SessionEnd> {
    let base = worker.topology.business_queue(timeout);
    let listed = match &worker.management {
        Some(management) => listed(management, &base).await,
        None => None,
    };
    let found = match listed {
        Some(found) => found,
        None => probed(link, &base).await?,
    };
    Ok(if found.is_empty() { BTreeSet::from([base]) } else { found })
}

/// `None` where the management API does not answer: that is no reason not to work.
async fn listed(management: &Management, base: &str) -> Option<BTreeSet<String>> {
    let stats = management.queue_stats().await.ok()?;
    Some(stats.into_keys().filter(|name| number_of(base, name).is_some()).collect())
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
    let pause = worker.management.as_ref().map_or(PROBE_EVERY, look_every);
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        for timeout in &worker.topology.timeouts {
            let base = worker.topology.business_queue(timeout);
            let came = match &worker.management {
                // No answer is no news.
                Some(management) => {
                    listed(management, &base).await.is_some_and(|found| !found.is_subset(&consumed))
                }
                None => passive::queue_exists(&link, &next_generation(&base, &consumed)).await?,
            };
            if came {
                return Err(SessionEnd::QueuesChanged);
            }
        }
    }
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
