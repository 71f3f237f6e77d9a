//! The deadline that is proposed: which column has it, in which zone, and how long rows have.

use std::time::Duration;

use super::{
    Ask, Point, Proposer, Remark, Value,
    found::{Column, Deadlines, MILLISECONDS},
    grouped, text, words,
};
use crate::text::{about, counted, sql::identifier};

/// How long rows have where nothing says it.
const HALF_HOUR: u64 = 1_800_000;
/// Of the distances between creation and deadline so many have to be alike.
const ALIKE: f64 = 0.8;

/// When rows are due.
pub(super) struct When {
    pub(super) deadline: Point,
    pub(super) zone: Option<Point>,
    pub(super) after: (u64, Option<String>),
}

impl Proposer<'_> {
    pub(super) fn when(&self, open: &[bool]) -> When {
        let given = self.answers.deadline.as_deref();
        let column = given.and_then(|it| self.table.column(it.trim_matches('"')));
        match (given, column) {
            (Some(given), None) => {
                let kind = self.found.deadline_kind.clone().unwrap_or_default();
                self.by(text("deadline", given), &kind, None)
            }
            (Some(_), Some(column)) if self.is_creation(column, open) => {
                self.since_creation(column, open)
            }
            (Some(_), Some(column)) => self.by_column(column, None),
            (None, _) => self.guessed(open),
        }
    }

    fn guessed(&self, open: &[bool]) -> When {
        let is_filled = |it: &&Column| {
            self.found
                .sample
                .values(&it.name)
                .zip(open)
                .any(|(value, open)| *open && value.is_some())
        };
        let is_time = |it: &&Column| {
            (it.is_time() || it.is_epoch())
                && words::is_deadline(&it.name)
                && (!words::is_ended(&it.name) || is_filled(it))
        };
        let mut named: Vec<&Column> = self.table.columns.iter().filter(is_time).collect();
        if named.iter().any(is_filled) {
            named.retain(|it| is_filled(it));
        }
        let creation = || {
            let is_created = |it: &&Column| it.is_time() && words::is_created(&it.name);
            let mut columns: Vec<&Column> = self.table.columns.iter().filter(is_created).collect();
            // A column that each row has.
            columns.sort_by_key(|it| !self.found.sample.rows.is_empty() && !is_filled(it));
            columns.into_iter().next()
        };
        match &named[..] {
            [column] => {
                let what = meaning(&column.name, self.found.sample.deadlines(&column.name, open));
                let choices = vec![self.expression(column)];
                self.by_column(column, Some(Remark::guess(Ask::Deadline, what, choices)))
            }
            [] => match creation() {
                Some(column) if self.json().is_none() || self.answers.after.is_some() => {
                    self.since_creation(column, open)
                }
                created => self.unknown(created, open),
            },
            several => {
                let meanings: Vec<String> = several
                    .iter()
                    .map(|it| meaning(&it.name, self.found.sample.deadlines(&it.name, open)))
                    .collect();
                let what =
                    format!("several columns could be the deadline: {}", meanings.join("; "));
                let choices = several.iter().map(|it| it.name.clone()).collect();
                self.asks(Remark::question(Ask::Deadline, what, choices))
            }
        }
    }

    fn json(&self) -> Option<&Column> {
        self.table.columns.iter().find(|it| it.is_json())
    }

    fn unknown(&self, created: Option<&Column>, open: &[bool]) -> When {
        let mut choices = Vec::new();
        let mut what = "no column has the name of a deadline".to_owned();
        if let Some(created) = created {
            what = format!("{what}; {}", self.creation(created, open));
            choices.push(format!("{} + interval '30 minutes'", identifier(&created.name)));
        }
        if let Some(json) = self.json() {
            what = format!("{what}; {} is {}, and may have it", json.name, json.kind);
            choices.push(format!(
                "to_timestamp(({} ->> 'expires_at')::bigint)",
                identifier(&json.name)
            ));
        }
        self.asks(Remark::question(Ask::Deadline, what, choices))
    }

    fn asks(&self, remark: Remark) -> When {
        let deadline = Point { key: "deadline", value: None, remark: Some(remark) };
        When {
            deadline,
            zone: self.answers.zone.as_ref().map(|it| text("zone", it)),
            after: self.after(None),
        }
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
            let newest = about(seconds(newest));
            return format!(
                "by {name} every open row is overdue ({}), the newest by {newest}, so it says when a row was made",
                grouped(open)
            );
        }
        format!("{name} says when a row was made")
    }

    fn since_creation(&self, column: &Column, open: &[bool]) -> When {
        let Some(after) = self.answers.after else {
            let what = format!("{}: after which time is it overdue?", self.creation(column, open));
            let line = format!("{} + interval '30 minutes'", identifier(&column.name));
            let choices = vec!["30m".to_owned()];
            let remark = Remark { line: Some(line), ..Remark::question(Ask::After, what, choices) };
            let mut when = self.by(
                Point { key: "deadline", value: None, remark: Some(remark) },
                &column.kind,
                Some(column),
            );
            when.after.1 = Some("after which time is a row overdue?".to_owned());
            return when;
        };
        let expression = format!("{} + interval '{}'", identifier(&column.name), in_words(after));
        let kind = if column.kind == "date" { "timestamp without time zone" } else { &column.kind };
        self.by(text("deadline", expression), kind, Some(column))
    }

    /// A column as an expression that gives an instant.
    fn expression(&self, column: &Column) -> String {
        let name = identifier(&column.name);
        match column.kind.as_str() {
            "date" => format!("({name} + 1)::timestamp"),
            _ if column.is_number() => {
                let is_long =
                    self.found.sample.numbers(&column.name).flatten().any(|it| it > MILLISECONDS);
                if is_long {
                    format!("to_timestamp({name} / 1000.0)")
                } else {
                    format!("to_timestamp({name})")
                }
            }
            _ => name,
        }
    }

    fn by_column(&self, column: &Column, remark: Option<Remark>) -> When {
        let kind = if column.kind == "date" { "timestamp without time zone" } else { &column.kind };
        let value = Some(Value::Text(self.expression(column)));
        let mut when = self.by(Point { key: "deadline", value, remark }, kind, Some(column));
        when.after = self.after(Some(column));
        when
    }

    fn by(&self, deadline: Point, kind: &str, column: Option<&Column>) -> When {
        let has_no_zone = ["timestamp without time zone", "timestamp"].contains(&kind);
        let zone = match &self.answers.zone {
            Some(zone) => Some(text("zone", zone)),
            None if has_no_zone => {
                Some(Point { key: "zone", value: None, remark: Some(self.zone(column)) })
            }
            None => None,
        };
        When { deadline, zone, after: self.after(None) }
    }

    fn zone(&self, column: Option<&Column>) -> Remark {
        let name = column.map_or("the deadline", |it| &it.name);
        let reading = self.found.readings.iter().find(|it| it.column == name);
        let mut choices = vec!["UTC".to_owned()];
        let what = match reading {
            Some(it) => {
                choices.push(it.zone.clone());
                format!(
                    "{name} has no time zone, and rows are closed hours too early in a wrong one: the newest is {}, which is {} in UTC, and \
                     {} in {}",
                    it.value, it.in_utc, it.in_zone, it.zone
                )
            }
            None => format!(
                "{name} has no time zone, and rows are closed hours too early in a wrong one"
            ),
        };
        Remark::question(Ask::Zone, what, choices)
    }

    /// How long a notice waits where its publisher does not say.
    fn after(&self, deadline: Option<&Column>) -> (u64, Option<String>) {
        if let Some(after) = self.answers.after {
            return (after, None);
        }
        let is_created = |it: &&Column| {
            Some(&it.kind) == deadline.map(|it| &it.kind) && words::is_created(&it.name)
        };
        let distance = self.table.columns.iter().find(is_created).zip(deadline).and_then(
            |(created, deadline)| {
                let sample = &self.found.sample;
                let pairs = sample.numbers(&created.name).zip(sample.numbers(&deadline.name));
                let distance = common(
                    pairs.filter_map(|(created, deadline)| Some(deadline? - created?)).collect(),
                )?;
                Some((distance, format!("from {} to {} of most rows", created.name, deadline.name)))
            },
        );
        match distance {
            Some((after, why)) => (after, Some(why)),
            None => (
                HALF_HOUR,
                Some("a notice whose publisher names no other delay waits so long".to_owned()),
            ),
        }
    }
}

/// As long as there can be, where it is longer.
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
