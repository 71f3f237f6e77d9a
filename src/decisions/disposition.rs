//! What becomes of a delivery, given what the database said about its order, and what the broker delays.

use std::time::Duration;

use crate::{
    order::Outcome,
    topology::{
        level::Level,
        route::{LONGEST_IN_HAND, Route},
    },
};

/// The first wait for an order that somebody else has locked; it doubles.
const FIRST_BUSY: Duration = Duration::from_millis(10);
/// The longest one.
const LONGEST_BUSY: Duration = Duration::from_secs(1);
/// How long an order waits that somebody guards, or that failed through no fault of its own, where no level is for
/// retries.
const LONG: Duration = Duration::from_mins(1);

/// As often as it is looked which levels are there.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Nothing on the broker delays.
pub const NOWHERE_TO_WAIT: &str = "it has to wait, and the broker routes to nothing of the topology that delays: run `overdue apply`";

/// What the worker does with one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Done with it.
    Ack,
    /// Done with it: its row was deleted.
    AckGone,
    /// Keep it unacked, and look its order up again.
    Hold {
        /// After so long.
        wait: Duration,
    },
    /// Publish it again so that it waits on the broker, await the confirm, then ack.
    Delay {
        /// Where.
        route: Route,
        /// What the copy says of itself.
        tries: Tries,
        /// Whether that burns a retry.
        is_retry: bool,
    },
    /// Publish it to the parking lot, await the confirm, then ack.
    Park {
        /// For those who count.
        class: ParkReason,
        /// Why, for the person who looks there.
        reason: String,
    },
}

/// Why a message is in the parking lot, as a label: the text for people is in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkReason {
    /// The body could not be read.
    Unreadable,
    /// The database did not know the order, however often it was asked.
    Unknown,
    /// The effect failed for this order, however often it was tried.
    Failed,
    /// It had to wait, and the broker routed to nothing that delays.
    NowhereToWait,
}

impl ParkReason {
    /// All of them, in the order of `docs/metrics.md`.
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
    /// Retries, `x-attempt`: they end in the parking lot.
    pub attempt: u32,
    /// Times in a row that its order was overdue and guarded, `x-guarded`: they never end.
    pub guarded: u32,
    /// Times in a row that somebody else held a lock; known only while the delivery is held.
    pub busy: u32,
}

/// The meaning of an order without a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unseen {
    /// A fault.
    #[default]
    Fault,
    /// The row was deleted, or its transaction has not committed yet.
    Gone,
    /// The row may be there and hidden from this login: why.
    Hidden(String),
}

/// How long messages wait.
#[derive(Clone, Copy, Debug)]
pub struct Waits<'a> {
    /// Before the first, second, … retry.
    pub retry: &'a [Level],
    /// The longest rest that is waited for here, unacked; zero where there is no room.
    pub hold: Duration,
    /// The longest rest that is waited for here even then: what is behind it in the queue has come as early, so it is due
    /// no sooner.
    pub lead: Duration,
}

impl Waits<'_> {
    /// Of a delivery that has been in hand for this long: it goes by a level before the broker ends the channel that it is
    /// unsettled on.
    pub fn after(self, in_hand: Duration) -> Self {
        if in_hand < LONGEST_IN_HAND {
            return self;
        }
        Self { hold: Duration::ZERO, lead: Duration::ZERO, ..self }
    }
}

/// Decides about a delivery. `route` says where a message waits on the broker for so long, or for as much of it as it can.
///
/// `unseen` is the meaning of an order without a row. An order that is not due, guarded, locked by another session, or stopped by a fault that is not its own keeps its
/// attempt: waiting does not fail.
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
        // Locks are held for milliseconds as a rule. Without room to wait, about a second on the broker does as well.
        Outcome::Busy if hold.is_zero() => (LONGEST_BUSY, tries.guarded),
        Outcome::Busy => {
            let wait = FIRST_BUSY.saturating_mul(1 << tries.busy.min(10)).min(LONGEST_BUSY);
            return Disposition::Hold { wait };
        }
        // Overdue, and the effect says that it is not: its own rule guards the order, for nobody knows how long.
        Outcome::NotDue { remaining } if remaining.is_zero() => {
            (nth(retry, tries.guarded).unwrap_or_else(longest), tries.guarded.saturating_add(1))
        }
        // A short rest is waited for here, so that the order is closed at its deadline.
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
        // Until the next look whether there is something again.
        None if has_room && wait <= LONGEST_IN_HAND => {
            Disposition::Hold { wait: wait.min(LOOK_AGAIN) }
        }
        // A longer rest would outlast the broker's patience with unacked deliveries, and without room it would stand before
        // what is due: the sweep closes the order.
        None => park(ParkReason::NowhereToWait, NOWHERE_TO_WAIT.to_owned()),
    }
}

/// After the last retry it is parked; at once if nothing on the broker delays, since it would find no order the next time either.
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
