//! What is asked of database and broker now and then, as gauges: a scrape asks nobody.

use std::time::Duration;

use super::{metric::number, metrics::METRICS};

/// One reading of the outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboxReading {
    pub(crate) events: u64,
    pub(crate) oldest: Duration,
    pub(crate) refused: u64,
    pub(crate) unpublishable: u64,
}

/// The database has answered at `now_s` (seconds since 1970, by this machine).
pub(crate) fn outbox(reading: OutboxReading, now_s: f64) {
    METRICS.outbox.set([], number(reading.events));
    METRICS.outbox_oldest.set([], reading.oldest.as_secs_f64());
    METRICS.outbox_refused.set(["yes"], number(reading.refused));
    METRICS.outbox_refused.set(["no"], number(reading.unpublishable));
    METRICS.looked_at.set(["database"], now_s);
}

/// Notices of `schedule()` that wait, the age of the oldest one, and those that were set aside; `None` where it is not in use.
pub(crate) fn scheduled(state: Option<(u64, Duration, u64)>) {
    METRICS.scheduled_waiting.know([], state.map(|(notices, _, _)| number(notices)));
    METRICS.scheduled_oldest.know([], state.map(|(_, oldest, _)| oldest.as_secs_f64()));
    METRICS.scheduled_aside.know([], state.map(|(_, _, refused)| number(refused)));
}

/// Orders that are overdue, and for how long the oldest has been; `None` where the database does not say.
pub(crate) fn overdue(effect: &str, orders: Option<(usize, Option<Duration>)>) {
    let (orders, oldest) = match orders {
        Some((0, _)) => (Some(0), Some(Duration::ZERO)),
        Some((orders, oldest)) => (Some(orders), oldest),
        None => (None, None),
    };
    METRICS.overdue_orders.know([effect], orders.map(number));
    METRICS.oldest_overdue.know([effect], oldest.map(|oldest| oldest.as_secs_f64()));
}

/// Orders that came due a moment ago, by what closed them, in the order of [`CLOSED_BY`](super::labels::CLOSED_BY); `None`
/// where the database does not say.
pub(crate) fn came_due(effect: &str, orders: Option<[usize; 4]>) {
    for (place, closed_by) in super::labels::CLOSED_BY.iter().enumerate() {
        let orders = orders.map(|orders| number(orders[place]));
        METRICS.due_orders.know([effect, closed_by], orders);
    }
}

/// What waits in the queues: name, what it holds, messages.
pub(crate) fn queues(rows: &[(String, &'static str, u64)], now_s: f64) {
    let rows: Vec<_> =
        rows.iter().map(|(name, holds, n)| ([name.as_str(), *holds], number(*n))).collect();
    METRICS.queue_messages.replace(&rows);
    METRICS.looked_at.set(["broker"], now_s);
}

/// Findings of a comparison of the broker with the topology file, by severity.
pub(crate) fn drift(findings: &[(&str, usize)], now_s: f64) {
    for (severity, findings) in findings {
        METRICS.drift.set([severity], number(*findings));
    }
    METRICS.looked_at.set(["topology"], now_s);
}

/// A question was not answered; `at` is one of [`LOOKED_AT`](super::labels::LOOKED_AT).
pub(crate) fn look_failed(at: &str) {
    METRICS.look_failures.add([at], 1);
}

/// Rows that the last sweep could not take for orders.
pub(crate) fn sweep_refused(effect: &str, rows: usize) {
    METRICS.sweep_refused.set([effect], number(rows));
}

/// Queues that are consumed.
pub(crate) fn consumed(queues: usize) {
    METRICS.consumed_queues.set([], number(queues));
}

/// Levels that the broker does not route to.
pub(crate) fn levels_missing(levels: usize) {
    METRICS.levels_missing.set([], number(levels));
}

/// Whether the conditions of `/readyz` hold.
pub(crate) fn ready(conditions: &[(&str, bool)]) {
    for (condition, holds) in conditions {
        METRICS.ready.set([condition], f64::from(u8::from(*holds)));
    }
}
