//! What becomes of a delivery, given what the database said about its order.

use std::time::Duration;

use crate::{
    order::Outcome,
    topology::level::{Level, best_level},
};

/// The first wait for an order that somebody else has locked; it doubles.
const FIRST_BUSY: Duration = Duration::from_millis(10);
/// The longest one.
const LONGEST_BUSY: Duration = Duration::from_secs(1);
/// How long an order waits that somebody guards, or that failed through no fault of its own, where no level is for
/// retries.
const LONG: Duration = Duration::from_mins(1);

/// A third of the time that RabbitMQ lets a delivery be unacked (`consumer_timeout`, 30 min).
const LONGEST_WITHOUT_LEVEL: Duration = Duration::from_mins(10);
/// As often as it is looked which levels are there.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const NO_LEVEL: &str =
    "it has to wait, and the broker routes to no level of the topology: run `overdue apply`";

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
    /// Publish it again through a level, await the confirm, then ack.
    Delay {
        /// The level.
        level: Level,
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

/// Where a message can wait.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    /// Every level, for the rest of a deadline.
    pub all: &'a [Level],
    /// The retry levels, in order.
    pub retry: &'a [Level],
    /// The longest rest that is waited for here, unacked; zero where there is no room.
    pub hold: Duration,
}

/// Decides about a delivery.
///
/// An order that is not due, guarded, locked by somebody else, or stopped by a fault that is not its own keeps its
/// attempt: waiting does not fail.
#[must_use]
pub fn decide(outcome: &Outcome, tries: Tries, levels: Levels<'_>) -> Disposition {
    match outcome {
        Outcome::Closed { .. } | Outcome::AlreadyFinal => Disposition::Ack,
        Outcome::NotDue { remaining } if remaining.is_zero() => guard(tries, levels),
        Outcome::NotDue { remaining } => wait(*remaining, tries, levels),
        Outcome::Unknown => retry("the database does not know this order", tries, levels),
        Outcome::Failed { reason, .. } => retry(reason, tries, levels),
        Outcome::Busy => busy(tries, levels),
        Outcome::Postponed { .. } => {
            let rest = longest_retry(levels.retry);
            match best_level(levels.all, rest) {
                Some(level) => delay(level, Tries { guarded: 0, ..tries }),
                None => without_level(rest, levels),
            }
        }
    }
}

fn longest_retry(retry: &[Level]) -> Duration {
    retry.iter().map(|level| level.ttl().as_duration()).max().unwrap_or(LONG)
}

/// A short rest is waited for here, so that the order is closed at its deadline.
fn wait(remaining: Duration, tries: Tries, levels: Levels<'_>) -> Disposition {
    if remaining <= levels.hold {
        return Disposition::Hold { wait: remaining };
    }
    match best_level(levels.all, remaining) {
        Some(level) => delay(level, Tries { guarded: 0, ..tries }),
        None => without_level(remaining, levels),
    }
}

/// The broker routes to no level. A rest that ends soon is waited for here, with a look now and then whether there is a
/// level again. A longer one would outlast the broker's patience with unacked deliveries, and where there is no room it
/// would stand before what is due: it is parked, and the sweep closes its order.
fn without_level(remaining: Duration, levels: Levels<'_>) -> Disposition {
    if levels.hold.is_zero() || remaining > LONGEST_WITHOUT_LEVEL {
        return Disposition::Park { reason: NO_LEVEL.to_owned() };
    }
    Disposition::Hold { wait: remaining.min(LOOK_AGAIN) }
}

/// Overdue, and the effect says that it is not: its own rule guards the order, for nobody knows how long.
fn guard(tries: Tries, levels: Levels<'_>) -> Disposition {
    let next = usize::try_from(tries.guarded).ok().and_then(|guarded| levels.retry.get(guarded));
    let level = next
        .or_else(|| levels.retry.iter().max_by_key(|level| level.ttl()))
        .or_else(|| best_level(levels.all, LONG));
    match level {
        Some(level) => delay(level, Tries { guarded: tries.guarded.saturating_add(1), ..tries }),
        None => without_level(LONGEST_BUSY, levels),
    }
}

/// Locks are held for milliseconds as a rule. Where there is no room to wait, a level of about a second does as well.
fn busy(tries: Tries, levels: Levels<'_>) -> Disposition {
    let wait = FIRST_BUSY.saturating_mul(1 << tries.busy.min(10)).min(LONGEST_BUSY);
    match best_level(levels.all, LONGEST_BUSY).filter(|_| levels.hold.is_zero()) {
        Some(level) => delay(level, tries),
        None => Disposition::Hold { wait },
    }
}

fn retry(reason: &str, tries: Tries, levels: Levels<'_>) -> Disposition {
    let attempt = tries.attempt;
    let next = usize::try_from(attempt).ok().and_then(|attempt| levels.retry.get(attempt));
    match next {
        Some(level) => delay(level, Tries { attempt: attempt.saturating_add(1), ..tries }),
        None if levels.all.is_empty() => {
            Disposition::Park { reason: format!("{reason}; {NO_LEVEL}") }
        }
        None => Disposition::Park { reason: format!("{reason}; given up after {attempt} retries") },
    }
}

fn delay(level: &Level, tries: Tries) -> Disposition {
    Disposition::Delay { level: level.clone(), tries }
}
