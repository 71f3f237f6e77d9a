//! A delivery and what was read in it.

use std::time::Instant;

use crate::{
    decisions::disposition::{Disposition, Tries, Waits, decide},
    order::{OrderId, Outcome},
    store::clock::DatabaseTime,
    telemetry::{Label, labels::ParkReason},
    topology::route::Route,
    wire::{DueNotice, Received, Trace, Unreadable, headers},
    worker::{
        consume::inlet::Receipt,
        log_lines::Why,
        traces_in_hand::{TraceInHand, TracesInHand},
        turns::busy_for,
    },
};

/// A delivery that has to be settled.
#[must_use]
pub(super) struct Delivery {
    pub(super) received: Received,
    pub(super) receipt: Receipt,
    notice: Result<DueNotice, Unreadable>,
    /// A message of `overdue verify --probe`: it is about no order.
    is_canary: bool,
    /// How often it was tried before this delivery.
    tries: Tries,
    /// Times in a row that its order was locked by somebody else.
    pub(super) busy: u32,
    /// When it was found locked first, and last, without another answer between.
    pub(super) locked: Option<(Instant, Instant)>,
    /// Times that it had a turn to wait for what is locked.
    pub(super) turns: u32,
    /// Times that a copy of it was refused.
    pub(super) refused: u32,
    pub(super) received_at: Instant,
    /// Known to those who close its order ahead of it.
    _trace: Option<TraceInHand>,
}

impl Delivery {
    pub(super) fn read(receipt: Receipt, received: Received, traces: &TracesInHand) -> Self {
        let notice = received.notice();
        let trace = notice.as_ref().ok().zip(received.trace());
        let trace = trace.map(|(notice, trace)| traces.add(&notice.order_id, trace));
        let is_canary = headers::is_canary(&received.headers);
        let tries = Tries {
            attempt: headers::attempt(&received.headers),
            guarded: headers::guarded(&received.headers),
            busy: 0,
        };
        // Thousands are held at once, and in memory the broker's headers are many times the rest.
        let received = received.without_needless_headers();
        let (busy, locked, refused, received_at) = (0, None, 0, Instant::now());
        Self {
            received,
            receipt,
            notice,
            is_canary,
            tries,
            busy,
            locked,
            turns: 0,
            refused,
            received_at,
            _trace: trace,
        }
    }

    /// Which order to look up; none where the body is unreadable, and for a canary.
    pub(super) fn order_id(&self) -> Option<&OrderId> {
        self.notice.as_ref().ok().map(|notice| &notice.order_id).filter(|_| !self.is_canary)
    }

    /// When its publisher thinks that it is due.
    pub(super) fn due_at(&self) -> Option<DatabaseTime> {
        self.notice.as_ref().ok().and_then(|notice| notice.due_at).map(DatabaseTime::from)
    }

    /// The request that it belongs to.
    pub(super) fn trace(&self) -> Option<Trace> {
        self.received.trace()
    }

    /// Whether it comes back from a retry, or because its order is guarded.
    pub(super) const fn was_tried(&self) -> bool {
        self.tries.attempt > 0 || self.tries.guarded > 0
    }

    /// Whether its order was busy for so long that it may have a turn.
    pub(super) fn stays_busy(&self, now: Instant) -> bool {
        let busy_for = busy_for(self.turns);
        self.locked.is_some_and(|(since, _)| now.saturating_duration_since(since) >= busy_for)
    }

    /// What a log line calls it.
    pub(super) fn label(&self) -> Label {
        let order =
            self.order_id().map_or_else(|| "unreadable message".into(), ToString::to_string);
        Label { order, trace_id: self.trace().map(|trace| trace.trace_id().to_owned()) }
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

    /// Why it is given up.
    pub(super) fn class(&self, outcome: Option<&Outcome>) -> ParkReason {
        match outcome {
            _ if self.order_id().is_none() => ParkReason::Unreadable,
            Some(Outcome::Failed { .. }) => ParkReason::Failed,
            Some(Outcome::Unknown) | None => ParkReason::Unknown,
            Some(_) => ParkReason::NowhereToWait,
        }
    }
}

/// A delivery that is acked when its copy is confirmed.
pub(super) struct Copied {
    pub(super) delivery: Delivery,
    pub(super) purpose: Purpose,
}

/// What a copy is for.
pub(super) enum Purpose {
    /// It waits there: for its deadline, or for what guards it.
    Wait(Route),
    /// It waits there for a retry.
    Retry(Route),
    /// The parking lot, and why.
    Park(Why),
}

impl Purpose {
    /// Where it goes: what does not answer there holds up nothing that goes elsewhere.
    pub(super) fn place(&self) -> &str {
        match self {
            Self::Wait(route) | Self::Retry(route) => route.place(),
            Self::Park(_) => "the parking lot",
        }
    }
}
