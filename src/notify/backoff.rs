//! Pauses between attempts at a message that was not taken.

use std::time::Duration;

use super::refused::Refused;

const FIRST: Duration = Duration::from_secs(2);
/// A webhook that is down for hours is asked so seldom, and a message about it is at most so late afterwards.
const LONGEST: Duration = Duration::from_mins(2);
/// Where the other side asks for a longer one, at most so long: it may mean well or be wrong.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// The pause after so many failures in a row. What may have been taken is not sent again before the next message would be.
pub(super) fn pause(failures: u32, refused: &Refused, at_most_every: Duration) -> Duration {
    let doubled =
        FIRST.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let again = if refused.maybe_taken { at_most_every } else { Duration::ZERO };
    let asked = refused.retry_after.unwrap_or_default().min(LONGEST_ASKED);
    doubled.min(LONGEST).max(again).max(asked)
}
