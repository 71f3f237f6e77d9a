//! Bars in characters that every terminal has.

/// From nothing to the most.
const SHADES: [char; 8] = [' ', '.', ':', '-', '=', '+', '*', '#'];

/// `value` of `most`, as at most `width` characters; anything above zero has at least one.
pub(super) fn bar(value: u64, most: u64, width: usize) -> String {
    "#".repeat(share(value, most, width))
}

/// One character per value.
pub(super) fn profile(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|value| SHADES[share(*value, most, SHADES.len() - 1)]).collect()
}

fn share(value: u64, most: u64, parts: usize) -> usize {
    if value == 0 || most == 0 {
        return 0;
    }
    let parts = u128::try_from(parts).unwrap_or(u128::MAX);
    let share = (u128::from(value) * parts).div_ceil(u128::from(most));
    usize::try_from(share.min(parts)).unwrap_or(0)
}
