//! A delivery and what was read in it.

use super::disposition::{Disposition, Levels, decide};
use crate::{
    order::{OrderId, Outcome},
    topology::Topology,
    wire::{DueNotice, Received, Unreadable, headers},
};

/// A delivery that has to be settled, which only [`settle`](super::settle::settle) does.
#[must_use]
pub(super) struct Due {
    pub(super) received: Received,
    notice: Result<DueNotice, Unreadable>,
    /// A message of `overdue verify --probe`: it is about no order.
    is_canary: bool,
}

impl Due {
    pub(super) fn read(received: Received) -> Self {
        let notice = received.notice();
        let is_canary = headers::is_canary(&received.headers);
        Self { received, notice, is_canary }
    }

    pub(super) const fn tag(&self) -> u64 {
        self.received.tag
    }

    /// Which order to look up; none where the body is unreadable, and for a canary.
    pub(super) fn order_id(&self) -> Option<&OrderId> {
        self.notice.as_ref().ok().map(|notice| &notice.order_id).filter(|_| !self.is_canary)
    }

    /// What a log line calls it.
    pub(super) fn label(&self) -> String {
        self.order_id().map_or_else(|| "unreadable message".to_owned(), ToString::to_string)
    }

    /// `None` as outcome is a body that could not be read.
    pub(super) fn disposition(
        &self,
        outcome: Option<&Outcome>,
        topology: &Topology,
    ) -> Disposition {
        if self.is_canary {
            return Disposition::Ack;
        }
        let levels = Levels { all: &topology.levels, retry: &topology.retry };
        let attempt = headers::attempt(&self.received.headers);
        match (&self.notice, outcome) {
            (Err(unreadable), _) => Disposition::Park { reason: unreadable.to_string() },
            (Ok(_), Some(outcome)) => decide(outcome, attempt, levels),
            (Ok(_), None) => decide(&Outcome::Unknown, attempt, levels),
        }
    }
}
