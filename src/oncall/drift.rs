//! Differences between broker and topology file: the findings of `overdue verify`, and the changes of `overdue plan`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::{failure::Failure, services::now};
use crate::{
    administration::{Management, ManagementError, apply},
    diagnostic::Diagnostic,
    plan::{
        json::PlanJson,
        snapshot::{QueueStats, Snapshot},
    },
    text::{error_chain, one_line},
    topology::Topology,
    verify::{self, dead_letters},
};

/// Interval of checks whether the broker has counts of new queues.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The changes that `apply` would make, and the broker; `discard` names queues that may be deleted with their messages.
pub(crate) async fn pending(
    topology: &Topology,
    management: &Management,
    discard: &BTreeSet<String>,
) -> Result<PlanJson, Failure> {
    let (plan, _) = apply::plan(management, topology, discard).await?;
    Ok(PlanJson::new(topology, management.identity().await?, plan))
}

/// The findings of `verify` without a probe, and the statistics of the queues. Adds foreign consumers to `observed`.
pub(crate) async fn found(
    management: &Management,
    topology: &Topology,
    observed: &mut Snapshot,
    slots: u64,
) -> Result<(Vec<Diagnostic>, BTreeMap<String, QueueStats>), ManagementError> {
    let mut stats = management.stats_and_policies().await?;
    management.add_foreign_consumers(topology, observed, &stats).await?;
    let mut found = verify::findings(topology, observed, &stats, now());
    // A broker in trouble may not answer this: report the other findings anyway.
    match management.without_leader(&topology.name).await {
        Ok(without) => found.extend(verify::held_back::no_leader(topology, observed, &without)),
        Err(error) => {
            let why = one_line(error_chain(&error));
            found.push(verify::held_back::leaders_not_known(&why));
        }
    }
    found.extend(dead_letters(management, topology, observed, &mut stats, slots).await?);
    found.sort_by_key(|finding| Reverse(finding.severity));
    Ok((found, stats))
}

/// Findings about stuck dead letters. Waits for counts of new queues, and takes a second reading only if the first one gives a
/// reason.
async fn dead_letters(
    management: &Management,
    topology: &Topology,
    observed: &Snapshot,
    first: &mut BTreeMap<String, QueueStats>,
    slots: u64,
) -> Result<Vec<Diagnostic>, ManagementError> {
    // After this time a reading has newer counts.
    let apart = management.statistics_interval().counts_settle();
    let until = Instant::now() + apart;
    let mut unknown = dead_letters::unknown(topology, observed, first);
    while !unknown.is_empty() && Instant::now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
        *first = management.stats_and_policies().await?;
        unknown = dead_letters::unknown(topology, observed, first);
    }
    let mut found: Vec<Diagnostic> = dead_letters::not_known(&unknown).into_iter().collect();
    if !dead_letters::suspects(topology, observed, first).is_empty() {
        tokio::time::sleep(apart).await;
        let second = management.stats_and_policies().await?;
        found.extend(dead_letters::stuck(topology, observed, first, &second, apart, slots));
    }
    Ok(found)
}
