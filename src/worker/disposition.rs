//! What becomes of a delivery, given what the database said about its order.

use std::time::Duration;

use crate::{
    order::Outcome,
    topology::level::{Level, best_level},
};

/// What the worker does with one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Done with it.
    Ack,
    /// Publish it again through a level, await the confirm, then ack.
    Delay {
        /// The level.
        level: Level,
        /// Value of `x-attempt` on the copy.
        attempt: u32,
    },
    /// Publish it to the parking lot, await the confirm, then ack.
    Park {
        /// Why, for the person who looks there.
        reason: String,
    },
}

/// The levels a message can be put back through.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    /// Every level, for the rest of a deadline.
    pub all: &'a [Level],
    /// The retry levels, in order.
    pub retry: &'a [Level],
}

/// Decides about a delivery that was tried `attempt` times before.
///
/// An order that is not due, locked by somebody else, or stopped by a fault that is not its own keeps its attempt:
/// waiting does not fail.
#[must_use]
pub fn decide(outcome: &Outcome, attempt: u32, levels: Levels<'_>) -> Disposition {
    match outcome {
        Outcome::Closed { .. } | Outcome::AlreadyFinal => Disposition::Ack,
        Outcome::NotDue { remaining } => wait(*remaining, attempt, levels),
        Outcome::Unknown => retry("the database does not know this order", attempt, levels),
        Outcome::Failed { reason, .. } => retry(reason, attempt, levels),
        Outcome::Busy => wait(Duration::ZERO, attempt, levels),
        Outcome::Postponed { .. } => wait(longest_retry(levels.retry), attempt, levels),
    }
}

/// How long a failure that is nobody's fault waits where no level is for retries.
const POSTPONED: Duration = Duration::from_mins(1);

fn longest_retry(retry: &[Level]) -> Duration {
    retry.iter().map(|level| level.ttl().as_duration()).max().unwrap_or(POSTPONED)
}

fn wait(remaining: Duration, attempt: u32, levels: Levels<'_>) -> Disposition {
    best_level(levels.all, remaining).map_or_else(
        || Disposition::Park { reason: "not due, and there is no level to wait in".to_owned() },
        |level| Disposition::Delay { level: level.clone(), attempt },
    )
}

fn retry(reason: &str, attempt: u32, levels: Levels<'_>) -> Disposition {
    let next = usize::try_from(attempt).ok().and_then(|attempt| levels.retry.get(attempt));
    match next {
        Some(level) => {
            Disposition::Delay { level: level.clone(), attempt: attempt.saturating_add(1) }
        }
        None => Disposition::Park { reason: format!("{reason}; given up after {attempt} retries") },
    }
}
