//! The changes that are measured.

use serde::Serialize;

use super::size::Levels;

/// RabbitMQ's default, and another one.
pub(super) const DELIVERY_LIMITS: (i64, i64) = (20, 50);

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
