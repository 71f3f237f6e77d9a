//! The lead: how much earlier than its name says a level lets a message go, so that the broker has done its work when the
//! instant comes. The worker holds the message until then.

use std::{str::FromStr, time::Duration};

use super::level::{Level, LevelError, Ttl};

/// Where the file does not say.
pub const DEFAULT_LEAD: Duration = Duration::from_secs(2);
/// The same of a way through a ladder, which is rounded down as well, by up to its smallest unit.
const THROUGH_A_LADDER: Duration = Duration::from_millis(500);
/// What is held is unacked and in the memory of the worker.
pub(crate) const LONGEST_LEAD: Duration = Duration::from_mins(1);
/// The default takes no more than this part of a level: a level is still to be a delay on the broker.
const PART: u32 = 4;

/// How early levels let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lead {
    /// [`DEFAULT_LEAD`], or a quarter of a level that is shorter than four times as much.
    #[default]
    Usual,
    /// So much, in whole milliseconds; less than half of each level, which `overdue check` makes sure of.
    Given(Duration),
}

/// Why a text is not a lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadError {
    /// Not a duration.
    #[error(transparent)]
    Text(LevelError),
    /// More than [`LONGEST_LEAD`].
    #[error("a lead of `{0}` is longer than 1m: the worker would hold every message for so long")]
    TooLong(String),
}

impl FromStr for Lead {
    type Err = LeadError;

    fn from_str(text: &str) -> Result<Self, LeadError> {
        let lead = match text.parse::<Ttl>() {
            Ok(ttl) => ttl.as_duration(),
            Err(LevelError::Zero(_)) => Duration::ZERO,
            Err(error) => return Err(LeadError::Text(error)),
        };
        if lead > LONGEST_LEAD {
            return Err(LeadError::TooLong(text.to_owned()));
        }
        Ok(Self::Given(lead))
    }
}

impl Lead {
    /// Levels let go when they are called so.
    pub const NONE: Self = Self::Given(Duration::ZERO);

    /// How early a delay ends, in whole milliseconds; less than half of it.
    #[must_use]
    pub fn of(self, delay: Duration) -> Duration {
        let lead = match self {
            Self::Usual => DEFAULT_LEAD.min(delay / PART),
            Self::Given(lead) if lead < delay / 2 => lead,
            Self::Given(_) => delay / PART,
        };
        Duration::from_millis(u64::try_from(lead.as_millis()).unwrap_or(0))
    }

    /// How early a way through a ladder is to end.
    #[must_use]
    pub(crate) fn through_a_ladder(self, delay: Duration) -> Duration {
        match self {
            Self::Usual => self.of(delay).min(THROUGH_A_LADDER),
            Self::Given(_) => self.of(delay),
        }
    }

    /// How long the queue of a level holds a message.
    #[must_use]
    pub fn lets_go(self, level: &Level) -> Ttl {
        let delay = level.ttl().as_duration();
        // Less than half is taken away, so at least a millisecond is left.
        Ttl::of(delay.saturating_sub(self.of(delay))).unwrap_or(level.ttl())
    }

    /// The most that any delay ends early.
    #[must_use]
    pub const fn longest(self) -> Duration {
        match self {
            Self::Usual => DEFAULT_LEAD,
            Self::Given(lead) => lead,
        }
    }
}

/// The level that brings a message closest to `remaining` without passing it; they let go by `lead` early.
///
/// Chosen again at each hop, so a rest of 13 days takes the longest level that fits, then the next.
/// Where even the shortest level is too long, the shortest is taken: late by less than its TTL.
/// `None` only where there is no level.
#[must_use]
pub fn best_level(levels: &[Level], lead: Lead, remaining: Duration) -> Option<&Level> {
    levels
        .iter()
        .filter(|level| lead.lets_go(level).as_duration() <= remaining)
        .max_by_key(|level| level.ttl())
        .or_else(|| levels.iter().min_by_key(|level| level.ttl()))
}
