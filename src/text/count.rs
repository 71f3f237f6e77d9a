//! Counts with their nouns: `1 queue`, `3 queues`.

/// `noun` for one, with an `s` for any other number; `noun` has a regular plural.
pub(crate) fn noun(number: impl TryInto<u64>, noun: &str) -> String {
    let one = number.try_into().is_ok_and(|number| number == 1);
    if one { noun.to_owned() } else { format!("{noun}s") }
}

/// A number and its noun: `1 queue`, `0 queues`.
pub(crate) fn counted(
    number: impl TryInto<u64> + Copy + std::fmt::Display,
    singular: &str,
) -> String {
    format!("{number} {}", noun(number, singular))
}
