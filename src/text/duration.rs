//! Durations as people write them.

/// Milliseconds in the largest unit that they are a whole number of: `90s`, `15m`, `30d`.
pub(crate) fn duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let whole = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit) && ms > 0);
    let (unit, name) = whole.unwrap_or((1_000, "s"));
    format!("{}{name}", ms / unit)
}
