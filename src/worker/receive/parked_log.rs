//! What was parked since the last report: one log line for many messages.

use crate::telemetry::{self, labels::ParkReason};

/// Why a message is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::worker) struct Why {
    /// For those who count.
    pub(in crate::worker) class: ParkReason,
    /// For the person who looks into the parking lot.
    pub(in crate::worker) text: String,
}

/// The first one stands for all of them.
#[derive(Debug, Default)]
pub(in crate::worker) struct Parked {
    messages: usize,
    first: Option<(String, String)>,
}

impl Parked {
    pub(in crate::worker) fn add(&mut self, timeout: &str, label: String, why: Why) {
        telemetry::parked(timeout, why.class, &label, &why.text);
        self.messages += 1;
        self.first.get_or_insert((label, why.text));
    }

    /// Whether there was something.
    pub(in crate::worker) fn report(&mut self, timeout: &str) -> bool {
        let Some((label, reason)) = self.first.take() else { return false };
        telemetry::batch_parked(timeout, self.messages, &label, &reason);
        self.messages = 0;
        true
    }
}
