//! A delivery and what was read in it.

use std::time::Duration;

use super::{
    channels::Source,
    disposition::{Disposition, Tries, Waits, decide},
    kept_bytes::{KeptBytes, Part},
};
use crate::{
    order::{OrderId, Outcome},
    topology::Topology,
    wire::{DueNotice, Received, Unreadable, headers},
};

/// A delivery that has to be settled.
#[must_use]
pub(super) struct Due {
    pub(super) received: Received,
    pub(super) source: Source,
    notice: Result<DueNotice, Unreadable>,
    /// A message of `overdue verify --probe`: it is about no order.
    is_canary: bool,
    /// Times in a row that its order was locked by somebody else.
    pub(super) busy: u32,
    /// Counts it while it is in memory.
    pub(super) part: Part,
}

impl Due {
    pub(super) fn read(source: Source, received: Received, kept: &KeptBytes) -> Self {
        let part = kept.keep(received.bytes());
        let notice = received.notice();
        let is_canary = headers::is_canary(&received.headers);
        Self { received, source, notice, is_canary, busy: 0, part }
    }

    /// Which order to look up; none where the body is unreadable, and for a canary.
    pub(super) fn order_id(&self) -> Option<&OrderId> {
        self.notice.as_ref().ok().map(|notice| &notice.order_id).filter(|_| !self.is_canary)
    }

    /// What a log line calls it.
    pub(super) fn label(&self) -> String {
        self.order_id().map_or_else(|| "unreadable message".to_owned(), ToString::to_string)
    }

    /// `None` as outcome is a body that could not be read. `hold` is the longest rest to wait for unacked.
    pub(super) fn disposition(
        &self,
        outcome: Option<&Outcome>,
        topology: &Topology,
        hold: Duration,
    ) -> Disposition {
        if self.is_canary {
            return Disposition::Ack;
        }
        let waits = Waits { retry: &topology.retry, hold };
        let tries = Tries {
            attempt: headers::attempt(&self.received.headers),
            guarded: headers::guarded(&self.received.headers),
            busy: self.busy,
        };
        match (&self.notice, outcome) {
            (Err(unreadable), _) => Disposition::Park { reason: unreadable.to_string() },
            (Ok(_), Some(outcome)) => decide(outcome, tries, waits),
            (Ok(_), None) => decide(&Outcome::Unknown, tries, waits),
        }
    }
}
