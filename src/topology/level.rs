//! Delay levels: one level is one queue whose message TTL is the delay, less the lead. And the durations that files, flags
//! and settings are written in.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    document::quoted,
    text::{duration, length},
};

/// The longest message TTL RabbitMQ accepts: ten years of 365 days, in milliseconds.
///
/// Source: <https://www.rabbitmq.com/docs/ttl> (anything above is refused with 406).
pub const MAX_TTL_MS: u64 = 315_360_000_000;

/// How long a level holds a message, between 1 ms and [`MAX_TTL_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// The same time as a TTL, cut to milliseconds; `None` where the broker would refuse it.
    pub(crate) fn of(time: Duration) -> Option<Self> {
        Self::from_millis(u64::try_from(time.as_millis()).ok()?)
    }

    /// The shortest one that delays.
    pub(crate) const SHORTEST: Self = Self(1);

    /// A TTL of `ms` milliseconds; `None` where the broker would refuse it or it would not delay.
    pub const fn from_millis(ms: u64) -> Option<Self> {
        if ms == 0 || ms > MAX_TTL_MS { None } else { Some(Self(ms)) }
    }

    /// Milliseconds, the unit of `x-message-ttl`.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same time as a [`Duration`].
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// In the largest unit that it is a whole number of: `90s`, `15m`.
impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration(self.0))
    }
}

/// One delay level: its name as written (`30m`) and its TTL.
///
/// The name is part of the routing key and of the queue's name, so a changed TTL is another queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    name: String,
    ttl: Ttl,
}

impl Level {
    /// The level of a TTL, called by it.
    pub(crate) fn of(ttl: Ttl) -> Self {
        Self { name: ttl.to_string(), ttl }
    }

    /// The level as written in the topology file and in routing keys, e.g. `30m`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long this level holds a message.
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A duration from 0 to ten years as people write it: a whole number and one unit (ms, s, m, h, d), e.g. `37m`.
#[derive(
    Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize,
)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
#[schemars(with = "String", extend("pattern" = "^(0|[1-9][0-9]*)(ms|s|m|h|d)$"), example = "30s")]
pub struct Interval(u64);

impl Interval {
    /// So many milliseconds.
    pub(crate) const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// The same time as a [`Duration`].
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            ms => write!(f, "{}", Ttl(ms)),
        }
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        interval.to_string()
    }
}

impl TryFrom<Cow<'_, str>> for Interval {
    type Error = LevelError;

    fn try_from(text: Cow<'_, str>) -> Result<Self, LevelError> {
        text.parse()
    }
}

/// Why a text is not a duration, or not a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// Not a whole number followed by one unit.
    #[error(
        "{} is not a valid duration: write a whole number and one unit (ms, s, m, h, d), e.g. `30m`", quoted(.0)
    )]
    Unreadable(String),
    /// In the past.
    #[error("`{0}` is below zero: write 0s for what is due now")]
    BelowZero(String),
    /// `0s` delays nothing.
    #[error("`{0}` delays nothing: a level needs at least 1ms")]
    Zero(String),
    /// Above what the broker accepts.
    #[error("`{0}` is longer than ten years ({max}), which RabbitMQ refuses", max = length(Duration::from_millis(MAX_TTL_MS)))]
    TooLong(String),
    /// More than [`LONGEST_LEAD`].
    #[error("a lead of `{0}` is longer than 1m: the worker would hold every message for so long")]
    LongLead(String),
}

impl FromStr for Interval {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let unreadable = || LevelError::Unreadable(text.to_owned());
        let too_long = || LevelError::TooLong(text.to_owned());
        if text.strip_prefix('-').is_some_and(|rest| rest.parse::<Self>().is_ok()) {
            return Err(LevelError::BelowZero(text.to_owned()));
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(unreadable()),
        };
        if number.is_empty() || (number.len() > 1 && number.starts_with('0')) {
            return Err(unreadable());
        }
        let number: u64 = number.parse().map_err(|_| too_long())?;
        let ms = number.checked_mul(unit_ms).filter(|ms| *ms <= MAX_TTL_MS);
        ms.map(Self).ok_or_else(too_long)
    }
}

impl FromStr for Ttl {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let Interval(ms) = text.parse().map_err(|error| match error {
            LevelError::BelowZero(text) => LevelError::Unreadable(text),
            error => error,
        })?;
        Self::from_millis(ms).ok_or_else(|| LevelError::Zero(text.to_owned()))
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        Ok(Self { name: text.to_owned(), ttl: text.parse()? })
    }
}

/// Where the file does not say.
pub(crate) const DEFAULT_LEAD: Duration = Duration::from_secs(2);
/// The same of a way through a ladder, which is rounded down as well, by up to its smallest unit.
const THROUGH_A_LADDER: Duration = Duration::from_millis(500);
/// What is held is unacked and in the memory of the worker.
pub(crate) const LONGEST_LEAD: Duration = Duration::from_mins(1);
/// The default takes no more than this part of a level: a level is still to be a delay on the broker.
const PART: u32 = 4;

/// The lead: how much earlier than its name says a level lets a message go, so that the broker has done its work when the
/// instant comes. The worker holds the message until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lead {
    /// [`DEFAULT_LEAD`], or a quarter of a level that is shorter than four times as much.
    #[default]
    Usual,
    /// So much, in whole milliseconds; less than half of each level, which `overdue check` makes sure of.
    Given(Duration),
}

impl FromStr for Lead {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let lead = text.parse::<Interval>()?.as_duration();
        if lead > LONGEST_LEAD {
            return Err(LevelError::LongLead(text.to_owned()));
        }
        Ok(Self::Given(lead))
    }
}

impl Lead {
    /// Levels let go when they are called so.
    pub const NONE: Self = Self::Given(Duration::ZERO);

    /// How early a delay ends, in whole milliseconds; less than half of it.
    pub fn of(self, delay: Duration) -> Duration {
        let lead = match self {
            Self::Usual => DEFAULT_LEAD.min(delay / PART),
            Self::Given(lead) if lead < delay / 2 => lead,
            Self::Given(_) => delay / PART,
        };
        Duration::from_millis(u64::try_from(lead.as_millis()).unwrap_or(0))
    }

    /// How early a way through a ladder is to end.
    pub(crate) fn through_a_ladder(self, delay: Duration) -> Duration {
        match self {
            Self::Usual => self.of(delay).min(THROUGH_A_LADDER),
            Self::Given(_) => self.of(delay),
        }
    }

    /// How long the queue of a level holds a message.
    pub fn lets_go(self, level: &Level) -> Ttl {
        let delay = level.ttl().as_duration();
        // Less than half is taken away, so at least a millisecond is left.
        Ttl::of(delay.saturating_sub(self.of(delay))).unwrap_or(level.ttl())
    }

    /// The most that any delay ends early.
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
pub fn best_level(levels: &[Level], lead: Lead, remaining: Duration) -> Option<&Level> {
    levels
        .iter()
        .filter(|level| lead.lets_go(level).as_duration() <= remaining)
        .max_by_key(|level| level.ttl())
        .or_else(|| levels.iter().min_by_key(|level| level.ttl()))
}
