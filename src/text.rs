//! Text functions of many rooms: counts, durations, error chains, shell words, suggestions for misspelt names, JSON with an
//! object per line, parts of a URL, text that is safe on a terminal.

mod printable;
pub(crate) mod sql;

use std::{
    error::Error,
    fmt::{self, Write},
    time::Duration,
};

use serde_json::Value;

pub(crate) use printable::OneLine;
pub use printable::{one_line, printable, printable_json};

/// `noun` for one, and its plural for any other number: `queues`, `retries`; `noun` has a regular plural.
pub(crate) fn noun(number: impl TryInto<u64>, noun: &str) -> String {
    let one = number.try_into().is_ok_and(|number| number == 1);
    match noun.strip_suffix("ry") {
        _ if one => noun.to_owned(),
        Some(stem) => format!("{stem}ries"),
        None => format!("{noun}s"),
    }
}

/// A number and its noun: `1 queue`, `0 queues`.
pub(crate) fn counted(
    number: impl TryInto<u64> + Copy + std::fmt::Display,
    singular: &str,
) -> String {
    format!("{number} {}", noun(number, singular))
}

const UNITS: [(u64, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];

/// Milliseconds in the largest unit that divides them: `90s`, `15m`, `30d`. Names and files may contain the result.
pub(crate) fn duration(ms: u64) -> String {
    let units = UNITS.into_iter().chain([(1_000, "s"), (1, "ms")]);
    let whole = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit) && ms > 0);
    let (unit, name) = whole.unwrap_or((1_000, "s"));
    format!("{}{name}", ms / unit)
}

/// Whole milliseconds; `u64::MAX` for longer durations.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A duration for people, in whole milliseconds: one unit if that is short, otherwise several: `750ms`, `90s`, `37m`,
/// `36m58s`, `37m0.25s`.
pub(crate) fn length(time: Duration) -> String {
    let ms = millis(time);
    // Units with a limit: a number must be less than two of the next unit.
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

/// The number of each unit that is not zero.
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

/// Rounded down to one unit, with a number of at least two if possible: `95s`, `95m`, `47h`, `12d`.
pub(crate) fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// An error and its causes in one line, without causes that the text already quotes.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// Words with a lower similarity (Jaro, 0 to 1) are unrelated; clap uses the same bound.
const SIMILAR: f64 = 0.7;

/// The most similar word of `known`, if one is similar enough.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let rated = known.into_iter().map(|known| (strsim::jaro(word, known), known));
    let similar = rated.filter(|(similarity, _)| *similarity > SIMILAR);
    similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

/// Decodes a part of a URL.
pub(crate) fn percent_decode(text: &str) -> String {
    // The URL standard decodes the value of a query; `+` is protected from becoming a space.
    let query = format!("v={}", text.replace('+', "%2B"));
    let decoded = url::form_urlencoded::parse(query.as_bytes()).next();
    decoded.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// `text` as one shell word, quoted only if the shell would interpret it.
pub(crate) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// An option and its value, joined by `=` if the value looks like an option.
pub(crate) fn option(name: &str, value: &str) -> String {
    let joint = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{joint}{}", quote(value))
}

/// `{"name": "orders.in", "type": "topic"}`
pub(crate) fn json_object<const N: usize>(fields: [(&str, Value); N]) -> String {
    let fields = fields.map(|(key, value)| format!("{}: {value}", Value::from(key)));
    printable_json(&format!("{{{}}}", fields.join(", "))).into_owned()
}

/// A JSON object of lists, with each entry on its own line.
pub(crate) fn json_sections(lists: &[(&str, Vec<String>)]) -> String {
    let list = |(key, entries): &(&str, Vec<String>)| {
        let entries: Vec<String> = entries.iter().map(|entry| format!("    {entry}")).collect();
        match entries.as_slice() {
            [] => format!("  {}: []", Value::from(*key)),
            _ => format!("  {}: [\n{}\n  ]", Value::from(*key), entries.join(",\n")),
        }
    };
    let lists: Vec<String> = lists.iter().map(list).collect();
    format!("{{\n{}\n}}\n", lists.join(",\n"))
}

pub(crate) fn row(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    value: impl fmt::Display,
    remark: &str,
) -> fmt::Result {
    // Padding works on text only.
    let line = format!("{what:<18} {:>10}   {remark}", value.to_string());
    writeln!(f, "{}", line.trim_end())
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

    /// Reads lengths back: the sum of each number times its unit.
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
