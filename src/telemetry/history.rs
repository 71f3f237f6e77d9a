//! Events of the history that is deleted.

use std::time::Duration;

use tracing::{info, warn};

use super::metrics::METRICS;

/// Rows that were older than they are kept are gone.
pub(crate) fn deleted(table: &str, rows: u64, kept: Duration) {
    METRICS.history_deleted.add([], usize::try_from(rows).unwrap_or(usize::MAX));
    info!(table, rows, kept_days = kept.as_secs() / 86_400, "old rows are deleted");
}

/// Old rows could not be deleted; `again`: for the same reason as the time before.
pub(crate) fn failed(table: &str, reason: &str, again: bool) {
    METRICS.history_failures.add([], 1);
    if !again {
        warn!(
            table,
            reason,
            "old rows cannot be deleted (worker.keep_history); it is tried again at the next interval, closing goes on"
        );
    }
}
