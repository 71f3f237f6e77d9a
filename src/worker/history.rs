//! Deletes what is older than `worker.keep_history` of what `overdue` itself writes. It looks through the tables from end to
//! end, again and again, a few blocks at a time, so that it is small work at any moment and in any table.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{backoff::jitter, clock_watch, context::Worker, session::SessionEnd, watch};
use crate::{
    shutdown::Stop,
    store::{
        StoreError,
        history::{BLOCKS, HistoryTable, LookedThrough},
    },
    telemetry,
    text::error_chain,
};

/// Parts in a row without an old row, after which the rest is left for the next time: 8 MiB each minute, by default…
const LEAST: u64 = 32;
/// … or more: the whole table in about this time…
const CYCLE: Duration = Duration::from_hours(24);
/// … but no more than 256 MiB: others want to find their rows in memory.
const MOST: u64 = 1_024;
/// After each part it rests so many times as long as that took.
const REST: u32 = 4;
/// Where no table has rows: the answer says how large it is.
const BEHIND: u64 = u32::MAX as u64 - BLOCKS;

/// Works after every `worker.sweep_every`, until a stop is asked for: what runs is cancelled then. It holds up nobody: what
/// fails is logged and tried again the next time.
pub(super) async fn history(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let keep = worker.settings.keep_history.as_duration();
    if keep.is_zero() {
        stop.requested().await;
        return Ok(());
    }
    let tables = [HistoryTable::Closures, HistoryTable::DroppedMessages, HistoryTable::Actions];
    let mut walks = tables.map(|table| Walk { table, next: None, failure: None });
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
    /// The first block of the next part. It begins anywhere: however short sessions are, they come to every part.
    next: Option<u64>,
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
        let (began, every) = (Instant::now(), worker.settings.sweep_every.as_duration());
        let (mut without, mut failure) = (0, Ok(()));
        loop {
            let (part, from) = (Instant::now(), self.next);
            // The clock may leap between two parts.
            clock_watch::read(worker).await?;
            let keep = keep + ahead(worker);
            // Also where it fails: a row that cannot be deleted keeps the others of its part only.
            self.next = from.map(|from| from + BLOCKS);
            let looked = worker.store.delete_old(self.table, from.unwrap_or(BEHIND), keep).await;
            let looked = match looked {
                Err(error) if error.is_answer() && failure.is_ok() => {
                    failure = Err(error);
                    continue;
                }
                looked => looked?,
            };
            let Some(LookedThrough { deleted: gone, blocks }) = looked else {
                self.next = from;
                return failure;
            };
            let Some(next) = &mut self.next else {
                self.next = Some(anywhere(blocks));
                continue;
            };
            if *next >= blocks {
                *next = 0;
            }
            *deleted += gone;
            without = if gone == 0 { without + 1 } else { 0 };
            if without >= parts_at_once(blocks, every) || began.elapsed() > every {
                return failure;
            }
            tokio::time::sleep(part.elapsed() * REST).await;
        }
    }
}

/// How far the database's clock may be ahead: nothing is old by a leap of it alone, nor where this machine's clock contradicts it.
fn ahead(worker: &Worker) -> Duration {
    let now = Instant::now();
    let here = u64::try_from(watch::now().as_millisecond()).unwrap_or(0);
    let there = worker.clock.at_most_ms(now).unwrap_or(0);
    worker.clock.leap(now).max(Duration::from_millis(there.saturating_sub(here)))
}

/// The first block of one of its parts.
fn anywhere(blocks: u64) -> u64 {
    rand::random_range(0..parts(blocks)) * BLOCKS
}

fn parts(blocks: u64) -> u64 {
    blocks.div_ceil(BLOCKS).max(1)
}

/// So many are looked through every so often, if none has an old row.
fn parts_at_once(blocks: u64, every: Duration) -> u64 {
    let parts = parts(blocks);
    let share = (u128::from(parts) * every.as_millis()).div_ceil(CYCLE.as_millis());
    u64::try_from(share).unwrap_or(parts).clamp(LEAST, MOST).min(parts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const EVERY: Duration = Duration::from_secs(1);

    #[test]
    fn a_table_of_any_size_is_looked_through_in_a_day() {
        for blocks in [0, 1, BLOCKS, BLOCKS + 1, 1_000 * BLOCKS, BEHIND] {
            for (every, times) in [(EVERY, 86_400), (60 * EVERY, 1_440), (CYCLE, 1), (2 * CYCLE, 1)]
            {
                let at_once = parts_at_once(blocks, every);
                assert!(
                    at_once * times >= parts(blocks) || at_once == MOST,
                    "{blocks} {every:?} {at_once}"
                );
                assert!((1..=parts(blocks)).contains(&at_once), "{blocks} {every:?} {at_once}");
            }
        }
        assert_eq!(parts_at_once(1_000 * BLOCKS, 60 * EVERY), LEAST);
    }

    #[test]
    fn a_walk_begins_at_any_part() {
        let begins: BTreeSet<u64> = (0..1_000).map(|_| anywhere(3 * BLOCKS + 1)).collect();
        assert_eq!(Vec::from_iter(begins), [0, BLOCKS, 2 * BLOCKS, 3 * BLOCKS]);
        assert_eq!(anywhere(0), 0);
    }
}
