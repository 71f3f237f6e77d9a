//! Facts about a table: its columns, its neighbours, and a sample of its rows.

use std::time::Duration;

use serde::Deserialize;

use super::words;
use crate::text::{
    about, counted,
    sql::{identifier, literal},
};

/// Limit of the sampled rows.
pub const MOST_ROWS: u16 = 10_000;
/// Larger numbers are milliseconds since 1970.
pub(super) const MILLISECONDS: f64 = 1e11;
/// A column with more values than this has no states.
const MOST_STATES: usize = 30;

/// A table with its neighbours and a sample of its rows.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Found {
    /// The table itself, then its neighbours: tables that refer to it, and tables that it and they refer to.
    pub tables: Vec<Table>,
    /// References between these tables.
    pub links: Vec<Link>,
    /// Triggers of the table.
    pub triggers: Vec<String>,
    /// Whether row level security is on.
    pub has_row_security: bool,
    /// Tables of the team with the name of one of ours.
    pub namesakes: Vec<String>,
    /// The sampled rows.
    #[serde(skip)]
    pub sample: Sample,
    /// The meaning of values without a time zone.
    #[serde(skip)]
    pub readings: Vec<Reading>,
    /// The type of the deadline that `--deadline` gives.
    #[serde(skip)]
    pub deadline_kind: Option<String>,
}

/// A table.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Table {
    /// The object identifier.
    pub id: u32,
    /// The schema, if the table is not found on the search path.
    pub schema: Option<String>,
    /// The name without schema and quotes.
    pub name: String,
    /// `r` for a table, `p` for a partitioned table; others are views, foreign tables and the like.
    pub kind: String,
    /// The columns of the table.
    pub columns: Vec<Column>,
    /// Columns of each unique index without a condition; the primary key comes first.
    pub unique: Vec<Vec<String>>,
    /// Estimated number of rows.
    pub rows: f64,
}

/// A column.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Column {
    /// The name without quotes.
    pub name: String,
    /// The type without a length.
    pub kind: String,
    /// Labels of an enum type; in a table that refers to the table also the states of its rows.
    pub labels: Vec<String>,
    /// Whether the column is declared NOT NULL.
    pub is_not_null: bool,
    /// The default, in SQL.
    pub default: Option<String>,
    /// The CHECK constraints of this column alone, in SQL.
    pub check: Option<String>,
}

/// A reference from one table to another.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Link {
    /// The referring table.
    pub from: u32,
    /// The referenced table.
    pub to: u32,
    /// The referring columns.
    pub columns: Vec<String>,
    /// The referenced columns.
    pub referred: Vec<String>,
    /// Whether there is a foreign key; otherwise only the names match.
    pub is_declared: bool,
}

/// Sampled rows: the last ones by key, and others.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The time of the sample, in seconds since 1970.
    pub now: f64,
    /// The sampled columns.
    pub columns: Vec<String>,
    /// A value per column. Times are in seconds since 1970, times without a time zone as if they were in UTC.
    pub rows: Vec<Vec<Option<String>>>,
    /// Whether each row is open, if `--open` was given.
    pub open: Option<Vec<bool>>,
}

/// The meaning of a value without a time zone.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The column's name.
    pub column: String,
    /// The stored value.
    pub value: String,
    /// The instant if the value is in UTC.
    pub in_utc: String,
    /// Another zone: the zone of the database, or of this machine.
    pub zone: String,
    /// The instant if the value is in `zone`.
    pub in_zone: String,
}

impl Found {
    /// The table that the user named.
    pub fn table(&self) -> Option<&Table> {
        self.tables.first()
    }

    /// Whether it is a table, not a view or the like.
    pub fn is_table(&self) -> bool {
        self.table().is_some_and(|it| it.kind == "r" || it.kind == "p")
    }

    /// Tables that refer to the table and have a column with states.
    pub fn states_of_children(&mut self) -> Vec<(String, &mut Column)> {
        let own = self.table().map(|it| it.id);
        let refers = |id: u32| self.links.iter().any(|it| it.from == id && Some(it.to) == own);
        let children = self.tables.iter_mut().filter(|it| refers(it.id) && Some(it.id) != own);
        let states = children.filter_map(|it| {
            let name = it.sql();
            Some((name, it.columns.iter_mut().find(|it| it.is_state())?))
        });
        states.collect()
    }

    pub(super) fn of(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|it| it.id == id)
    }

    /// The columns whose values are sampled.
    pub fn looked_at(&self) -> Vec<&Column> {
        let columns = self.table().map_or(&[][..], |it| &it.columns);
        let is_of_use = |it: &&Column| {
            it.is_state() || it.is_time() || it.is_flag() || it.is_epoch() || it.is_cause()
        };
        columns.iter().filter(is_of_use).collect()
    }
}

impl Table {
    /// The name as `table` of a description spells it.
    pub(super) fn key(&self) -> String {
        let sql = self.sql();
        let has_dot = self.schema.iter().chain([&self.name]).any(|it| it.contains('.'));
        if has_dot { sql } else { sql.replace('"', "") }
    }

    /// The name in SQL.
    pub(super) fn sql(&self) -> String {
        let schema = self.schema.as_ref().map_or_else(String::new, |it| identifier(it) + ".");
        schema + &identifier(&self.name)
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|it| it.name == name)
    }

    /// The primary key, or a unique index without NULL.
    pub(super) fn row_key(&self) -> Option<&[String]> {
        let is_not_null = |name: &String| self.column(name).is_some_and(|it| it.is_not_null);
        self.unique.iter().find(|it| it.iter().all(is_not_null)).map(Vec::as_slice)
    }
}

impl Column {
    /// Whether the column can contain a state.
    pub(super) fn is_state(&self) -> bool {
        let is_of_type =
            ["text", "character varying", "character", "smallint", "integer", "citext"]
                .contains(&self.kind.as_str());
        self.has(words::STATE) && (is_of_type || !self.labels.is_empty())
    }

    /// Whether a part of the column's name is one of the words.
    pub(super) fn has(&self, words: &str) -> bool {
        words::has(&self.name, words)
    }

    /// Whether the column's name is one of the words.
    pub(super) fn is(&self, words: &str) -> bool {
        words::is(&self.name, words)
    }

    /// The condition that, by this column, a row has not ended.
    pub(super) fn not_ended(&self) -> String {
        let name = identifier(&self.name);
        if self.is_flag() { format!("NOT {name}") } else { format!("{name} IS NULL") }
    }

    /// The present as a value of this column.
    pub(super) fn now(&self, zone: Option<&str>) -> String {
        let zone = zone.unwrap_or("UTC");
        let has_no_zone = self.kind.starts_with("timestamp without");
        if has_no_zone {
            format!("now() AT TIME ZONE {}", literal(zone))
        } else {
            "now()".to_owned()
        }
    }

    /// The condition that the column has one of these values.
    pub(super) fn is_one_of(&self, values: &[&str]) -> String {
        let name = identifier(&self.name);
        let values: Vec<String> = values.iter().map(|it| self.literal(it)).collect();
        match &values[..] {
            [value] => format!("{name} = {value}"),
            values => format!("{name} IN ({})", values.join(", ")),
        }
    }

    /// Whether the column contains the reason of an end, as a code.
    pub(super) fn is_cause(&self) -> bool {
        let is_code = self.is_number() || !self.labels.is_empty();
        is_code && self.has(words::CAUSE) && self.has(words::ENDED_IN_TIME)
    }

    pub(super) fn is_flag(&self) -> bool {
        self.kind == "boolean"
    }

    /// Whether the column contains a time or a `date`.
    pub(super) fn is_time(&self) -> bool {
        self.kind.starts_with("timestamp") || self.kind == "date"
    }

    /// Whether the column contains a number of seconds since 1970, by its name.
    pub(super) fn is_epoch(&self) -> bool {
        let is_time = words::is_deadline(&self.name) || words::is_created(&self.name);
        is_time && self.is_number()
    }

    pub(super) fn is_json(&self) -> bool {
        self.kind.starts_with("json")
    }

    pub(super) fn is_number(&self) -> bool {
        ["smallint", "integer", "bigint", "numeric"].contains(&self.kind.as_str())
    }

    /// A value in SQL.
    pub(super) fn literal(&self, value: &str) -> String {
        let is_bare = self.is_number() || self.is_flag();
        if is_bare { value.to_owned() } else { literal(value) }
    }

    /// The value of the default, if it is a literal.
    pub(super) fn default_value(&self) -> Option<String> {
        let text = self.default.as_deref()?;
        let is_literal = text.starts_with(['\'', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
        if is_literal { literals(text).into_iter().next() } else { None }
    }

    /// The values in the column's type or CHECK constraint.
    fn declared(&self) -> impl Iterator<Item = String> {
        let checked = self.check.as_deref().map(literals).unwrap_or_default();
        self.labels.iter().cloned().chain(checked)
    }

    /// Whether the type or the CHECK constraint contains the value.
    pub(super) fn declares(&self, value: &str) -> bool {
        self.declared().any(|it| it == value)
    }

    /// States with their number of rows, the most frequent first, then the states in the type, the CHECK constraint or the default.
    pub(super) fn states(&self, sample: &Sample) -> Vec<(String, usize)> {
        let mut states: Vec<(String, usize)> = Vec::new();
        for value in sample.values(&self.name).flatten() {
            if let Some((_, count)) = states.iter_mut().find(|(known, _)| known == value) {
                *count += 1;
                continue;
            }
            if states.len() == MOST_STATES {
                return Vec::new();
            }
            states.push((value.to_owned(), 1));
        }
        states.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for value in self.declared().chain(self.default_value()) {
            if !states.iter().any(|(known, _)| *known == value) {
                states.push((value, 0));
            }
        }
        states
    }
}

/// Literals of an expression: quoted ones, or numbers.
fn literals(sql: &str) -> Vec<String> {
    let quoted: Vec<String> = sql.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
    if !quoted.is_empty() {
        return quoted;
    }
    let is_number = |it: &&str| !it.is_empty() && it.chars().all(|c| c.is_ascii_digit());
    let words = sql.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(is_number).map(str::to_owned).collect()
}

impl Sample {
    /// The value of each row.
    pub(super) fn values<'a>(&'a self, column: &str) -> impl Iterator<Item = Option<&'a str>> {
        let at = self.columns.iter().position(|it| it == column);
        self.rows.iter().map(move |row| row.get(at?)?.as_deref())
    }

    /// The value of each row as a number.
    pub fn numbers(&self, column: &str) -> impl Iterator<Item = Option<f64>> {
        self.values(column).map(|it| it.and_then(|it| it.parse().ok()))
    }

    /// The meaning of a column as the deadline of open rows. The flag: all open rows were due a short time ago, as if the column
    /// were a time of creation.
    pub(super) fn meaning(&self, column: &str, open: &[bool]) -> (String, bool) {
        let times = self.numbers(column).zip(open).filter(|(_, open)| **open);
        let seconds = |it: f64| if it > MILLISECONDS { it / 1000.0 } else { it };
        let times: Vec<Option<f64>> = times.map(|(time, _)| time.map(seconds)).collect();
        let past = times.iter().flatten().map(|it| self.now - it).filter(|it| *it >= 0.0);
        let (overdue, newest) =
            past.fold((0, f64::INFINITY), |(n, least), it| (n + 1, least.min(it)));
        let never = times.iter().filter(|it| it.is_none()).count();
        let open = times.len();
        let mut text =
            format!("by {column} {overdue} of {} are overdue", counted(open, "open row"));
        if open == 0 {
            text = format!("no row is open, so {column} was compared with none");
        }
        if overdue > 0 {
            let newest = Duration::try_from_secs_f64(newest).unwrap_or(Duration::MAX);
            text = format!("{text}, the newest by {}", about(newest));
        }
        if never > 0 {
            text = format!("{text}, and {never} have none");
        }
        (text, open > 2 && overdue + never == open && newest < 900.0)
    }
}
