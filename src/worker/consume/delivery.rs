//! A delivery with its parsed body.

use std::time::{Duration, Instant};

use crate::{
    decisions::disposition::{Disposition, ParkReason, Tries, Unseen, Waits, decide},
    order::{OrderId, Outcome},
    store::clock::DatabaseTime,
    telemetry::Label,
    topology::route::Route,
    wire::{DueNotice, Received, Trace, Unreadable, headers},
    worker::{
        consume::delivery_channels::Receipt, contention::busy_for, context::Worker, log_lines::Why,
        traces_in_hand::TraceInHand,
    },
};

/// An unsettled delivery.
pub(super) struct Delivery {
    pub(super) received: Received,
    pub(super) receipt: Receipt,
    notice: Result<DueNotice, Unreadable>,
    /// `due_at` of the body, if it is not a time with a zone.
    pub(super) ignored_due_at: Option<String>,
    /// Whether the message is a canary of `overdue verify --probe`, which belongs to no order.
    is_canary: bool,
    /// The tries in the headers, and the times that this worker found the order locked.
    pub(super) tries: Tries,
    /// When the order was found locked, for the first and the last time since any other outcome.
    pub(super) locked: Option<(Instant, Instant)>,
    /// How many times the order had a turn to wait for locks.
    pub(super) turns: u32,
    /// How many times the broker refused a copy.
    pub(super) refused: u32,
    pub(super) received_at: Instant,
    /// Registers the trace for bursts and sweeps, which close the order ahead of this delivery.
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
        // Thousands of deliveries are in memory at once, and the broker's headers take many times the memory of the rest.
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

    /// The order to query; `None` for an unreadable body, and for a canary.
    pub(super) fn order_id(&self) -> Option<&OrderId> {
        self.notice.as_ref().ok().map(|notice| &notice.order_id).filter(|_| !self.is_canary)
    }

    /// The deadline as its publisher knows it.
    pub(super) fn due_at(&self) -> Option<DatabaseTime> {
        self.notice.as_ref().ok().and_then(|notice| notice.due_at).map(DatabaseTime::from)
    }

    pub(super) fn trace(&self) -> Option<Trace> {
        self.received.trace()
    }

    /// Whether the delivery comes from a retry, or from a wait because its order was guarded.
    pub(super) const fn was_tried(&self) -> bool {
        self.tries.attempt > 0 || self.tries.guarded > 0
    }

    /// Whether the order was busy long enough for a turn.
    pub(super) fn stays_busy(&self, now: Instant) -> bool {
        let busy_for = busy_for(self.turns);
        self.locked.is_some_and(|(since, _)| now.saturating_duration_since(since) >= busy_for)
    }

    /// Name of the delivery in a log line.
    pub(super) fn label(&self) -> Label {
        let order =
            self.order_id().map_or_else(|| "unreadable message".into(), ToString::to_string);
        Label { order, trace_id: self.trace().map(|trace| trace.trace_id().to_owned()) }
    }

    /// Decides about the delivery. `outcome` is `None` for an unreadable body or a canary.
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
pub(super) struct PendingRepublish {
    pub(super) delivery: Delivery,
    pub(super) purpose: RepublishKind,
}

/// The use of a copy.
pub(super) enum RepublishKind {
    /// The copy waits on the broker: for its deadline, for a guard, or for a retry.
    Delay { route: Route, is_retry: bool },
    /// The copy goes to the parking lot, for this reason.
    Park(Why),
}

impl RepublishKind {
    /// The copy's destination: a destination that does not answer delays no copy for another one.
    pub(super) fn place(&self) -> &str {
        match self {
            Self::Delay { route, .. } => route.place(),
            Self::Park(_) => "the parking lot",
        }
    }
}
