//! The round ladder: units that people write, so that 30 m, 2 h or 14 d take one hop.

use super::fewest_hops::hops;

/// Each divides the next. In milliseconds: 1ms, 10ms, 100ms, 1s, 10s, 1m, 10m, 1h, 1d, 30d, 360d.
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

/// Resolutions that a ladder may have, in milliseconds: up to a minute.
pub(super) fn resolutions() -> &'static [u64] {
    UNITS_MS.get(..6).unwrap_or_default()
}

/// The highest digit of each place, smallest unit first. The last place ends at the maximum.
pub(super) fn digits(resolution_ms: u64, max_steps: u64) -> Vec<u32> {
    places(&units(resolution_ms, max_steps), max_steps)
}

/// The same with places of several units: 1m–59m is a hop less than 1m–9m and 10m–50m, and 45 queues more. The fewest hops
/// that so many queues are enough for; none where they are not enough for any.
pub(super) fn digits_within(resolution_ms: u64, max_steps: u64, queues: u32) -> Option<Vec<u32>> {
    let all = units(resolution_ms, max_steps);
    let (smallest, larger) = all.split_first()?;
    // Each bit is a unit that has a place of its own.
    let ladders = (0_u32..1 << larger.len()).map(|own| {
        let of_own = larger.iter().enumerate().filter(|(bit, _)| own >> bit & 1 == 1);
        let units: Vec<u64> =
            [*smallest].into_iter().chain(of_own.map(|(_, unit)| *unit)).collect();
        places(&units, max_steps)
    });
    let enough = ladders.filter(|digits| sum(digits).is_some_and(|sum| sum <= queues));
    enough.min_by(|one, other| hops(one).total_cmp(&hops(other)))
}

/// In steps of the resolution.
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

fn sum(digits: &[u32]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |sum, digit| sum.checked_add(*digit))
}
