//! The specification of a ladder. Units that people write have their own place, so that 30 m, 2 h or 14 d take one hop.

use std::time::Duration;

use crate::text::length;

/// The longest message TTL RabbitMQ accepts: ten years of 365 days, in milliseconds
/// (<https://www.rabbitmq.com/docs/ttl>). No ladder goes higher.
pub const MAX_MS: u64 = 315_360_000_000;

/// The most queues that a topology file may request. Round units up to ten years in milliseconds need 128, each a quorum
/// queue.
pub const MAX_QUEUES: u32 = 200;

/// Each unit divides the next one. In milliseconds: 1ms, 10ms, 100ms, 1s, 10s, 1m, 10m, 1h, 1d, 30d, 360d.
const UNITS_MS: [u64; 11] = [
    1,
    10,
    100,
    1_000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    86_400_000,
    2_592_000_000,
    31_104_000_000,
];

/// Number of units that can be a resolution: up to a minute.
const RESOLUTIONS: usize = 6;

/// Range, resolution and number of queues of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderSpec {
    /// The longest delay: a multiple of `resolution`, at most ten years.
    pub max: Duration,
    /// Delays are rounded to multiples of this; a round unit: 1 ms, 10 ms, 100 ms, 1 s, 10 s or 1 m.
    pub resolution: Duration,
    /// Limit of queues, used for the fewest hops: with 130 there may be 1m–59m in place of 1m–9m and 10m–50m. `None` gives
    /// the fewest queues: 1s–9s, 10s–50s, 1m–9m, 10m–50m, 1h–23h, 1d–29d, …
    pub max_queues: Option<u32>,
}

impl LadderSpec {
    /// Round units up to `max`, with a resolution of one second.
    pub const fn up_to(max: Duration) -> Self {
        Self { max, resolution: Duration::from_secs(1), max_queues: None }
    }
}

/// Why a ladder cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The resolution is not a round unit up to a minute.
    #[error(
        "a ladder cannot have a resolution of {}: write 1ms, 10ms, 100ms, 1s, 10s or 1m",
        length(*resolution)
    )]
    Resolution {
        /// Requested resolution.
        resolution: Duration,
    },
    /// The maximum is zero, above [`MAX_MS`], or not a multiple of the resolution.
    #[error(
        "a ladder cannot end at {}: the maximum is a whole number of the resolution ({}), up to {}",
        length(*max), length(Duration::from_millis(*resolution_ms)), length(Duration::from_millis(MAX_MS))
    )]
    Max {
        /// Requested maximum.
        max: Duration,
        /// Resolution in milliseconds.
        resolution_ms: u64,
    },
    /// Even the ladder with a place for every unit has more queues.
    #[error(
        "{max_queues} queues are too few for every delay up to {}: allow at least {least}",
        length(Duration::from_millis(*max_ms))
    )]
    TooFewQueues {
        /// Requested limit.
        max_queues: u32,
        /// Smallest possible limit.
        least: u32,
        /// Requested maximum in milliseconds.
        max_ms: u64,
    },
}

/// A checked spec in whole numbers.
pub(super) struct Checked {
    pub(super) resolution_ms: u64,
    /// The maximum in steps of the resolution, at least 1.
    pub(super) max_steps: u64,
}

impl LadderSpec {
    pub(super) fn check(&self) -> Result<Checked, SpecError> {
        let Self { max, resolution, .. } = *self;
        let mut resolutions = UNITS_MS.iter().take(RESOLUTIONS);
        let resolution_ms = whole_ms(resolution).filter(|ms| resolutions.any(|unit| unit == ms));
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

/// The highest digit of each place, smallest unit first. `max_queues` is the limit of [`LadderSpec`].
pub(super) fn digits(
    resolution_ms: u64,
    max_steps: u64,
    max_queues: Option<u32>,
) -> Result<Vec<u32>, SpecError> {
    let round = round_digits(resolution_ms, max_steps);
    let Some(max_queues) = max_queues else { return Ok(round) };
    let all = units(resolution_ms, max_steps);
    let (smallest, larger) = all.split_first().unwrap_or((&1, &[]));
    // Each bit is a unit with its own place.
    let ladders = (0_u32..1 << larger.len()).map(|own| {
        let of_own = larger.iter().enumerate().filter(|(bit, _)| own >> bit & 1 == 1);
        let units: Vec<u64> = std::iter::once(*smallest).chain(of_own.map(|it| *it.1)).collect();
        places(&units, max_steps)
    });
    let enough = ladders.filter(|digits| sum(digits) <= max_queues);
    enough.min_by(|one, other| hops(one).total_cmp(&hops(other))).ok_or_else(|| {
        SpecError::TooFewQueues {
            max_queues,
            least: sum(&round),
            max_ms: max_steps.saturating_mul(resolution_ms),
        }
    })
}

/// The highest digits with a place for every unit. The last place ends at the maximum.
pub(super) fn round_digits(resolution_ms: u64, max_steps: u64) -> Vec<u32> {
    places(&units(resolution_ms, max_steps), max_steps)
}

/// Units up to the maximum, in steps of the resolution.
fn units(resolution_ms: u64, max_steps: u64) -> Vec<u64> {
    let units = UNITS_MS.iter().filter(|unit| **unit >= resolution_ms);
    units.map(|unit| unit / resolution_ms).take_while(|unit| *unit <= max_steps).collect()
}

fn places(units: &[u64], max_steps: u64) -> Vec<u32> {
    let ends = units.iter().skip(1).copied().chain([max_steps.saturating_add(1)]);
    let last = units.len().saturating_sub(1);
    let highest = units.iter().zip(ends).enumerate().map(|(place, (unit, end))| match place {
        place if place == last => max_steps / unit,
        _ => end / unit - 1,
    });
    highest.map(|digit| u32::try_from(digit).unwrap_or(u32::MAX)).collect()
}

fn sum(digits: &[u32]) -> u32 {
    digits.iter().fold(0, |sum: u32, digit| sum.saturating_add(*digit))
}

/// Average hops of a message, over all delays that places with these highest digits can express.
fn hops(digits: &[u32]) -> f64 {
    digits.iter().map(|digit| f64::from(*digit) / (f64::from(*digit) + 1.0)).sum()
}
