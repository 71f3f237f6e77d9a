//! What becomes of a delivery, given what the database said about its order.

use std::time::Duration;

use crate::{
    order::Outcome,
    topology::{level::Level, route::LONGEST_IN_HAND},
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
    /// Keep it unacked, and look its order up again.
    Hold {
        /// After so long.
        wait: Duration,
    },
    /// Publish it again so that it waits on the broker, await the confirm, then ack.
    Delay {
        /// How long it is to wait, at the most.
        wait: Duration,
        /// What the copy says of itself.
        tries: Tries,
    },
    /// Publish it to the parking lot, await the confirm, then ack.
    Park {
        /// Why, for the person who looks there.
        reason: String,
    },
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
    #[must_use]
    pub fn after(self, in_hand: Duration) -> Self {
        if in_hand < LONGEST_IN_HAND {
            return self;
        }
        Self { hold: Duration::ZERO, lead: Duration::ZERO, ..self }
    }
}

/// Decides about a delivery.
///
/// An order that is not due, guarded, locked by somebody else, or stopped by a fault that is not its own keeps its
/// attempt: waiting does not fail.
#[must_use]
pub fn decide(outcome: &Outcome, tries: Tries, waits: Waits<'_>) -> Disposition {
    match outcome {
        Outcome::Closed { .. } | Outcome::AlreadyFinal => Disposition::Ack,
        Outcome::NotDue { remaining } if remaining.is_zero() => guard(tries, waits),
        Outcome::NotDue { remaining } => wait(*remaining, tries, waits),
        Outcome::Unknown => retry("the database does not know this order", tries, waits),
        Outcome::Failed { reason, .. } => retry(reason, tries, waits),
        Outcome::Busy => busy(tries, waits),
        Outcome::Postponed { .. } => {
            delay(longest_retry(waits.retry), Tries { guarded: 0, ..tries })
        }
    }
}

fn longest_retry(retry: &[Level]) -> Duration {
    retry.iter().map(|level| level.ttl().as_duration()).max().unwrap_or(LONG)
}

/// A short rest is waited for here, so that the order is closed at its deadline.
fn wait(remaining: Duration, tries: Tries, waits: Waits<'_>) -> Disposition {
    if remaining <= waits.hold.max(waits.lead) {
        return Disposition::Hold { wait: remaining };
    }
    delay(remaining, Tries { guarded: 0, ..tries })
}

/// The broker has nothing that delays. A rest that ends soon is waited for here, with a look now and then whether there is
/// something again. A longer one would outlast the broker's patience with unacked deliveries, and where there is no room
/// it would stand before what is due: it is parked, and the sweep closes its order.
#[must_use]
pub fn nowhere_to_wait(remaining: Duration, hold: Duration) -> Disposition {
    if hold.is_zero() || remaining > LONGEST_IN_HAND {
        return Disposition::Park { reason: NOWHERE_TO_WAIT.to_owned() };
    }
    Disposition::Hold { wait: remaining.min(LOOK_AGAIN) }
}

/// Whether a message waits through no fault of its order.
#[must_use]
pub const fn is_waiting(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::NotDue { .. } | Outcome::Busy | Outcome::Postponed { .. }))
}

/// Why a message is parked that could have been tried again, with the cause of that.
#[must_use]
pub fn without_retry(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Outcome::Failed { reason, .. }) => format!("{reason}; {NOWHERE_TO_WAIT}"),
        Some(Outcome::Unknown) | None => {
            format!("the database does not know this order; {NOWHERE_TO_WAIT}")
        }
        _ => NOWHERE_TO_WAIT.to_owned(),
    }
}

/// Overdue, and the effect says that it is not: its own rule guards the order, for nobody knows how long.
fn guard(tries: Tries, waits: Waits<'_>) -> Disposition {
    let next = usize::try_from(tries.guarded).ok().and_then(|guarded| waits.retry.get(guarded));
    let wait = next.map_or_else(|| longest_retry(waits.retry), |level| level.ttl().as_duration());
    delay(wait, Tries { guarded: tries.guarded.saturating_add(1), ..tries })
}

/// Locks are held for milliseconds as a rule. Where there is no room to wait, about a second on the broker does as well.
fn busy(tries: Tries, waits: Waits<'_>) -> Disposition {
    if waits.hold.is_zero() {
        return delay(LONGEST_BUSY, tries);
    }
    let wait = FIRST_BUSY.saturating_mul(1 << tries.busy.min(10)).min(LONGEST_BUSY);
    Disposition::Hold { wait }
}

fn retry(reason: &str, tries: Tries, waits: Waits<'_>) -> Disposition {
    let attempt = tries.attempt;
    let next = usize::try_from(attempt).ok().and_then(|attempt| waits.retry.get(attempt));
    match next {
        Some(level) => {
            let attempt = attempt.saturating_add(1);
            delay(level.ttl().as_duration(), Tries { attempt, guarded: 0, ..tries })
        }
        None => Disposition::Park { reason: format!("{reason}; given up after {attempt} retries") },
    }
}

fn delay(wait: Duration, tries: Tries) -> Disposition {
    Disposition::Delay { wait, tries }
}
