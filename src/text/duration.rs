//! Durations as people write them.

use std::{fmt::Write, time::Duration};

const UNITS: [(u64, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];

/// Milliseconds in the largest unit that they are a whole number of: `90s`, `15m`, `30d`. Names are made of it, and it can be
/// written into a file.
pub(crate) fn duration(ms: u64) -> String {
    let units = UNITS.into_iter().chain([(1_000, "s"), (1, "ms")]);
    let whole = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit) && ms > 0);
    let (unit, name) = whole.unwrap_or((1_000, "s"));
    format!("{}{name}", ms / unit)
}

/// To be read, in whole milliseconds: one unit where that is short, else several: `750ms`, `90s`, `37m`, `36m58s`, `37m0.25s`.
pub(crate) fn length(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    // Of a unit at most so many: below two of the next one.
    let short =
        [(86_400_000, u64::MAX, "d"), (3_600_000, 48, "h"), (60_000, 120, "m"), (1_000, 120, "s")];
    let whole =
        short.into_iter().find(|(unit, most, _)| ms.is_multiple_of(*unit) && ms / unit < *most);
    match whole {
        _ if ms == 0 => "0s".to_owned(),
        _ if ms < 1_000 => format!("{ms}ms"),
        Some((unit, _, name)) => format!("{}{name}", ms / unit),
        None => several(ms),
    }
}

/// Each unit that there is something of.
fn several(ms: u64) -> String {
    let (mut text, mut rest) = (String::new(), ms);
    for (unit, name) in UNITS {
        if rest >= unit {
            // Writing to a String cannot fail.
            let _infallible = write!(text, "{}{name}", rest / unit);
            rest %= unit;
        }
    }
    if rest > 0 {
        let decimals = format!("{:03}", rest % 1_000);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        let _infallible = write!(text, "{}{point}{decimals}s", rest / 1_000);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_few_units() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (750, "750ms"),
            (1_000, "1s"),
            (1_250, "1.25s"),
            (90_000, "90s"),
            (120_000, "2m"),
            (121_000, "2m1s"),
            (2_218_000, "36m58s"),
            (2_220_250, "37m0.25s"),
            (5_400_000, "90m"),
            (7_200_001, "2h0.001s"),
            (90_000_000, "25h"),
            (2_678_400_000, "31d"),
            (4_294_967_295, "49d17h2m47.295s"),
        ] {
            assert_eq!(length(Duration::from_millis(ms)), text);
        }
        assert!(length(Duration::MAX).starts_with("213503982334d"));
    }

    /// Read back: each number times its unit, added up.
    #[test]
    fn nothing_of_a_length_is_left_out() {
        let read = |text: &str| {
            let (mut sum, mut rest) = (0.0, text);
            while !rest.is_empty() {
                let digits = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                let (number, unit) = rest.split_at(digits);
                let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
                let (unit, next) = unit.split_at(end);
                let known = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6), ("d", 8.64e7)];
                let ms = known.into_iter().find(|(name, _)| *name == unit).unwrap().1;
                sum += number.parse::<f64>().unwrap() * ms;
                rest = next;
            }
            sum
        };
        let mut ms = 1_u64;
        while ms < 400_000_000_000 {
            for near in [ms - 1, ms, ms + 1, ms * 1_000, ms / 1_000 * 60_000] {
                let text = length(Duration::from_millis(near));
                let error = read(&text)
                    - f64::from(u32::try_from(near % 1_000_000).unwrap())
                    - f64::from(u32::try_from(near / 1_000_000).unwrap()) * 1e6;
                assert!(error.abs() < 0.5, "{near} ms is {text}");
            }
            ms = ms * 7 / 3 + 1;
        }
    }
}
