//! Deletes rows of the program's own tables that are older than `worker.keep_history`, the oldest first.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{backoff::jitter, context::Worker, session::SessionEnd, watch};
use crate::{
    shutdown::Stop,
    store::{
        StoreError,
        history::{HistoryTable, ROWS},
    },
    telemetry,
    text::error_chain,
};

/// Works after every `worker.sweep_every`, until a stop is requested: a statement that runs then is cancelled. A failure is
/// logged, and delays no other work.
pub(super) async fn history(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let keep = worker.settings.keep_history.as_duration();
    if keep.is_zero() {
        stop.requested().await;
        return Ok(());
    }
    // The last failure of each table: the same failure is logged only once.
    let mut failures = HistoryTable::ALL.map(|table| (table, None));
    loop {
        for (table, failure) in &mut failures {
            let mut deleted = 0;
            let done = tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                done = delete(&worker, *table, keep, &mut deleted) => done,
            };
            if deleted > 0 {
                telemetry::history_deleted(table.name(), deleted, keep);
            }
            let reason = done.err().map(|error| error_chain(&error));
            if let Some(reason) = &reason {
                telemetry::history_failed(table.name(), reason, Some(reason) == failure.as_ref());
            }
            *failure = reason;
        }
        if !stop.pause(jitter(worker.settings.sweep_every.as_duration())).await {
            return Ok(());
        }
    }
}

/// Deletes until fewer old rows are left than a statement deletes. Pauses as long as each statement took.
async fn delete(
    worker: &Worker,
    table: HistoryTable,
    keep: Duration,
    deleted: &mut u64,
) -> Result<(), StoreError> {
    loop {
        let began = Instant::now();
        let rows = worker.store.delete_old(table, watch::now().into(), keep).await?;
        *deleted += rows;
        if rows < ROWS {
            return Ok(());
        }
        tokio::time::sleep(began.elapsed()).await;
    }
}
