//! Log events of the outbox and of the notices of `schedule()`, as in [`events`](super::events).

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{debug, error, info, warn};

use super::metrics::METRICS;
use crate::text::millis;

/// A message was routed at once because its x-delay is longer than the limit; at most one line a minute.
pub(crate) fn x_delay_too_long(exchange: &str, delay: Option<Duration>) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(delay) = delay else { return };
    let mut last = LAST.lock();
    if last.is_none_or(|last| last.elapsed() >= Duration::from_mins(1)) {
        *last = Some(Instant::now());
        warn!(
            exchange,
            x_delay_ms = millis(delay),
            "a message was routed at once: its x-delay is longer than the plugin takes (49 days); a ladder with a longer `max` \
             takes it (docs/topology.md)"
        );
    }
}

pub(crate) fn relay_failed(reason: &str) {
    METRICS.relay_failures.add([], 1);
    error!(reason, "the relay failed; the events wait in the outbox, and the worker tries again");
}

pub(crate) fn event_refused(event: &str, reason: &str) {
    METRICS.event_refusals.add([], 1);
    warn!(
        event,
        reason,
        "an event is refused or not confirmed; the worker tries it again after 1 s to 1 min, and other events continue"
    );
}

pub(crate) fn event_accepted(event: &str, events: usize, lasted: Duration) {
    let lasted_ms = millis(lasted);
    info!(event, events, lasted_ms, "the events that the broker refused are published");
}

pub(crate) fn events_unpublishable(events: usize, first_id: i64, first_reason: &str) {
    METRICS.unpublishable.add([], events);
    error!(
        events,
        first_id,
        first_reason,
        "events can never be published; the worker has moved them to outbox_refused"
    );
}

pub(crate) fn rows_undeletable(table: &str, rows: usize, first_id: i64, reason: &str) {
    warn!(
        table,
        rows,
        first_id,
        reason,
        "rows are published and cannot be deleted; the worker tries again every 30 s, and other rows continue"
    );
}

/// Notices of `schedule()` cannot be published at all.
pub(crate) fn notices_unusable(reason: &str) {
    warn!(
        reason,
        "notices of schedule() are not published: run `overdue database init` as the owner of the schema, or grant the missing \
         right; `schedule.publish = \"off\"` ends this warning"
    );
}

/// The broker has confirmed notices of `schedule()`.
pub(crate) fn notices_published(timeout: &str, notices: usize) {
    METRICS.scheduled.add([timeout], notices);
    debug!(timeout, notices, "scheduled notices published");
}

pub(crate) fn notices_failed(reason: &str) {
    METRICS.schedule_failures.add([], 1);
    error!(reason, "scheduled notices cannot be published; they wait in scheduled_notices");
}

pub(crate) fn notices_left(notices: usize, reason: &str) {
    warn!(notices, reason, "scheduled notices are not taken by the broker: they are tried again");
}

pub(crate) fn notices_set_aside(notices: usize, first_id: i64, first_reason: &str) {
    METRICS.schedule_refused.add([], notices);
    error!(
        notices,
        first_id,
        first_reason,
        "scheduled notices can never be published; the worker has moved them to scheduled_notices_refused"
    );
}

pub(crate) fn uncovered_failed(effect: &str, reason: &str) {
    METRICS.sweep_failures.add([effect], 1);
    error!(
        effect,
        reason,
        "scheduled_notices cannot be read: overdue orders with an unpublished notice wait for the grace period of the sweep"
    );
}

/// `schedule()` refuses these timeouts although the topology file has them.
pub(crate) fn timeouts_removed(timeouts: &[String]) {
    warn!(
        timeouts = timeouts.join(","),
        "these timeouts are recorded as removed by `overdue database init`, so schedule() refuses them: run it with this \
         topology file if they are in use again, otherwise start the worker with the file in use"
    );
}
