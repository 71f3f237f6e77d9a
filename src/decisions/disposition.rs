//! Decides what happens to a delivery, from the database's answer about its order and from the levels of the broker.

use std::time::Duration;

use crate::{
    order::Outcome,
    topology::{
        level::Level,
        route::{LONGEST_IN_HAND, Route},
    },
};

/// The first wait for an order that another session has locked; it doubles.
const FIRST_BUSY: Duration = Duration::from_millis(10);
const LONGEST_BUSY: Duration = Duration::from_secs(1);
/// Wait for a guarded order, or for an order that failed without being at fault, if there is no retry level.
const LONG: Duration = Duration::from_mins(1);

/// Longest wait while the broker has no level: it may have one again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Reason of a parked message if the broker has no level.
pub const NOWHERE_TO_WAIT: &str = "it has to wait, and the broker routes to nothing of the topology that delays: run `overdue apply`";

/// The worker's next step for a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The delivery is complete.
    Ack,
    /// The delivery is complete: the row of its order was deleted.
    AckGone,
    /// Keep the delivery unacked, and query its order again.
    Hold {
        /// Time until the query.
        wait: Duration,
    },
    /// Publish a copy that waits on the broker, await its confirm, then ack the delivery.
    Delay {
        /// Where the copy waits.
        route: Route,
        /// Counters in the headers of the copy.
        tries: Tries,
        /// Whether the copy uses a retry.
        is_retry: bool,
    },
    /// Publish a copy to the parking lot, await its confirm, then ack the delivery.
    Park {
        /// Label of the metric.
        class: ParkReason,
        /// Text for the people who read the parking lot.
        reason: String,
    },
}

/// The reason why a message is parked, as a label of a metric; the message itself has the reason as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkReason {
    /// The body could not be read.
    Unreadable,
    /// The database did not know the order in any retry.
    Unknown,
    /// The effect failed for this order in each retry.
    Failed,
    /// The message had to wait, and the broker had no level for it.
    NowhereToWait,
}

impl ParkReason {
    /// All reasons, in the order of `docs/metrics.md`.
    pub(crate) const ALL: [Self; 4] =
        [Self::Unreadable, Self::Unknown, Self::Failed, Self::NowhereToWait];

    /// The value of the label.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::NowhereToWait => "nowhere_to_wait",
        }
    }
}

/// How often a delivery was tried before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Retries, `x-attempt`: after the last one the message is parked.
    pub attempt: u32,
    /// How many times in a row the order was overdue and guarded, `x-guarded`: without a limit.
    pub guarded: u32,
    /// How many times in a row another session held a lock; known only while the worker keeps the delivery.
    pub busy: u32,
}

/// The meaning of an order without a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unseen {
    /// An order without a row is a fault.
    #[default]
    Fault,
    /// The row was deleted, or its transaction has not committed yet.
    Gone,
    /// Row level security may hide the row from this login: the reason.
    Hidden(String),
}

/// How long messages wait.
#[derive(Clone, Copy, Debug)]
pub struct Waits<'a> {
    /// Delays before the first, second, … retry.
    pub retry: &'a [Level],
    /// Longest time until a deadline for which the delivery is kept unacked; zero if the consumer has no room.
    pub hold: Duration,
    /// Longest such time for a consumer without room. Messages behind this one in the queue were delivered as early, so none of
    /// them is due before it.
    pub lead: Duration,
}

impl Waits<'_> {
    /// The waits of a delivery that is unacked for `in_hand`: at the limit it goes to a level, before the broker closes the channel.
    pub fn after(self, in_hand: Duration) -> Self {
        if in_hand < LONGEST_IN_HAND {
            return self;
        }
        Self { hold: Duration::ZERO, lead: Duration::ZERO, ..self }
    }
}

/// Decides about a delivery. `route` returns the level for a wait, or the level that covers as much of the wait as possible.
///
/// `unseen` is the meaning of an order without a row. An order keeps its retries if it is not due, guarded, locked by another
/// session, or stopped by a fault that is not its own.
pub fn decide(
    outcome: &Outcome,
    unseen: &Unseen,
    tries: Tries,
    Waits { retry, hold, lead }: Waits<'_>,
    route: impl FnOnce(Duration) -> Option<Route>,
) -> Disposition {
    let longest = || retry.iter().map(|level| level.ttl().as_duration()).max().unwrap_or(LONG);
    let (wait, guarded) = match outcome {
        Outcome::Closed { .. } | Outcome::AlreadyFinal => return Disposition::Ack,
        Outcome::Unknown => {
            let reason = "the database does not know this order";
            return match unseen {
                Unseen::Gone if tries.attempt > 0 => Disposition::AckGone,
                Unseen::Hidden(why) => {
                    let reason = format!("{reason}: {why}");
                    try_again((ParkReason::Unknown, &reason), tries, retry, route)
                }
                _ => try_again((ParkReason::Unknown, reason), tries, retry, route),
            };
        }
        Outcome::Failed { reason, .. } => {
            return try_again((ParkReason::Failed, reason), tries, retry, route);
        }
        // Most locks last milliseconds. Without room to wait, about a second in a level is enough.
        Outcome::Busy if hold.is_zero() => (LONGEST_BUSY, tries.guarded),
        Outcome::Busy => {
            let wait = FIRST_BUSY.saturating_mul(1 << tries.busy.min(10)).min(LONGEST_BUSY);
            return Disposition::Hold { wait };
        }
        // The order is overdue, and a rule of the effect guards it for an unknown time.
        Outcome::NotDue { remaining } if remaining.is_zero() => {
            (nth(retry, tries.guarded).unwrap_or_else(longest), tries.guarded.saturating_add(1))
        }
        // The worker keeps the delivery for a short time, so that it closes the order at its deadline.
        Outcome::NotDue { remaining } if *remaining <= hold.max(lead) => {
            return Disposition::Hold { wait: *remaining };
        }
        Outcome::NotDue { remaining } => (*remaining, 0),
        Outcome::Postponed { .. } => (longest(), 0),
    };
    let has_room = !hold.is_zero();
    match route(wait) {
        Some(route) if has_room && route.is_too_long(wait) => Disposition::Hold { wait },
        Some(route) => {
            Disposition::Delay { route, tries: Tries { guarded, ..tries }, is_retry: false }
        }
        // After the wait, the broker may have a level again.
        None if has_room && wait <= LONGEST_IN_HAND => {
            Disposition::Hold { wait: wait.min(LOOK_AGAIN) }
        }
        // A longer wait would exceed the broker's `consumer_timeout`, and without room it would stop due messages behind it:
        // the sweep closes the order.
        None => park(ParkReason::NowhereToWait, NOWHERE_TO_WAIT.to_owned()),
    }
}

/// Retries a message, or parks it after the last retry. If the broker has no level, the message is parked at once: the next
/// query would not find its order either.
fn try_again(
    (class, reason): (ParkReason, &str),
    tries: Tries,
    retry: &[Level],
    route: impl FnOnce(Duration) -> Option<Route>,
) -> Disposition {
    let Some(wait) = nth(retry, tries.attempt) else {
        let retries = crate::text::counted(tries.attempt, "retry");
        return park(class, format!("{reason}; given up after {retries}"));
    };
    let tries = Tries { attempt: tries.attempt.saturating_add(1), guarded: 0, ..tries };
    match route(wait) {
        Some(route) => Disposition::Delay { route, tries, is_retry: true },
        None => park(ParkReason::NowhereToWait, format!("{reason}; {NOWHERE_TO_WAIT}")),
    }
}

fn nth(retry: &[Level], n: u32) -> Option<Duration> {
    let level = usize::try_from(n).ok().and_then(|n| retry.get(n));
    level.map(|level| level.ttl().as_duration())
}

fn park(class: ParkReason, reason: String) -> Disposition {
    Disposition::Park { class, reason }
}
