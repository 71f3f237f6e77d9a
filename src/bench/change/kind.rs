//! The changes that are measured, and the levels they are about.

use std::{str::FromStr, time::Duration};

use serde::Serialize;

use crate::topology::level::{Level, LevelError, Ttl};

/// RabbitMQ's default, and another one.
pub(super) const DELIVERY_LIMITS: (i64, i64) = (20, 50);
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

/// Why a text is no level to measure with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelsError {
    /// It is no level at all.
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

/// A change of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// `after` and the levels change, and classic queues become quorum queues, in one plan.
    Combined,
    /// A level goes, and `after` names another one that was there.
    LevelRemoved,
    /// A level gets another TTL, so it is another level.
    LevelTtl,
    /// Every queue is replaced.
    ClassicToQuorum,
    /// Every queue is replaced, while quorum queues dead-letter at least once.
    QuorumToClassic,
    /// The business queues are replaced.
    DeliveryLimit,
    /// A timeout comes.
    TimeoutAdded,
    /// A timeout goes: refused while messages are in its queue, done once it has drained.
    TimeoutRemoved,
}

impl ChangeKind {
    /// In the order they are measured.
    pub const ALL: [Self; 8] = [
        Self::Combined,
        Self::LevelRemoved,
        Self::LevelTtl,
        Self::ClassicToQuorum,
        Self::QuorumToClassic,
        Self::DeliveryLimit,
        Self::TimeoutAdded,
        Self::TimeoutRemoved,
    ];

    /// As in `--change`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::LevelRemoved => "level-removed",
            Self::LevelTtl => "level-ttl",
            Self::ClassicToQuorum => "classic-to-quorum",
            Self::QuorumToClassic => "quorum-to-classic",
            Self::DeliveryLimit => "delivery-limit",
            Self::TimeoutAdded => "timeout-added",
            Self::TimeoutRemoved => "timeout-removed",
        }
    }

    /// In words, with the levels.
    #[must_use]
    pub fn describe(self, Levels { level, half, .. }: &Levels) -> String {
        let (few, many) = DELIVERY_LIMITS;
        match self {
            Self::Combined => {
                format!("level and `after` {level} -> {half}, classic -> quorum, in one plan")
            }
            Self::LevelRemoved => format!("level {level} removed, `after` {level} -> {half}"),
            Self::LevelTtl => format!("TTL of the level {level} -> {half}"),
            Self::ClassicToQuorum => "queue type classic -> quorum".to_owned(),
            Self::QuorumToClassic => "queue type quorum -> classic".to_owned(),
            Self::DeliveryLimit => format!("delivery limit {few} -> {many}"),
            Self::TimeoutAdded => "a timeout added".to_owned(),
            Self::TimeoutRemoved => "a timeout removed, after it has drained".to_owned(),
        }
    }
}
