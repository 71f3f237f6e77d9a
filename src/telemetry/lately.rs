//! What alerts are decided by, from what is counted here anyway.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{metrics::METRICS, millis::millis};
use crate::alerting::facts::Facts;

/// The longest from a deadline to its closing since it was last taken, in milliseconds.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);

/// Orders were closed, the latest of them so long after its deadline.
pub(super) fn closed(latest: Duration) {
    LATEST_MS.fetch_max(millis(latest), Ordering::Relaxed);
}

/// A reading. What is since the last one is taken with it, so there is one reader in a process.
pub(crate) fn take(not_ready: Vec<(String, String)>) -> Facts {
    let drift = METRICS.drift.read().into_iter();
    let drift = drift.filter(|(labels, _)| matches!(only(labels), "error" | "warning"));
    let overdue = METRICS.oldest_overdue.read().into_iter();
    Facts {
        latest: Duration::from_millis(LATEST_MS.swap(0, Ordering::Relaxed)),
        overdue: overdue
            .map(|(labels, s)| (only(&labels).to_owned(), Duration::from_secs_f64(s.max(0.0))))
            .collect(),
        parked: parked(),
        lot: lot(),
        swept: swept(),
        drift: drift.map(|(_, findings)| whole(findings)).sum(),
        not_ready,
    }
}

fn parked() -> BTreeMap<(String, String), u64> {
    let rows = METRICS.parked.read().into_iter().filter_map(|(labels, count)| {
        let [timeout, reason] = <[String; 2]>::try_from(labels).ok()?;
        Some(((timeout, reason), whole(count)))
    });
    rows.collect()
}

fn lot() -> Option<u64> {
    let rows = METRICS.queue_messages.read().into_iter();
    let parked = rows.filter(|(labels, _)| labels.get(1).is_some_and(|holds| holds == "parked"));
    parked.map(|(_, messages)| whole(messages)).reduce(u64::saturating_add)
}

fn swept() -> BTreeMap<String, u64> {
    let rows = METRICS.outcomes.read().into_iter().filter_map(|(labels, count)| {
        let [timeout, path, outcome] = <[String; 3]>::try_from(labels).ok()?;
        (path == "sweep" && outcome == "closed").then(|| (timeout, whole(count)))
    });
    rows.collect()
}

fn only(labels: &[String]) -> &str {
    labels.first().map_or("", String::as_str)
}

/// A count, which Prometheus keeps as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole, and not below 0"
)]
const fn whole(count: f64) -> u64 {
    count as u64
}
