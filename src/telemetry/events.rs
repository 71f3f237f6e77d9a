//! Events on their way from the outbox to the broker.

use tracing::{error, info, warn};

use super::metrics::METRICS;

/// Events could not be taken from the outbox; they wait there.
pub(crate) fn relay_failed(reason: &str) {
    METRICS.relay_failures.add([], 1);
    error!(reason, "the relay failed; the events wait in the outbox");
}

/// An event name is refused, or not confirmed, from now on; the events with other names go on.
pub(crate) fn refused(event: &str, reason: &str) {
    METRICS.event_refusals.add([], 1);
    warn!(
        event,
        reason,
        "an event is refused or not confirmed; it is tried again after 1 s to 5 min, and the others go on"
    );
}

/// What was refused is published.
pub(crate) fn accepted(event: &str, events: i64, lasted_ms: i64) {
    info!(event, events, lasted_ms, "the events that were refused are published");
}

/// Rows of the outbox that no client can publish.
pub(crate) fn unpublishable(events: usize, first_id: i64, first_reason: &str) {
    METRICS.unpublishable.add([], events);
    error!(
        events,
        first_id,
        first_reason,
        "events can never be published; they are set aside in outbox_refused"
    );
}

/// Rows of the outbox that are published, and stay.
pub(crate) fn undeletable(events: usize, first_id: i64, reason: &str) {
    warn!(
        events,
        first_id,
        reason,
        "events are published, but their rows cannot be deleted; they are tried again every 30 s, the others go on"
    );
}
