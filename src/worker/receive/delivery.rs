//! A delivery and what was read in it.

use std::time::Instant;

use crate::{
    decisions::disposition::{Disposition, Tries, Waits, decide},
    order::{OrderId, Outcome},
    store::database_time::DatabaseTime,
    wire::{DueNotice, Received, Unreadable, headers},
    worker::{
        channels::Source,
        kept_bytes::{KeptBytes, Part},
    },
};

/// A delivery that has to be settled.
#[must_use]
pub(super) struct Delivery {
    pub(super) received: Received,
    pub(super) source: Source,
    notice: Result<DueNotice, Unreadable>,
    /// A message of `overdue verify --probe`: it is about no order.
    is_canary: bool,
    /// How often it was tried before this delivery.
    tries: Tries,
    /// Times that its order was locked by somebody else.
    pub(super) busy: u32,
    /// When it was found locked first, and last, without another answer between.
    pub(super) locked: Option<(Instant, Instant)>,
    pub(super) received_at: Instant,
    /// Counts it while it is in memory.
    pub(super) part: Part,
}

impl Delivery {
    pub(super) fn read(source: Source, received: Received, kept: &KeptBytes) -> Self {
        let notice = received.notice();
        let is_canary = headers::is_canary(&received.headers);
        let tries = Tries {
            attempt: headers::attempt(&received.headers),
            guarded: headers::guarded(&received.headers),
            busy: 0,
        };
        // Thousands are held at once, and in memory the broker's headers are many times the rest.
        let received = received.without_needless_headers();
        let part = kept.keep(received.bytes());
        let (busy, locked, received_at) = (0, None, Instant::now());
        Self { received, source, notice, is_canary, tries, busy, locked, received_at, part }
    }

    /// Which order to look up; none where the body is unreadable, and for a canary.
    pub(super) fn order_id(&self) -> Option<&OrderId> {
        self.notice.as_ref().ok().map(|notice| &notice.order_id).filter(|_| !self.is_canary)
    }

    /// When its publisher thinks that it is due.
    pub(super) fn due_at(&self) -> Option<DatabaseTime> {
        self.notice.as_ref().ok().and_then(|notice| notice.due_at).map(DatabaseTime::from)
    }

    /// Whether it comes back from a retry, or because its order is guarded.
    pub(super) const fn was_tried(&self) -> bool {
        self.tries.attempt > 0 || self.tries.guarded > 0
    }

    /// What a log line calls it.
    pub(super) fn label(&self) -> String {
        self.order_id().map_or_else(|| "unreadable message".to_owned(), ToString::to_string)
    }

    /// `None` as outcome is a body that could not be read.
    pub(super) fn disposition(&self, outcome: Option<&Outcome>, waits: Waits<'_>) -> Disposition {
        if self.is_canary {
            return Disposition::Ack;
        }
        let tries = Tries { busy: self.busy, ..self.tries };
        match (&self.notice, outcome) {
            (Err(unreadable), _) => Disposition::Park { reason: unreadable.to_string() },
            (Ok(_), Some(outcome)) => decide(outcome, tries, waits),
            (Ok(_), None) => decide(&Outcome::Unknown, tries, waits),
        }
    }
}
