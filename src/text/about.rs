//! Lengths of time as people say them: rounded down to one unit.

use std::time::Duration;

/// At least two of a unit, where there are that many: `95s`, `95m`, `47h`, `12d`.
pub(crate) fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
