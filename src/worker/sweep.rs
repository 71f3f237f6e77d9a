//! The safety net: closes what is overdue in the database and was never delivered.
//!
//! Every worker sweeps; the effect's guard makes it harmless that two find the same order.

use std::sync::Arc;

use tokio::time::MissedTickBehavior;

use super::{SessionEnd, Worker, chain, closing, count};
use crate::{
    order::Outcome,
    shutdown::Stop,
    store::{StoreError, orders::Path},
    telemetry,
    topology::Timeout,
};

/// Orders closed in one transaction by the sweep.
const SWEEP_SIZE: i64 = 500;

/// Looks at once and then at every interval, until a stop is asked for.
///
/// A sweep that fails is told and tried again at the next interval: it is no reason to leave the messages.
pub(super) async fn sweep(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut ticks = tokio::time::interval(worker.settings.sweep_every.as_duration());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(()),
            _ = ticks.tick() => for timeout in &worker.topology.timeouts {
                if let Err(error) = sweep_timeout(&worker, timeout, &stop).await {
                    telemetry::sweep_failed(&timeout.name, &chain(&error));
                }
            }
        }
    }
}

async fn sweep_timeout(worker: &Worker, timeout: &Timeout, stop: &Stop) -> Result<(), StoreError> {
    let grace = worker.settings.sweep_grace.as_duration();
    let effect = &worker.effects[&timeout.effect];
    let mut swept = 0;
    while !stop.is_requested() {
        let ids = worker.store.overdue_ids(effect, SWEEP_SIZE, grace).await?;
        let outcomes = closing::outcomes(&worker.store, effect, &ids, Path::Sweep).await?;
        let closed =
            outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Closed { .. })).count();
        // Nothing closed although something was found: rows that fail, or another sweep was faster.
        if closed == 0 {
            break;
        }
        swept += closed;
        worker.events.notify_one();
    }
    if swept > 0 {
        count(&worker.tally.swept, swept);
        telemetry::swept(&timeout.name, swept);
    }
    Ok(())
}
