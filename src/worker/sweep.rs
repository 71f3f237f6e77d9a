//! The safety net: closes what is overdue in the database and was never delivered.
//!
//! Every worker sweeps; the effect's guard makes it harmless that two find the same order.

use std::sync::Arc;

use super::{SessionEnd, Worker, closing, count};
use crate::{order::Outcome, shutdown::Stop, store::orders::Path, telemetry};

/// Orders closed in one transaction by the sweep.
const SWEEP_SIZE: i64 = 500;

/// Looks at once and then at every interval, until a stop is asked for.
pub(super) async fn sweep(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut ticks = tokio::time::interval(worker.settings.sweep_every.as_duration());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(()),
            _ = ticks.tick() => sweep_once(&worker, &stop).await?,
        }
    }
}

async fn sweep_once(worker: &Worker, stop: &Stop) -> Result<(), SessionEnd> {
    let grace = worker.settings.sweep_grace.as_duration();
    for timeout in &worker.topology.timeouts {
        let effect = &worker.effects[&timeout.effect];
        let mut swept = 0;
        while !stop.is_requested() {
            let ids = worker.store.overdue_ids(effect, SWEEP_SIZE, grace).await?;
            let outcomes = closing::outcomes(&worker.store, effect, &ids, Path::Sweep).await?;
            let closed =
                outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Closed { .. })).count();
            swept += closed;
            // Nothing closed although something was found: rows that fail, or another sweep was faster.
            if closed == 0 {
                break;
            }
            worker.events.notify_one();
        }
        if swept > 0 {
            count(&worker.tally.swept, swept);
            telemetry::swept(&timeout.name, swept);
        }
    }
    Ok(())
}
