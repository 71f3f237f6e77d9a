//! The proposed deadline: its column, its zone, and the time from creation to deadline.

use std::time::Duration;

use super::{
    Ask, Point, Proposer, file,
    found::{Column, MILLISECONDS},
    words,
};
use crate::text::{counted, sql::identifier};

/// Units of a duration, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// The assumed duration if the table shows none.
const HALF_HOUR: u64 = 1_800_000;
/// The share of rows that must have about the same time between creation and deadline.
const ALIKE: f64 = 0.8;

/// Smaller numbers are durations: as seconds since 1970 they would be before 1973.
const DURATION: f64 = 1e8;

/// A proposed deadline.
struct Deadline<'a> {
    /// The expression.
    value: String,
    ask: Option<Ask>,
    /// The type, or empty if it is unknown.
    kind: &'a str,
    /// The column that contains the deadline, or to which a duration is added.
    column: Option<&'a Column>,
}

impl Proposer<'_> {
    /// `deadline` and `zone`, and the delay of a notice in milliseconds, with the reason if it is a guess.
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
        // Prefers a column that open rows have filled.
        created.sort_by_key(|it| !sample.rows.is_empty() && !is_filled(it));
        let json = columns().find(|it| it.is_json());
        let meaning = |it: &&Column| sample.meaning(&it.name, open).0;
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

    /// Whether the numbers are instants, not durations.
    fn is_instant(&self, column: &Column) -> bool {
        self.found.sample.numbers(&column.name).flatten().all(|it| it > DURATION)
    }

    /// Whether the column contains the time of creation, by its name or by its values.
    fn is_creation(&self, column: &Column, open: &[bool]) -> bool {
        let (_, is_past) = self.found.sample.meaning(&column.name, open);
        words::is_created(&column.name) || (is_past && !words::is_deadline(&column.name))
    }

    fn creation(&self, column: &Column, open: &[bool]) -> String {
        let name = &column.name;
        format!("{name} says when a row was made ({})", self.found.sample.meaning(name, open).0)
    }

    /// A deadline some time after the creation.
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

    /// A column as an expression for an instant.
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

    /// The delay of a notice if its publisher names no other.
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

/// SQL for a time after the value of a column.
fn later(column: &Column, after: u64) -> String {
    format!("{} + interval '{}'", identifier(&column.name), in_words(after))
}

/// The distance that most rows share, in milliseconds; `None` if they differ.
fn common(mut distances: Vec<f64>) -> Option<u64> {
    distances.retain(|it| *it >= 1.0);
    distances.sort_by(f64::total_cmp);
    let median = *distances.get(distances.len() / 2)?;
    let alike = distances.iter().filter(|it| (**it - median).abs() <= 1.0 + median / 100.0).count();
    #[expect(clippy::cast_precision_loss, reason = "at most 10,000")]
    let is_common = alike as f64 >= ALIKE * distances.len() as f64;
    let after = Duration::try_from_secs_f64(median.round()).unwrap_or(Duration::MAX);
    is_common.then(|| crate::text::millis(after))
}

/// Parses `30m` to milliseconds.
///
/// # Errors
/// The text is no duration; the error is what to write.
pub fn interval(text: &str) -> Result<u64, String> {
    let number = |(unit, factor): &(&str, u64)| {
        let number: u64 = text.trim().strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*factor)
    };
    let found = UNITS.iter().find_map(number).filter(|it| *it > 0);
    found.ok_or_else(|| format!("`{text}` is no time: write 30m, 2h or 5d"))
}

/// `30 minutes`, in PostgreSQL's notation of intervals.
fn in_words(ms: u64) -> String {
    let names = ["millisecond", "second", "minute", "hour", "day"];
    let units = UNITS.iter().zip(names).rev();
    let whole =
        units.map(|((_, factor), name)| (*factor, name)).find(|(it, _)| ms.is_multiple_of(*it));
    let (factor, name) = whole.unwrap_or((1, "millisecond"));
    counted(ms / factor, name)
}
