//! Deletes what is older than `worker.keep_history` of what `overdue` itself writes. It looks through the tables from end to
//! end, again and again, a few blocks at a time, so that it is small work at any moment and in any table.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{backoff::jitter, clock_watch, context::Worker, session::SessionEnd};
use crate::{
    shutdown::Stop,
    store::{
        StoreError,
        history::{BLOCKS, HistoryTable},
    },
    telemetry,
    text::error_chain,
};

/// Parts in a row without an old row, after which the rest is left for the next time: 8 MiB each minute, by default.
const IN_VAIN: u32 = 32;
/// After each part it rests so many times as long as that took.
const REST: u32 = 4;

/// Works after every `worker.sweep_every`, until a stop is asked for: what runs is cancelled then. It holds up nobody: what
/// fails is logged and tried again the next time.
pub(super) async fn history(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let keep = worker.settings.keep_history.as_duration();
    if keep.is_zero() {
        stop.requested().await;
        return Ok(());
    }
    let tables = [HistoryTable::Closures, HistoryTable::DroppedMessages, HistoryTable::Actions];
    let mut walks = tables.map(|table| Walk { table, next: 0, failure: None });
    loop {
        for walk in &mut walks {
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                () = walk.go_on(&worker, keep) => {}
            }
        }
        if !stop.pause(jitter(worker.settings.sweep_every.as_duration())).await {
            return Ok(());
        }
    }
}

/// Where it is in a table.
struct Walk {
    table: HistoryTable,
    /// The first block of the next part.
    next: u64,
    /// What was reported last: the same every minute says nothing new.
    failure: Option<String>,
}

impl Walk {
    async fn go_on(&mut self, worker: &Worker, keep: Duration) {
        let mut deleted = 0;
        let done = self.delete(worker, keep, &mut deleted).await;
        if deleted > 0 {
            telemetry::history_deleted(self.table.name(), deleted, keep);
        }
        let failure = done.err().map(|error| error_chain(&error));
        if let Some(reason) = &failure {
            telemetry::history_failed(self.table.name(), reason, self.failure == failure);
        }
        self.failure = failure;
    }

    async fn delete(
        &mut self,
        worker: &Worker,
        keep: Duration,
        deleted: &mut u64,
    ) -> Result<(), StoreError> {
        let (began, longest) = (Instant::now(), worker.settings.sweep_every.as_duration());
        let (mut in_vain, mut failure) = (0, Ok(()));
        loop {
            let (part, from) = (Instant::now(), self.next);
            // Nothing is old by a leap of the database's clock alone, and it may leap between two parts.
            clock_watch::read(worker).await?;
            let keep = keep + worker.clock.leap(Instant::now());
            // Also where it fails: a row that cannot be deleted keeps the others of its part only.
            self.next += BLOCKS;
            let looked = match worker.store.delete_old(self.table, from, keep).await {
                Err(error) if error.is_answer() && failure.is_ok() => {
                    failure = Err(error);
                    continue;
                }
                looked => looked?,
            };
            let Some(looked) = looked else {
                self.next = from;
                return failure;
            };
            *deleted += looked.deleted;
            in_vain = if looked.deleted == 0 { in_vain + 1 } else { 0 };
            let is_through = self.next >= looked.blocks;
            if is_through {
                self.next = 0;
            }
            let took = part.elapsed();
            if is_through || in_vain >= IN_VAIN || began.elapsed() > longest {
                return failure;
            }
            tokio::time::sleep(took * REST).await;
        }
    }
}
