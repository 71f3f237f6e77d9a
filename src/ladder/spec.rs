//! What a ladder is compiled from.

use std::time::Duration;

use crate::text::length;

/// The longest message TTL RabbitMQ accepts: ten years of 365 days, in milliseconds
/// (<https://www.rabbitmq.com/docs/ttl>). No ladder goes higher.
pub const MAX_MS: u64 = 315_360_000_000;

/// What a ladder has to do, and with how many queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderSpec {
    /// The longest delay: a whole number of `resolution`, at most ten years.
    pub max: Duration,
    /// Delays are rounded to whole numbers of this; one of the round units: 1 ms, 10 ms, 100 ms, 1 s, 10 s, 1 m, …
    pub resolution: Duration,
    /// At most so many queues, for the fewest hops. With `None` the holds are round:
    /// 1s–9s, 10s–50s, 1m–9m, 10m–50m, 1h–23h, 1d–29d, …
    pub max_queues: Option<u32>,
}

impl LadderSpec {
    /// Round holds up to `max`, to the second.
    #[must_use]
    pub const fn up_to(max: Duration) -> Self {
        Self { max, resolution: Duration::from_secs(1), max_queues: None }
    }
}

/// Why there is no such ladder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not one of the round units.
    #[error(
        "a ladder cannot have a resolution of {}: write 1ms, 10ms, 100ms, 1s, 10s or 1m",
        length(*resolution)
    )]
    Resolution {
        /// As asked for.
        resolution: Duration,
    },
    /// Zero, above [`MAX_MS`], or not a whole number of the resolution.
    #[error(
        "a ladder cannot end at {}: the maximum is a whole number of the resolution ({}), up to {}",
        length(*max), length(Duration::from_millis(*resolution_ms)), length(Duration::from_millis(MAX_MS))
    )]
    Max {
        /// As asked for.
        max: Duration,
        /// In milliseconds.
        resolution_ms: u64,
    },
    /// Even with one queue per bit there are more.
    #[error(
        "{max_queues} queues are too few for every delay up to {}: allow at least {least}",
        length(Duration::from_millis(*max_ms))
    )]
    TooFewQueues {
        /// As asked for.
        max_queues: u32,
        /// The fewest that do: one per bit of the maximum.
        least: u32,
        /// In milliseconds.
        max_ms: u64,
    },
}

/// A spec in whole numbers, checked.
pub(super) struct Checked {
    pub(super) resolution_ms: u64,
    /// The maximum in steps of the resolution, at least 1.
    pub(super) max_steps: u64,
}

impl LadderSpec {
    /// `units` are the resolutions that there are, in milliseconds.
    pub(super) fn check(&self, units: &[u64]) -> Result<Checked, SpecError> {
        let Self { max, resolution, .. } = *self;
        let resolution_ms = whole_ms(resolution).filter(|ms| units.contains(ms));
        let resolution_ms = resolution_ms.ok_or(SpecError::Resolution { resolution })?;
        let fits = |ms: &u64| (1..=MAX_MS).contains(ms) && ms.is_multiple_of(resolution_ms);
        let max_ms = whole_ms(max).filter(fits).ok_or(SpecError::Max { max, resolution_ms })?;
        Ok(Checked { resolution_ms, max_steps: max_ms / resolution_ms })
    }
}

fn whole_ms(time: Duration) -> Option<u64> {
    let ms = u64::try_from(time.as_millis()).ok()?;
    (Duration::from_millis(ms) == time).then_some(ms)
}
