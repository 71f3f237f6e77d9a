//! Periodic readings of database and broker as gauges, so that a scrape asks neither. Also the facts for alerts, from the counters.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::metrics::{Gauge, METRICS, number};
use crate::{
    condition::{
        Facts, Unpublished, Why,
        gone::{LastHour, Totals},
    },
    doctor::facts::Outbox,
    text::{about, millis},
};

/// Totals of a worker since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Orders this worker brought to their final state because of a message.
    pub closed: u64,
    /// Messages whose order was already final, because of a burst or otherwise.
    pub already_final: u64,
    /// Messages kept unacked for a short while: early by less than `worker.hold`, or their order was locked.
    pub held: u64,
    /// Messages that were early and wait in a level again.
    pub put_back: u64,
    /// Times that an overdue order was not closed because of the effect's own rule.
    pub guarded: u64,
    /// Messages retried through a retry level.
    pub retried: u64,
    /// Parked messages, with messages for a level that the next check found missing.
    pub parked: u64,
    /// Messages acked because their row was deleted: `gone = "ack"` of their timeout.
    pub gone: u64,
    /// Orders that a burst closed before their messages.
    pub burst: u64,
    /// Orders that the sweep closed without a message.
    pub swept: u64,
}

/// The database has answered at `now_s` (seconds since 1970, by this machine).
pub(crate) fn outbox(state: &Outbox, now_s: f64) {
    METRICS.outbox.set([], number(state.events));
    METRICS.outbox_oldest.set([], Duration::from_millis(state.oldest_ms).as_secs_f64());
    METRICS.outbox_refused.set(["yes"], number(state.refused));
    METRICS.outbox_refused.set(["no"], number(state.unpublishable));
    METRICS.looked_at.set(["database"], now_s);
}

/// Waiting notices of `schedule()`, the age of the oldest one, and refused notices; `None` if it is not in use.
pub(crate) fn scheduled(state: Option<(u64, Duration, u64)>) {
    METRICS.scheduled_waiting.know([], state.map(|(notices, _, _)| number(notices)));
    METRICS.scheduled_oldest.know([], state.map(|(_, oldest, _)| oldest.as_secs_f64()));
    METRICS.scheduled_aside.know([], state.map(|(_, _, refused)| number(refused)));
}

/// Overdue orders, and the age of the oldest deadline; `None` if the database cannot be asked.
pub(crate) fn overdue(effect: &str, orders: Option<(usize, Option<Duration>)>) {
    let (orders, oldest) = match orders {
        Some((0, _)) => (Some(0), Some(Duration::ZERO)),
        Some((orders, oldest)) => (Some(orders), oldest),
        None => (None, None),
    };
    METRICS.overdue_orders.know([effect], orders.map(number));
    METRICS.oldest_overdue.know([effect], oldest.map(|oldest| oldest.as_secs_f64()));
}

/// Time for which a timeout has been paused; zero if it is not.
pub(crate) fn paused(timeout: &str, effect: &str, lasts: Duration) {
    METRICS.paused.set([timeout, effect], lasts.as_secs_f64());
}

/// Orders that came due a moment ago, by closing path, in the order of [`CLOSED_BY`](super::labels::CLOSED_BY); `None` if the
/// database cannot be asked.
pub(crate) fn came_due(effect: &str, orders: Option<[usize; 4]>) {
    for (place, closed_by) in super::labels::CLOSED_BY.iter().enumerate() {
        let orders = orders.map(|orders| number(orders[place]));
        METRICS.due_orders.know([effect, closed_by], orders);
    }
}

/// Messages by queue: name, content (`level`, `due` or `parked`), count.
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

/// A query failed; `at` is one of [`LOOKED_AT`](super::labels::LOOKED_AT).
pub(crate) fn look_failed(at: &str) {
    METRICS.look_failures.add([at], 1);
}

/// Rows of the last sweep with an invalid order id.
pub(crate) fn sweep_refused(effect: &str, rows: usize) {
    METRICS.sweep_refused.set([effect], number(rows));
}

/// Number of consumed queues.
pub(crate) fn consumed(queues: usize) {
    METRICS.consumed_queues.set([], number(queues));
}

/// Size of the database clock's leap forward in the last hour.
pub(crate) fn clock_leap(leap: Duration) {
    METRICS.clock_leap.set([], leap.as_secs_f64());
}

/// Number of levels that the broker does not route to.
pub(crate) fn levels_missing(levels: usize) {
    METRICS.levels_missing.set([], number(levels));
}

/// States of the conditions of `/readyz`.
pub(crate) fn ready(conditions: &[(&str, bool)]) {
    for (condition, holds) in conditions {
        METRICS.ready.set([condition], f64::from(u8::from(*holds)));
    }
}

/// The highest lateness since the last call of [`facts`], in milliseconds.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);
/// The highest lateness since the last log line, in milliseconds.
static LATEST_TO_LOG_MS: AtomicU64 = AtomicU64::new(0);
/// Orders that the sweep had closed at the last call of [`facts`].
static SWEPT: AtomicU64 = AtomicU64::new(0);

/// Orders were closed; `latest` is the highest lateness.
pub(super) fn closed(latest: Duration) {
    LATEST_MS.fetch_max(millis(latest), Ordering::Relaxed);
    LATEST_TO_LOG_MS.fetch_max(millis(latest), Ordering::Relaxed);
}

/// The highest lateness since the last call.
pub(crate) fn latest_to_log() -> Duration {
    Duration::from_millis(LATEST_TO_LOG_MS.swap(0, Ordering::Relaxed))
}

/// The last parked message of this worker: time, order and reason.
static PARKED: Mutex<Option<(Instant, String, String)>> = Mutex::new(None);

pub(super) fn parked(order: &str, reason: &str) {
    let last = (Instant::now(), order.to_owned(), reason.to_owned());
    *PARKED.lock() = Some(last);
}

/// The last parked message of this worker. Other messages may have been parked by other workers or by the broker.
pub(crate) fn last_parked(now: Instant) -> Option<String> {
    let last = PARKED.lock();
    let (at, order, reason) = last.as_ref()?;
    let ago = about(now.saturating_duration_since(*at));
    Some(format!("this worker parked the last one {ago} ago, {order}: {reason}"))
}

/// Notices of the last hour that found no row.
static GONE: Mutex<LastHour> = Mutex::new(LastHour::new());

/// Notices that found no row, and all settled notices, for each timeout.
fn notices() -> Totals {
    let is_settled = |labels: &[String], of: &str| {
        let [timeout, path, outcome] = labels else { return false };
        let is_of = timeout.split('+').any(|it| it == of);
        is_of && path != "sweep" && ["closed", "already_final"].contains(&outcome.as_str())
    };
    let count = |gone: f64, timeout: &str| {
        let others = METRICS.outcomes.values_of(|labels| is_settled(labels, timeout));
        (whole(gone), whole(gone + others.iter().sum::<f64>()))
    };
    let gone = METRICS.gone.read().into_iter();
    gone.filter_map(|(labels, gone)| {
        let timeout = labels.into_iter().next()?;
        let counts = count(gone, &timeout);
        Some((timeout, counts))
    })
    .collect()
}

/// Facts for alerts. The call resets the values since the last call, so a process must have a single caller.
pub(crate) fn facts(
    not_ready: Vec<(&'static str, String)>,
    late_after: Duration,
    why: Why,
) -> Facts {
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
        why,
        gone: GONE.lock().read(Instant::now(), notices()),
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
        clock_leap: seconds(METRICS.clock_leap.values_of(all)),
    }
}

/// A count, which Prometheus stores as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole, and not below 0"
)]
const fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::{super::events::batch_closed, *};
    use crate::order::{FinalState, Outcome};

    /// Metrics are global to the process, so there is a single test.
    #[test]
    fn facts_are_what_was_counted_and_what_is_new() {
        let s = Duration::from_secs;
        let before = facts(Vec::new(), s(60), Why::default());
        assert_eq!(before, Facts { late_after: s(60), ..Facts::default() });
        let closed = |late| Outcome::Closed { late, state: FinalState::CLOSED };
        batch_closed("unpaid", "message", &[closed(s(3)), Outcome::Unknown], s(1));
        batch_closed("unpaid", "sweep", &[closed(s(70)), closed(s(69))], s(1));
        batch_closed("other", "sweep", &[closed(s(1))], s(1));
        overdue("close", Some((2, Some(s(90)))));
        overdue("mine", Some((1, Some(s(80)))));
        queues(
            &[("orders.parked".to_owned(), "parked", 3), ("orders.unpaid".to_owned(), "due", 9)],
            0.0,
        );
        let waiting = Outbox {
            events: 5,
            oldest_ms: 7_000,
            refused: 2,
            unpublishable: 1,
            ..Outbox::default()
        };
        outbox(&waiting, 0.0);
        scheduled(Some((4, s(8), 1)));
        drift(&[("error", 1), ("warning", 2), ("note", 50)], 0.0);
        clock_leap(s(600));
        let unpublished = |waiting, oldest, refused| Some(Unpublished { waiting, oldest, refused });
        let not_ready = vec![("broker", "x".to_owned())];
        let first = facts(not_ready.clone(), s(60), Why::default());
        let all = Facts {
            not_ready,
            closed_late: s(70),
            overdue: Some((3, s(90))),
            late_after: s(60),
            why: Why::default(),
            parked: Some(3),
            outbox: unpublished(5, s(7), 3),
            scheduled: unpublished(4, s(8), 1),
            swept: (3, 3),
            drift: Some(3),
            clock_leap: s(600),
            gone: None,
        };
        assert_eq!(first, all);
        overdue("mine", None);
        scheduled(None);
        let second = facts(Vec::new(), s(60), Why::default());
        let overdue = Some((2, s(90)));
        let (swept, closed_late, not_ready) = ((0, 3), Duration::ZERO, Vec::new());
        let later = Facts { overdue, scheduled: None, swept, closed_late, not_ready, ..all };
        assert_eq!(second, later);
    }
}
