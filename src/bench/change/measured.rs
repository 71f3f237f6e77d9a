//! The result of one change, as data.

use std::time::Duration;

use serde::Serialize;

use super::{
    kind::ChangeKind,
    message_log::{MessageCounts, MessageLog},
    size::ChangeSize,
};
use crate::statistics::{Percentiles, per_second};

/// The result of one change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredChange {
    /// As in `--change`.
    pub kind: ChangeKind,
    /// In words.
    pub what: String,
    /// What became of the messages.
    #[serde(flatten)]
    pub counts: MessageCounts,
    /// From due to received.
    pub lateness: Option<Percentiles>,
    /// Messages confirmed per second, before the change.
    pub published_per_s: f64,
    /// How the change was made.
    #[serde(flatten)]
    pub change: AppliedChange,
    /// Where a timeout was removed: whether that was refused, and changed nothing, while messages were in its queue.
    pub refused_while_occupied: Option<bool>,
}

/// How the change was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AppliedChange {
    /// The plan's summary.
    pub plan: String,
    /// Steps of the plan.
    pub steps: usize,
    /// Seconds from planning until nothing new came into what was retired.
    pub switched_s: f64,
    /// Seconds from planning until the plan was carried out.
    pub applied_s: f64,
    /// Seconds from planning until what was retired was gone.
    pub old_queues_gone_s: f64,
}

impl MeasuredChange {
    /// The result of a change that is over; `filled` is how long it took to publish the messages that waited.
    #[must_use]
    pub fn new(
        kind: ChangeKind,
        size: &ChangeSize,
        log: &MessageLog,
        filled: Duration,
        change: AppliedChange,
        refused_while_occupied: Option<bool>,
    ) -> Self {
        Self {
            kind,
            what: kind.describe(&size.levels),
            counts: log.counts(),
            lateness: Percentiles::of(log.lateness()),
            published_per_s: per_second(size.messages, filled),
            change,
            refused_while_occupied,
        }
    }

    /// Everything that should not be.
    pub(super) fn broken(&self) -> Vec<String> {
        let MessageCounts { lost, early, misdirected, foreign, .. } = self.counts;
        let counts = [
            (lost, "messages lost"),
            (early, "copies received before they were due"),
            (misdirected, "messages parked that should have been received"),
            (foreign, "messages that nobody published"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut broken: Vec<String> =
            counts.map(|(count, what)| format!("{what}: {count}")).collect();
        if self.refused_while_occupied == Some(false) {
            broken.push("a queue with messages was not left alone".to_owned());
        }
        broken
    }
}
