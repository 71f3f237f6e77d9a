//! What was parked since the last report: one log line for many messages.

use crate::telemetry;

/// The first one stands for all of them.
#[derive(Debug, Default)]
pub(super) struct Parked {
    messages: usize,
    first: Option<(String, String)>,
}

impl Parked {
    pub(super) fn add(&mut self, label: String, reason: String) {
        telemetry::parked(&label, &reason);
        self.messages += 1;
        self.first.get_or_insert((label, reason));
    }

    pub(super) fn report(&mut self, timeout: &str) {
        if let Some((label, reason)) = self.first.take() {
            telemetry::batch_parked(timeout, self.messages, &label, &reason);
            self.messages = 0;
        }
    }
}
