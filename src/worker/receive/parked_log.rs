//! What was parked since the last report: one log line for many messages.

use crate::telemetry::{self, labels::ParkReason};

/// Why a message is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    /// For those who count.
    pub(super) class: ParkReason,
    /// For the person who looks into the parking lot.
    pub(super) text: String,
}

/// The first one stands for all of them.
#[derive(Debug, Default)]
pub(super) struct Parked {
    messages: usize,
    first: Option<(String, String)>,
}

impl Parked {
    pub(super) fn add(&mut self, timeout: &str, label: String, why: Why) {
        telemetry::parked(timeout, why.class, &label, &why.text);
        self.messages += 1;
        self.first.get_or_insert((label, why.text));
    }

    pub(super) fn report(&mut self, timeout: &str) {
        if let Some((label, reason)) = self.first.take() {
            telemetry::batch_parked(timeout, self.messages, &label, &reason);
            self.messages = 0;
        }
    }
}
