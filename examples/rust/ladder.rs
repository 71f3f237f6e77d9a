//! Any delay on a ladder, which `overdue export --format ladder` prints.

use serde_json::Value;

/// Exchange and routing key, rounded down: the worker waits for the rest. None if the ladder is not as long.
pub(crate) fn enter(ladder: &Value, delay_ms: u64, timeout: &str) -> Option<(String, String)> {
    let (mut rest, mut key) = (delay_ms / ladder["resolution_ms"].as_u64()?, String::new());
    // The smallest unit first.
    for place in ladder["places"].as_array()? {
        let digits = place["highest"].as_u64()? + 1;
        key = format!("{key}{}.", rest % digits);
        rest /= digits;
        if rest == 0 && delay_ms <= ladder["max_ms"].as_u64()? {
            return Some((place["exchange"].as_str()?.to_owned(), key + timeout));
        }
    }
    None
}
