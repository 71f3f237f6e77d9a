//! A delivery and what was read in it.

use std::time::{Duration, Instant};

use crate::{
    decisions::disposition::{Disposition, ParkReason, Tries, Unseen, Waits, decide},
    order::{OrderId, Outcome},
    store::clock::DatabaseTime,
    telemetry::Label,
    topology::route::Route,
    wire::{DueNotice, Received, Trace, Unreadable, headers},
    worker::{
        consume::inlet::Receipt, context::Worker, log_lines::Why, traces_in_hand::TraceInHand,
        turns::busy_for,
    },
};

/// A delivery that has to be settled.
pub(super) struct Delivery {
    pub(super) received: Received,
    pub(super) receipt: Receipt,
    notice: Result<DueNotice, Unreadable>,
    /// Its `due_at`, where that is not a time with a zone.
    pub(super) ignored_due_at: Option<String>,
    /// A message of `overdue verify --probe`: it is about no order.
    is_canary: bool,
    /// How often it was tried before this delivery, and found locked since.
    pub(super) tries: Tries,
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
    pub(super) fn read(receipt: Receipt, received: Received, worker: &Worker) -> Self {
        let (notice, ignored_due_at) = match received.notice(&worker.topology) {
            Ok(read) => (Ok(read.notice), read.ignored_due_at),
            Err(unreadable) => (Err(unreadable), None),
        };
        let trace = notice.as_ref().ok().zip(received.trace());
        let trace = trace.map(|(notice, trace)| worker.traces.add(&notice.order_id, trace));
        let is_canary = headers::is_canary(&received.headers);
        let tries = Tries {
            attempt: headers::attempt(&received.headers),
            guarded: headers::guarded(&received.headers),
            busy: 0,
        };
        // Thousands are held at once, and in memory the broker's headers are many times the rest.
        let received = received.without_needless_headers();
        Self {
            received,
            receipt,
            notice,
            ignored_due_at,
            is_canary,
            tries,
            locked: None,
            turns: 0,
            refused: 0,
            received_at: Instant::now(),
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

    /// `None` as outcome is a body that could not be read, or a canary.
    pub(super) fn disposition(
        &self,
        outcome: Option<&Outcome>,
        unseen: &Unseen,
        waits: Waits<'_>,
        route: impl FnOnce(Duration) -> Option<Route>,
    ) -> Disposition {
        match &self.notice {
            _ if self.is_canary => Disposition::Ack,
            Err(unreadable) => {
                let (class, reason) = (ParkReason::Unreadable, unreadable.to_string());
                Disposition::Park { class, reason }
            }
            Ok(_) => decide(outcome.unwrap_or(&Outcome::Unknown), unseen, self.tries, waits, route),
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
    /// It waits there: for its deadline, for what guards it, or for a retry.
    Delay { route: Route, is_retry: bool },
    /// The parking lot, and why.
    Park(Why),
}

impl Purpose {
    /// Where it goes: what does not answer there holds up nothing that goes elsewhere.
    pub(super) fn place(&self) -> &str {
        match self {
            Self::Delay { route, .. } => route.place(),
            Self::Park(_) => "the parking lot",
        }
    }
}
