//! Delay levels: one level is one queue whose message TTL is the delay.

use std::{fmt, str::FromStr, time::Duration};

use crate::text::length;

/// The longest message TTL RabbitMQ accepts: ten years of 365 days, in milliseconds.
///
/// Source: <https://www.rabbitmq.com/docs/ttl> (anything above is refused with 406).
pub const MAX_TTL_MS: u64 = 315_360_000_000;

/// How long a level holds a message, between 1 ms and [`MAX_TTL_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// The same time as a TTL, cut to milliseconds; `None` where the broker would refuse it.
    #[must_use]
    pub(crate) fn of(time: Duration) -> Option<Self> {
        Self::from_millis(u64::try_from(time.as_millis()).ok()?)
    }

    /// The shortest one that delays.
    pub(crate) const SHORTEST: Self = Self(1);

    /// A TTL of `ms` milliseconds; `None` where the broker would refuse it or it would not delay.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Option<Self> {
        if ms == 0 || ms > MAX_TTL_MS { None } else { Some(Self(ms)) }
    }

    /// Milliseconds, the unit of `x-message-ttl`.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same time as a [`Duration`].
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// In the largest unit that it is a whole number of: `90s`, `15m`.
impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
        let whole = units.into_iter().find(|(unit, _)| self.0.is_multiple_of(*unit));
        let (unit, name) = whole.unwrap_or((1, "ms"));
        write!(f, "{}{name}", self.0 / unit)
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
    #[must_use]
    pub(crate) fn of(ttl: Ttl) -> Self {
        Self { name: ttl.to_string(), ttl }
    }

    /// The level as written in the topology file and in routing keys, e.g. `30m`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long this level holds a message.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Why a text is not a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// Not a whole number followed by one unit.
    #[error(
        "`{0}` is not a valid duration: write a whole number and one unit (ms, s, m, h, d), e.g. `30m`"
    )]
    Unreadable(String),
    /// `0s` delays nothing.
    #[error("`{0}` delays nothing: a level needs at least 1ms")]
    Zero(String),
    /// Above what the broker accepts.
    #[error("`{0}` is longer than ten years ({max}), which RabbitMQ refuses", max = length(Duration::from_millis(MAX_TTL_MS)))]
    TooLong(String),
}

impl FromStr for Ttl {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let ms = parse_millis(text)?;
        Self::from_millis(ms).ok_or_else(|| match ms {
            0 => LevelError::Zero(text.to_owned()),
            _ => LevelError::TooLong(text.to_owned()),
        })
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        Ok(Self { name: text.to_owned(), ttl: text.parse()? })
    }
}

fn parse_millis(text: &str) -> Result<u64, LevelError> {
    let unreadable = || LevelError::Unreadable(text.to_owned());
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
    let too_long = || LevelError::TooLong(text.to_owned());
    let number: u64 = number.parse().map_err(|_| too_long())?;
    number.checked_mul(unit_ms).ok_or_else(too_long)
}
