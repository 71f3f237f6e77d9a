//! The safety net: closes what is overdue in the database and was never delivered.
//!
//! Every worker sweeps; the effect's guard makes it harmless that two find the same order.

use std::{collections::HashSet, sync::Arc};

use super::{closing, context::Worker, counters::count, jitter, session_end::SessionEnd};
use crate::{
    order::{OrderId, Outcome},
    shutdown::Stop,
    store::{
        StoreError,
        orders::{ClosingPath, Effect},
    },
    telemetry,
    text::error_chain,
};

/// Orders closed in one transaction by the sweep.
const SWEEP_SIZE: i64 = 500;

/// Looks at once and then after every interval, until a stop is asked for.
///
/// Once per effect: timeouts that share one find the same orders. A sweep that fails is logged and tried again after
/// the next interval: it does not end the session.
pub(super) async fn sweep(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let interval = worker.settings.sweep_every.as_duration();
    loop {
        for effect in worker.effects.values() {
            if let Err(error) = sweep_effect(&worker, effect, &stop).await {
                telemetry::sweep_failed(&effect.name, &error_chain(&error));
            }
        }
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = tokio::time::sleep(jitter::up_to(interval)) => {}
        }
    }
}

async fn sweep_effect(worker: &Worker, effect: &Effect, stop: &Stop) -> Result<(), StoreError> {
    let grace = worker.settings.sweep_grace.as_duration();
    let mut swept = 0;
    // Rows that fail stay the oldest: what was looked at once is passed over, or 500 of them would hide the others.
    let mut stuck: HashSet<OrderId> = HashSet::new();
    while !stop.is_requested() {
        let limit = SWEEP_SIZE.saturating_add_unsigned(stuck.len().try_into().unwrap_or(u64::MAX));
        let mut ids = worker.store.overdue_ids(effect, limit, grace).await?;
        ids.retain(|id| !stuck.contains(id));
        if ids.is_empty() {
            break;
        }
        let outcomes = closing::outcomes(&worker.store, effect, &ids, ClosingPath::Sweep).await?;
        let is_closed = |outcome: &Outcome| matches!(outcome, Outcome::Closed { .. });
        let closed = outcomes.iter().filter(|outcome| is_closed(outcome)).count();
        if closed > 0 {
            swept += closed;
            worker.events.notify_one();
        }
        let looked_at = ids.into_iter().zip(&outcomes);
        stuck.extend(looked_at.filter(|(_, outcome)| !is_closed(outcome)).map(|(id, _)| id));
    }
    if swept > 0 {
        count(&worker.counters.swept, swept);
        telemetry::swept(&effect.name, swept);
    }
    Ok(())
}
