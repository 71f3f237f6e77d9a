//! Which queues a timeout has: more than one while a retired generation drains.

use std::{collections::BTreeSet, time::Duration};

use super::{SessionEnd, Worker};
use crate::{
    broker::{Link, Management, passive},
    plan::generation::number_of,
    shutdown::Stop,
    topology::Timeout,
};

/// How soon a worker consumes from a queue that `overdue apply` has put in the place of another.
const LOOK_EVERY: Duration = Duration::from_secs(5);
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
    for name in (1..=PROBED).map(|number| crate::plan::generation::name_of(base, number)) {
        if passive::queue_exists(link, &name).await? {
            found.insert(name);
        }
    }
    Ok(found)
}

/// Ends the session when a queue came or went, so that the next one consumes from what is there.
pub(super) async fn watch(
    worker: std::sync::Arc<Worker>,
    consumed: BTreeSet<String>,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let Some(management) = &worker.management else { return Ok(()) };
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let mut found = BTreeSet::new();
        for timeout in &worker.topology.timeouts {
            match listed(management, &worker.topology.business_queue(timeout)).await {
                Some(queues) => found.extend(queues),
                // No answer is no news.
                None => found.clone_from(&consumed),
            }
        }
        if !found.is_empty() && !found.is_subset(&consumed) {
            return Err(SessionEnd::QueuesChanged);
        }
    }
}
