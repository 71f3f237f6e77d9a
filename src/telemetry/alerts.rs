//! Messages of alerts, as log lines and counts.

use std::time::Duration;

use tracing::{error, info};

use super::{metrics::METRICS, millis::millis};

/// A message was taken; `answer` is what the other side said.
pub(crate) fn sent(alert: &str, about: &str, answer: &str) {
    METRICS.alert_messages.add([alert, "taken"], 1);
    info!(alert, about, answer, "alert sent");
}

/// A message was not taken; closing goes on. `first`: the one before it was.
pub(crate) fn failed(alert: &str, first: bool, reason: &str, retry_in: Duration) {
    METRICS.alert_messages.add([alert, "failed"], 1);
    if first {
        error!(
            alert,
            reason,
            retry_in_ms = millis(retry_in),
            "the message of an alert was not taken: it is tried again until it is, and closing goes on; `overdue doctor \
             --send-alert` tries it at once"
        );
    }
}
