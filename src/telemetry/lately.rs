//! What alerts are decided by, from what is counted here anyway.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{metric::Gauge, metrics::METRICS, millis::millis};
use crate::condition::{Facts, Unpublished};

/// The longest from a deadline to its closing since it was last taken, in milliseconds.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);
/// Orders that the sweep had closed when this was last taken.
static SWEPT: AtomicU64 = AtomicU64::new(0);

/// Orders were closed, the latest of them so long after its deadline.
pub(super) fn closed(latest: Duration) {
    LATEST_MS.fetch_max(millis(latest), Ordering::Relaxed);
}

/// A reading. What is since the last one is taken with it, so there is one reader in a process.
pub(crate) fn take(not_ready: Option<String>, late_after: Duration) -> Facts {
    let sum = |values: Vec<f64>| (!values.is_empty()).then(|| whole(values.iter().sum()));
    let seconds =
        |values: Vec<f64>| Duration::from_secs_f64(values.into_iter().fold(0.0, f64::max));
    let all = |_: &[String]| true;
    let unpublished = |waiting: &Gauge<0>, oldest: &Gauge<0>, refused: Vec<f64>| {
        Some(Unpublished {
            waiting: sum(waiting.values_of(all))?,
            oldest: seconds(oldest.values_of(all)),
            refused: sum(refused).unwrap_or_default(),
        })
    };
    let overdue = sum(METRICS.overdue_orders.values_of(all));
    let swept = METRICS.outcomes.values_of(|labels| labels[1..] == ["sweep", "closed"]);
    let swept = sum(swept).unwrap_or_default();
    Facts {
        not_ready,
        closed_late: Duration::from_millis(LATEST_MS.swap(0, Ordering::Relaxed)),
        overdue: overdue.map(|orders| (orders, seconds(METRICS.oldest_overdue.values_of(all)))),
        late_after,
        parked: sum(METRICS.queue_messages.values_of(|labels| labels[1] == "parked")),
        outbox: unpublished(
            &METRICS.outbox,
            &METRICS.outbox_oldest,
            METRICS.outbox_refused.values_of(all),
        ),
        scheduled: unpublished(
            &METRICS.scheduled_waiting,
            &METRICS.scheduled_oldest,
            METRICS.scheduled_aside.values_of(all),
        ),
        swept: (swept - SWEPT.swap(swept, Ordering::Relaxed), swept),
        drift: sum(METRICS.drift.values_of(|labels| labels[0] != "note")),
    }
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
