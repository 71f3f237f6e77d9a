//! How much is measured: messages, and the levels they wait in.

use std::{str::FromStr, time::Duration};

use crate::topology::level::{Level, LevelError, Ttl};

/// The level of messages that are to be in their business queue at once.
const SOON: &str = "100ms";
/// The shortest level: half of it is still more than [`SOON`].
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest level: somebody waits for the result.
const LONGEST: Duration = Duration::from_hours(24);

/// The levels of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Where messages wait while the topology changes.
    pub level: Level,
    /// Half as long; what changes to another level changes to this one.
    pub half: Level,
    /// For messages that are to be in their business queue at once.
    pub(super) soon: Level,
}

/// Why a text is not a level to measure with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelsError {
    /// It is not a level at all.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// Too short or too long.
    #[error("`{0}` is not between 1s and 24h")]
    Range(String),
}

impl FromStr for Levels {
    type Err = LevelsError;

    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let level: Level = text.parse()?;
        if !(SHORTEST..=LONGEST).contains(&level.ttl().as_duration()) {
            return Err(LevelsError::Range(text.to_owned()));
        }
        let half = Ttl::from_millis(level.ttl().as_millis() / 2);
        let half = half.ok_or_else(|| LevelsError::Range(text.to_owned()))?;
        Ok(Self { level, half: half.to_string().parse()?, soon: SOON.parse()? })
    }
}

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSize {
    /// Messages that wait when the change begins, at least 1.
    pub messages: usize,
    /// Where they wait.
    pub levels: Levels,
}
