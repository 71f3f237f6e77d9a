//! The deadline that is proposed: its column, its zone, and the time that rows have.

use std::time::Duration;

use super::{
    Ask, Point, Proposer, file,
    found::{Column, Deadlines, MILLISECONDS},
    grouped, words,
};
use crate::text::{about, counted, sql::identifier};

/// The time that rows have where nothing says it.
const HALF_HOUR: u64 = 1_800_000;
/// The part of the distances between creation and deadline that have to be alike.
const ALIKE: f64 = 0.8;

/// Numbers up to this one are no seconds since 1970: it would be in 1973.
const DURATION: f64 = 1e8;

/// A deadline as it is proposed.
struct Deadline<'a> {
    /// The expression.
    value: String,
    ask: Option<Ask>,
    /// Its type, where that is known.
    kind: &'a str,
    /// The column that has it, or to which a time is added.
    column: Option<&'a Column>,
}

impl Proposer<'_> {
    /// `deadline` and `zone`; milliseconds until a notice is due, with the reason if that is a guess.
    pub(super) fn when(&self, open: &[bool]) -> (Vec<Point>, (u64, Option<String>)) {
        let given = self.answers.deadline.as_deref();
        let column = given.and_then(|it| self.table.column(it.trim_matches('"')));
        let deadline = match (given, column) {
            (Some(given), None) => Deadline {
                value: given.to_owned(),
                ask: None,
                kind: self.found.deadline_kind.as_deref().unwrap_or_default(),
                column: None,
            },
            (Some(_), Some(column)) if self.is_creation(column, open) => self.since(column, open),
            (Some(_), Some(column)) => self.by(column, None),
            (None, _) => self.guessed(open),
        };
        let Deadline { value, ask, kind, column } = deadline;
        let has_no_zone = ["timestamp without time zone", "timestamp", "date"].contains(&kind);
        let zone = match &self.answers.zone {
            Some(zone) => Some(Point::text("zone", zone, [])),
            None => has_no_zone.then(|| Point::text("zone", "UTC", [self.zone(column)])),
        };
        let mut points = vec![Point::text("deadline", &value, ask)];
        points.extend(zone);
        let created =
            self.table.columns.iter().find(|it| it.is_time() && words::is_created(&it.name));
        if value.to_ascii_lowercase().contains("select ")
            && let Some(created) = created
        {
            let name = file::quoted(&identifier(&created.name));
            let why = "never later than the deadline, for the index, which cannot have a query";
            points.push(Point::new("not_before", format!("not_before = {name}  # {why}"), []));
        }
        (points, self.after(column))
    }

    fn guessed(&self, open: &[bool]) -> Deadline<'_> {
        let sample = &self.found.sample;
        let is_filled = |it: &&Column| {
            sample.values(&it.name).zip(open).any(|(value, open)| *open && value.is_some())
        };
        let columns = || self.table.columns.iter();
        let mut named: Vec<&Column> = columns()
            .filter(|it| it.is_time() || (it.is_epoch() && self.is_instant(it)))
            .filter(|it| words::is_deadline(&it.name))
            .filter(|it| !words::is_ended(&it.name) || is_filled(it))
            .collect();
        if named.iter().any(is_filled) {
            named.retain(|it| is_filled(it));
        }
        let mut created: Vec<&Column> =
            columns().filter(|it| it.is_time() && words::is_created(&it.name)).collect();
        // A column that each row has.
        created.sort_by_key(|it| !sample.rows.is_empty() && !is_filled(it));
        let json = columns().find(|it| it.is_json());
        let meaning = |it: &&Column| meaning(&it.name, sample.deadlines(&it.name, open));
        match (&named[..], created.first()) {
            ([column], _) => {
                let choices = vec![self.expression(column)];
                self.by(column, Some(Ask::guess("deadline", meaning(column), choices)))
            }
            ([], Some(column)) if json.is_none() || self.answers.after.is_some() => {
                self.since(column, open)
            }
            ([], created) => {
                let mut choices = Vec::new();
                let mut why = "no column has the name of a deadline".to_owned();
                if let Some(created) = created {
                    why = format!("{why}; {}", self.creation(created, open));
                    choices.push(later(created, HALF_HOUR));
                }
                if let Some(json) = json {
                    why = format!("{why}; {} is {}, and may have it", json.name, json.kind);
                    let name = identifier(&json.name);
                    choices.push(format!("to_timestamp(({name} ->> 'expires_at')::bigint)"));
                }
                unknown(Ask::question("deadline", why, choices))
            }
            (several, _) => {
                let meanings: Vec<String> = several.iter().map(meaning).collect();
                let why = format!("several columns could be the deadline: {}", meanings.join("; "));
                let choices = several.iter().map(|it| self.expression(it)).collect();
                unknown(Ask::question("deadline", why, choices))
            }
        }
    }

    /// Whether numbers are instants, not durations.
    fn is_instant(&self, column: &Column) -> bool {
        self.found.sample.numbers(&column.name).flatten().all(|it| it > DURATION)
    }

    /// Whether it says when a row was made: by its name, or because each open row is overdue by it.
    fn is_creation(&self, column: &Column, open: &[bool]) -> bool {
        let Deadlines { open, overdue, never, newest, .. } =
            self.found.sample.deadlines(&column.name, open);
        let is_past = open > 2 && overdue + never == open && newest < 900.0;
        words::is_created(&column.name) || (is_past && !words::is_deadline(&column.name))
    }

    fn creation(&self, column: &Column, open: &[bool]) -> String {
        let Deadlines { open, overdue, newest, .. } =
            self.found.sample.deadlines(&column.name, open);
        let name = &column.name;
        if open > 0 && overdue == open {
            let (open, newest) = (grouped(open), about(seconds(newest)));
            return format!(
                "by {name} every open row is overdue ({open}), the newest by {newest}, so it says when a row was made"
            );
        }
        format!("{name} says when a row was made")
    }

    /// A time after the creation.
    fn since<'a>(&self, column: &'a Column, open: &[bool]) -> Deadline<'a> {
        let after = self.answers.after;
        let ask = || {
            let why = format!("{}: after which time is it overdue?", self.creation(column, open));
            Ask::question("after", why, vec!["30m".to_owned()])
        };
        let ask = after.is_none().then(ask);
        let value = later(column, after.unwrap_or(HALF_HOUR));
        Deadline { value, ask, kind: &column.kind, column: Some(column) }
    }

    fn by<'a>(&self, column: &'a Column, ask: Option<Ask>) -> Deadline<'a> {
        Deadline { value: self.expression(column), ask, kind: &column.kind, column: Some(column) }
    }

    /// A column as an expression that gives an instant.
    fn expression(&self, column: &Column) -> String {
        let name = identifier(&column.name);
        let is_long =
            || self.found.sample.numbers(&column.name).flatten().any(|it| it > MILLISECONDS);
        match column.kind.as_str() {
            "date" => format!("({name} + 1)::timestamp"),
            _ if column.is_number() && is_long() => format!("to_timestamp({name} / 1000.0)"),
            _ if column.is_number() => format!("to_timestamp({name})"),
            _ => name,
        }
    }

    fn zone(&self, column: Option<&Column>) -> Ask {
        let name = column.map_or("the deadline", |it| &it.name);
        let mut choices = vec!["UTC".to_owned()];
        let mut why =
            format!("{name} has no time zone, and rows are closed hours too early in a wrong one");
        if let Some(it) = self.found.readings.iter().find(|it| it.column == name) {
            choices.push(it.zone.clone());
            why = format!(
                "{why}: the newest is {}, which is {} in UTC, and {} in {}",
                it.value, it.in_utc, it.in_zone, it.zone
            );
        }
        Ask::question("zone", why, choices)
    }

    /// The time that a notice waits where its publisher names no other.
    fn after(&self, deadline: Option<&Column>) -> (u64, Option<String>) {
        if let Some(after) = self.answers.after {
            return (after, None);
        }
        let sample = &self.found.sample;
        let pair = deadline.and_then(|deadline| {
            let is_created = |it: &&Column| it.kind == deadline.kind && words::is_created(&it.name);
            Some((self.table.columns.iter().find(is_created)?, deadline))
        });
        let distance = pair.and_then(|(created, deadline)| {
            let pairs = sample.numbers(&created.name).zip(sample.numbers(&deadline.name));
            let after = common(pairs.filter_map(|(one, other)| Some(other? - one?)).collect())?;
            Some((after, format!("from {} to {} of most rows", created.name, deadline.name)))
        });
        let (after, why) = distance.unwrap_or_else(|| {
            (HALF_HOUR, "the delay of a notice whose publisher names no other".to_owned())
        });
        (after, Some(why))
    }
}

/// A deadline that only the team knows.
fn unknown<'a>(ask: Ask) -> Deadline<'a> {
    Deadline { value: ask.first(), ask: Some(ask), kind: "", column: None }
}

/// A time after the value of a column.
fn later(column: &Column, after: u64) -> String {
    format!("{} + interval '{}'", identifier(&column.name), in_words(after))
}

/// Seconds as a duration; the longest one where they are more.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The meaning of a column for the open rows.
fn meaning(name: &str, deadlines: Deadlines) -> String {
    let Deadlines { open, overdue, never, oldest, .. } = deadlines;
    if open == 0 {
        return format!("{name} has the name of a deadline");
    }
    let mut text =
        format!("by {name} {} of {} are overdue", grouped(overdue), counted(open, "open row"));
    if overdue > 0 {
        text = format!("{text}, the oldest by {}", about(seconds(oldest)));
    }
    if never > 0 {
        text = format!("{text}, and {} have none", grouped(never));
    }
    text
}

/// The distance that most have, in milliseconds.
fn common(mut distances: Vec<f64>) -> Option<u64> {
    distances.retain(|it| *it >= 1.0);
    distances.sort_by(f64::total_cmp);
    let median = *distances.get(distances.len() / 2)?;
    let alike = distances.iter().filter(|it| (**it - median).abs() <= 1.0 + median / 100.0).count();
    #[expect(clippy::cast_precision_loss, reason = "at most 10,000")]
    let is_common = alike as f64 >= ALIKE * distances.len() as f64;
    let after = seconds(median.round());
    is_common.then(|| crate::text::millis(after))
}

/// `30m` in milliseconds.
///
/// # Errors
/// It is no time; what to write.
pub fn interval(text: &str) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let number = |(unit, factor): &(&str, u64)| {
        let number: u64 = text.trim().strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*factor)
    };
    let found = units.iter().find_map(number).filter(|it| *it > 0);
    found.ok_or_else(|| format!("`{text}` is no time: write 30m, 2h or 5d"))
}

/// `30 minutes`, as PostgreSQL writes an interval.
fn in_words(ms: u64) -> String {
    let units = [
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1_000, "second"),
        (1, "millisecond"),
    ];
    let (factor, unit) = units
        .into_iter()
        .find(|(factor, _)| ms.is_multiple_of(*factor))
        .unwrap_or((1, "millisecond"));
    counted(ms / factor, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_intervals() {
        for (text, words) in [
            ("30m", "30 minutes"),
            ("1m", "1 minute"),
            ("90s", "90 seconds"),
            ("5d", "5 days"),
            ("120m", "2 hours"),
            ("250ms", "250 milliseconds"),
        ] {
            assert_eq!(in_words(interval(text).unwrap()), words);
        }
        for text in ["", "30", "m", "0m", "-1m", "1y", "99999999999999999999d"] {
            assert!(interval(text).unwrap_err().contains("write 30m"), "{text}");
        }
    }

    #[test]
    fn most_distances_have_to_be_alike() {
        assert_eq!(common(vec![1800.0, 1800.2, 1799.9, 1800.0, 60.0]), Some(1_800_000));
        assert_eq!(common(vec![60.0, 1800.0, 90.0]), None);
        assert_eq!(common(vec![-600.0]), None);
        assert_eq!(common(Vec::new()), None);
    }
}
