//! Notices that order services write with `schedule()`.

use tracing::{debug, error, info, warn};

use super::metrics::METRICS;

/// What `schedule()` writes is to be published, and cannot be.
pub(crate) fn unusable(reason: &str) {
    warn!(
        reason,
        "what schedule() writes is not published: run `overdue database init` as the owner of the schema, or grant what is \
         missing; `schedule.publish = \"off\"` leaves this line out"
    );
}

/// The broker has confirmed notices that were written with `schedule()`.
pub(crate) fn published(timeout: &str, notices: usize) {
    METRICS.scheduled.add([timeout], notices);
    debug!(timeout, notices, "scheduled notices published");
}

/// Notices could not be read or published; they wait in the table.
pub(crate) fn failed(reason: &str) {
    METRICS.schedule_failures.add([], 1);
    error!(reason, "scheduled notices cannot be published; they wait in scheduled_notices");
}

/// The broker does not take some notices for now; the others go on.
pub(crate) fn left(notices: usize, reason: &str) {
    warn!(notices, reason, "scheduled notices are not taken by the broker: they are tried again");
}

/// Rows of the table that no message can be made of.
pub(crate) fn set_aside(notices: usize, first_id: i64, first_reason: &str) {
    METRICS.schedule_refused.add([], notices);
    error!(
        notices,
        first_id,
        first_reason,
        "scheduled notices cannot be published; they are set aside in scheduled_notices_refused"
    );
}

/// The sweep could not look at orders whose notices were never confirmed.
pub(crate) fn uncovered_failed(effect: &str, reason: &str) {
    METRICS.sweep_failures.add([effect], 1);
    error!(
        effect,
        reason,
        "scheduled_notices cannot be read: overdue orders whose notices were not published wait for the grace period of the sweep"
    );
}

/// Notices were set aside here whose timeout another worker knows.
pub(crate) fn left_to_another() {
    info!(
        "another worker knows a timeout of notices that were set aside: it publishes from now on"
    );
}
