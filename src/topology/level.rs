//! Delay levels: a level is a queue whose message TTL is the delay minus the lead. And the durations in files, flags and
//! settings.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    document::quoted,
    text::{duration, length},
};

/// The longest message TTL that RabbitMQ accepts: ten years of 365 days, in milliseconds.
///
/// Source: <https://www.rabbitmq.com/docs/ttl> (the broker refuses a longer TTL with 406).
pub const MAX_TTL_MS: u64 = 315_360_000_000;

/// A message TTL between 1 ms and [`MAX_TTL_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// `time` as a TTL, truncated to milliseconds; `None` if the broker would refuse it.
    pub(crate) fn of(time: Duration) -> Option<Self> {
        Self::from_millis(u64::try_from(time.as_millis()).ok()?)
    }

    /// The shortest TTL that delays.
    pub(crate) const SHORTEST: Self = Self(1);

    /// A TTL of `ms` milliseconds; `None` for 0, and if the broker would refuse it.
    pub const fn from_millis(ms: u64) -> Option<Self> {
        if ms == 0 || ms > MAX_TTL_MS { None } else { Some(Self(ms)) }
    }

    /// Milliseconds, the unit of `x-message-ttl`.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The TTL as a [`Duration`].
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// Writes the number in the largest unit that divides it: `90s`, `15m`.
impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration(self.0))
    }
}

/// A delay level: its name as written (`30m`) and its TTL.
///
/// The name is part of the routing key and of the queue's name, so another TTL needs another queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    name: String,
    ttl: Ttl,
}

impl Level {
    /// A level whose name is its TTL.
    pub(crate) fn of(ttl: Ttl) -> Self {
        Self { name: ttl.to_string(), ttl }
    }

    /// The level as written in the topology file and in routing keys, e.g. `30m`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The delay that the level's name promises; its queue expires messages earlier by the lead.
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
    /// An interval of `ms` milliseconds.
    pub(crate) const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// The interval as a [`Duration`].
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
    /// The text is not a whole number and a unit.
    #[error(
        "{} is not a valid duration: write a whole number and one unit (ms, s, m, h, d), e.g. `30m`", quoted(.0)
    )]
    Unreadable(String),
    /// The duration is negative.
    #[error("`{0}` is below zero: write 0s for what is due now")]
    BelowZero(String),
    /// `0s` delays nothing.
    #[error("`{0}` delays nothing: a level needs at least 1ms")]
    Zero(String),
    /// The duration is longer than [`MAX_TTL_MS`].
    #[error("`{0}` is longer than ten years ({max}), which RabbitMQ refuses", max = length(Duration::from_millis(MAX_TTL_MS)))]
    TooLong(String),
    /// The lead is longer than [`LONGEST_LEAD`].
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

/// The lead if the file names none.
pub(crate) const DEFAULT_LEAD: Duration = Duration::from_secs(2);
/// The longest usual lead on a ladder, which also rounds delays down by up to its smallest unit.
const THROUGH_A_LADDER: Duration = Duration::from_millis(500);
/// The limit of a lead: during the lead a message is unacked and in the memory of the worker.
pub(crate) const LONGEST_LEAD: Duration = Duration::from_mins(1);
/// The usual lead is at most a quarter of a level, so that most of the delay passes on the broker.
const PART: u32 = 4;

/// The lead: how much earlier than its name a level expires a message. The broker delivers the message before the deadline,
/// and the worker keeps it unacked until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lead {
    /// [`DEFAULT_LEAD`], or a quarter of the level if that is shorter.
    #[default]
    Usual,
    /// A lead in whole milliseconds; `overdue check` ensures that it is less than half of each level.
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
    /// No lead: messages expire after exactly the level's delay.
    pub const NONE: Self = Self::Given(Duration::ZERO);

    /// The lead of a delay, in whole milliseconds; less than half of the delay.
    pub fn of(self, delay: Duration) -> Duration {
        let lead = match self {
            Self::Usual => DEFAULT_LEAD.min(delay / PART),
            Self::Given(lead) if lead < delay / 2 => lead,
            Self::Given(_) => delay / PART,
        };
        Duration::from_millis(u64::try_from(lead.as_millis()).unwrap_or(0))
    }

    /// The lead of a route through a ladder.
    pub(crate) fn through_a_ladder(self, delay: Duration) -> Duration {
        match self {
            Self::Usual => self.of(delay).min(THROUGH_A_LADDER),
            Self::Given(_) => self.of(delay),
        }
    }

    /// The message TTL of the queue of a level.
    pub fn lets_go(self, level: &Level) -> Ttl {
        let delay = level.ttl().as_duration();
        // The lead is less than half, so at least a millisecond remains.
        Ttl::of(delay.saturating_sub(self.of(delay))).unwrap_or(level.ttl())
    }

    /// The longest lead of any delay.
    pub const fn longest(self) -> Duration {
        match self {
            Self::Usual => DEFAULT_LEAD,
            Self::Given(lead) => lead,
        }
    }
}

/// The longest level whose queue expires a message within `remaining`.
///
/// The worker chooses a level again at each hop: 13 days take the longest level that fits, then the next. If even the
/// shortest level is too long, the result is the shortest level; the message is late by less than its TTL. `None` if there is
/// no level.
pub fn best_level(levels: &[Level], lead: Lead, remaining: Duration) -> Option<&Level> {
    levels
        .iter()
        .filter(|level| lead.lets_go(level).as_duration() <= remaining)
        .max_by_key(|level| level.ttl())
        .or_else(|| levels.iter().min_by_key(|level| level.ttl()))
}
