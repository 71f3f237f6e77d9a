//! The round ladder: units that people write, so that 30 m, 2 h or 14 d take one hop.

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
    let units = UNITS_MS.iter().filter(|unit| **unit >= resolution_ms);
    let units = units.map(|unit| unit / resolution_ms).take_while(|unit| *unit <= max_steps);
    let units: Vec<u64> = units.collect();
    let ends = units.iter().skip(1).copied().chain([max_steps.saturating_add(1)]);
    let last = units.len().saturating_sub(1);
    let highest = units.iter().zip(ends).enumerate().map(|(place, (unit, end))| match place {
        place if place == last => max_steps / unit,
        _ => end / unit - 1,
    });
    highest.map(|digit| u32::try_from(digit).unwrap_or(u32::MAX)).collect()
}
