//! The proposal of `overdue init` for a table: a description, with a mark on each guess, and the questions that only the team can answer.

pub mod file;
pub mod found;
mod life;
mod releases;
mod time;
mod words;

use self::{
    found::{Found, Table},
    time::When,
};
use super::description::ReleaseKeys;
use crate::order::FinalState;

pub use releases::parse_release;
pub use time::interval;

/// Whether columns, with their types, look as if rows had a deadline.
pub fn has_deadlines(columns: &[(String, String)]) -> bool {
    let is_time = |kind: &str| kind.starts_with("timestamp") || kind == "date";
    let has_state = columns.iter().any(|(name, _)| words::is_state(name));
    let has = |is: fn(&str) -> bool| columns.iter().any(|(name, kind)| is_time(kind) && is(name));
    has(words::is_deadline) || (has_state && has(words::is_created))
}

/// `order` of `orders`.
pub fn singular(table: &str) -> String {
    words::one_of(table)
}

/// Answers of the team: an option that is given is no guess.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The name of the effect.
    pub effect: String,
    /// The name of the timeout.
    pub timeout: String,
    /// Columns of the key, as `key` has them.
    pub key: Option<String>,
    /// The condition that a row is open.
    pub open: Option<String>,
    /// The condition that keeps a row open.
    pub unless: Option<String>,
    /// When a row is due.
    pub deadline: Option<String>,
    /// The time zone of a deadline without one.
    pub zone: Option<String>,
    /// Milliseconds from the creation of a row to its deadline.
    pub after: Option<u64>,
    /// Columns and their new values; an empty value leaves the column as it is.
    pub set: Vec<(String, String)>,
    /// Whether rows are deleted.
    pub delete: bool,
    /// Releases to these tables; releases to others are guessed.
    pub releases: Vec<ReleaseKeys>,
    /// Whether nothing else is given back.
    pub nothing_else: bool,
    /// Counters with the sign of the amount that is added, or none where they stay as they are.
    pub signs: Vec<(String, Option<char>)>,
    /// The event.
    pub event: Option<String>,
    /// Rows with an earlier deadline stay open.
    pub since: String,
}

/// A proposed description.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The name of the effect.
    pub effect: String,
    /// The name of the timeout.
    pub timeout: String,
    /// The table without its schema.
    pub table: String,
    /// The keys of the description, in their order.
    pub points: Vec<Point>,
    /// Releases.
    pub releases: Vec<ReleasePoint>,
    /// Milliseconds until a notice is due, and where that comes from if it is a guess.
    pub after: (u64, Option<String>),
    /// Notes for the reader of the file.
    pub notes: Vec<String>,
}

/// A key of the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The key.
    pub key: &'static str,
    /// Its value; none where only the team knows it.
    pub value: Option<Value>,
    /// Where it is a guess, or a question.
    pub remark: Option<Remark>,
}

/// A release to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasePoint {
    /// The keys of the block.
    pub keys: ReleaseKeys,
    /// Where it is a guess, or a question.
    pub remark: Option<Remark>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// Columns and their new values in SQL.
    Set(Vec<(String, String)>),
    /// `true`.
    True,
}

/// A remark on a guess or a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The subject.
    pub ask: Ask,
    /// The fact, and why it matters.
    pub what: String,
    /// Values that could be meant; of a guess the first one is what was guessed.
    pub choices: Vec<String>,
    /// Whether only the team can say.
    pub is_needed: bool,
    /// The value of the key for the first choice, if that is not the choice itself.
    pub line: Option<String>,
}

impl Remark {
    /// The options that answer it.
    pub fn options(&self) -> Vec<String> {
        match &self.choices[..] {
            [] => vec![self.ask.option(self.ask.placeholder())],
            choices => choices.iter().map(|it| self.ask.option(it)).collect(),
        }
    }

    fn guess(ask: Ask, what: String, choices: Vec<String>) -> Self {
        Self { ask, what, choices, is_needed: false, line: None }
    }

    fn question(ask: Ask, what: String, choices: Vec<String>) -> Self {
        Self { is_needed: true, ..Self::guess(ask, what, choices) }
    }
}

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// The columns of the key.
    Key,
    /// The condition of open rows.
    Open,
    /// The state of a closed row, in this column.
    State(String),
    /// The deadline.
    Deadline,
    /// The time zone.
    Zone,
    /// The interval from the creation to the deadline.
    After,
    /// Whether rows are deleted.
    Delete,
    /// The sign of a counter.
    Sign(String),
}

impl Ask {
    /// The option that answers it.
    pub fn placeholder(&self) -> &'static str {
        match self {
            Self::Key => "COLUMN",
            Self::State(_) => "NUMBER",
            _ => "VALUE",
        }
    }

    /// The option that answers it.
    pub fn option(&self, value: &str) -> String {
        match self {
            Self::Key => format!("--key {}", shell(value)),
            Self::Open => format!("--open {}", shell(value)),
            Self::State(column) => format!("--set {}", shell(&format!("{column}={value}"))),
            Self::Deadline => format!("--deadline {}", shell(value)),
            Self::Zone => format!("--zone {}", shell(value)),
            Self::After => format!("--after {}", shell(value)),
            Self::Delete => "--delete".to_owned(),
            Self::Sign(counter) => format!("--release {}", shell(&format!("{counter} {value}"))),
        }
    }
}

/// A value as one word of a shell; it mostly has quotes of SQL in it.
fn shell(value: &str) -> String {
    if !value.contains('\'') || value.contains('!') {
        return crate::text::quote(value);
    }
    let escaped = value.chars().fold(String::new(), |mut text, it| {
        if matches!(it, '"' | '\\' | '$' | '`') {
            text.push('\\');
        }
        text.push(it);
        text
    });
    format!("\"{escaped}\"")
}

impl Answers {
    /// Takes what was typed as the answer.
    ///
    /// # Errors
    /// It is none; what to type.
    pub fn take(&mut self, ask: &Ask, found: &Found, text: &str) -> Result<(), String> {
        let owned = text.to_owned();
        match ask {
            Ask::Key => self.key = Some(owned),
            Ask::Open => self.open = Some(owned),
            Ask::State(column) => {
                let known = found.table().and_then(|it| it.column(column));
                let literal = known.filter(|_| !text.starts_with('\'')).map(|it| it.literal(text));
                self.set.push((column.clone(), literal.unwrap_or(owned)));
            }
            Ask::Deadline => self.deadline = Some(owned),
            Ask::Zone => self.zone = Some(owned),
            Ask::After => self.after = Some(interval(text)?),
            Ask::Delete if ["y", "yes", "true"].contains(&text) => self.delete = true,
            Ask::Delete => {
                return Err(
                    "type yes; or end here, and write what is set with --set and --open".to_owned()
                );
            }
            Ask::Sign(counter) => {
                let sign = match text {
                    "+" | "-" => text.chars().next(),
                    "DELETE" | "yes" => Some('-'),
                    "n" | "no" => None,
                    _ => {
                        return Err(
                            "type + if it goes up, - if it goes down, n if it stays".to_owned()
                        );
                    }
                };
                self.signs.push((counter.clone(), sign));
            }
        }
        Ok(())
    }
}

impl Proposal {
    /// Guesses and questions, in the order of the file.
    pub fn remarks(&self) -> impl Iterator<Item = &Remark> {
        let points = self.points.iter().filter_map(|it| it.remark.as_ref());
        points.chain(self.releases.iter().filter_map(|it| it.remark.as_ref()))
    }

    /// Questions that only the team can answer.
    pub fn questions(&self) -> impl Iterator<Item = &Remark> {
        self.remarks().filter(|it| it.is_needed)
    }
}

/// The description that fits what was found.
pub fn propose(found: &Found, answers: &Answers) -> Option<Proposal> {
    Proposer { found, answers, table: found.table()? }.propose().into()
}

/// The line to write, where a state is asked for.
fn with_line(remark: Remark, set: &[(String, String)]) -> Remark {
    let Ask::State(column) = &remark.ask else { return remark };
    let state =
        remark.choices.first().cloned().unwrap_or_else(|| remark.ask.placeholder().to_owned());
    let set: Vec<_> = [(column.clone(), state)].into_iter().chain(set.iter().cloned()).collect();
    Remark { line: Some(file::inline(set.iter().map(|(column, value)| (column, value)))), ..remark }
}

struct Proposer<'a> {
    found: &'a Found,
    answers: &'a Answers,
    table: &'a Table,
}

fn text(key: &'static str, value: impl Into<String>) -> Point {
    Point { key, value: Some(Value::Text(value.into())), remark: None }
}

impl Proposer<'_> {
    fn propose(&self) -> Proposal {
        let Self { found, answers, table } = self;
        let life = self.life();
        let When { deadline, zone, after } = self.when(&life.is_open);
        let deletes = answers.delete || life.is_deleted.is_some();
        let mut points = vec![text("table", table.key()), self.key()];
        points.push(Point { key: "open", value: life.open.map(Value::Text), remark: life.remark });
        points.extend(answers.unless.as_ref().map(|it| text("unless", it)));
        points.push(deadline);
        points.extend(zone);
        points.push(text("since", &answers.since));
        if deletes {
            let is_needed = life.is_deleted.as_ref().is_some_and(|it| it.is_needed);
            let value = (!is_needed).then_some(Value::True);
            points.push(Point { key: "delete", value, remark: life.is_deleted });
        } else {
            let event = answers.event.clone().or_else(|| Some(self.event(&life.set)));
            let is_needed = life.set_remark.as_ref().is_some_and(|it| it.is_needed);
            let remark = life.set_remark.map(|it| with_line(it, &life.set));
            let value = (!is_needed).then_some(Value::Set(life.set));
            points.push(Point { key: "set", value, remark });
            points.extend(event.map(|it| text("event", it)));
        }
        if deletes {
            points.extend(answers.event.as_ref().map(|it| text("event", it)));
        }
        let (releases, left) = self.releases();
        Proposal {
            effect: answers.effect.clone(),
            timeout: answers.timeout.clone(),
            table: table.name.clone(),
            points,
            releases,
            after,
            notes: self.notes(found, &left),
        }
    }

    fn notes(&self, found: &Found, left: &[String]) -> Vec<String> {
        let mut notes = Vec::new();
        if found.sample.rows.is_empty() {
            notes.push("the table has no rows, so no guess was compared with any".to_owned());
        }
        if !left.is_empty() {
            notes.push(format!(
                "rows of these refer to it, and stay as they are: {}",
                left.join(", ")
            ));
        }
        if !found.triggers.is_empty() {
            notes.push(format!(
                "triggers that run when a row changes: {}",
                found.triggers.join(", ")
            ));
        }
        if found.has_row_security {
            notes.push(
                "row level security is on: the worker's role needs a policy, or BYPASSRLS"
                    .to_owned(),
            );
        }
        if self.table.kind == "p" {
            notes.push(
                "the table is partitioned: `overdue effect show` has the index for each partition"
                    .to_owned(),
            );
        }
        for name in &found.namesakes {
            notes.push(format!("{name} is not a table of overdue, and is not used by it"));
        }
        let flags =
            self.table.columns.iter().filter(|it| it.is_flag() && !words::is_deleted(&it.name));
        let flags: Vec<&str> = flags.map(|it| it.name.as_str()).collect();
        if !flags.is_empty() && self.answers.open.is_none() {
            notes.push(format!("flags that `open` could ask for as well: {}", flags.join(", ")));
        }
        notes
    }

    fn key(&self) -> Point {
        let remark = |what: String| Some(Remark::question(Ask::Key, what, Vec::new()));
        match (&self.answers.key, self.table.row_key()) {
            (Some(key), _) => text("key", key),
            (None, Some(columns)) => text("key", columns.join(", ")),
            (None, None) => {
                let what = format!(
                    "{} has no primary key and no unique index without NULL, so a message could not name one row: make one, and name its \
                     columns",
                    self.table.name
                );
                Point { key: "key", value: None, remark: remark(what) }
            }
        }
    }

    /// `order.expired`: what a row is, and what it has become.
    fn event(&self, set: &[(String, String)]) -> String {
        let one = words::one_of(&self.table.name);
        let states: Vec<String> =
            set.iter().map(|(_, value)| value.trim_matches('\'').to_owned()).collect();
        let states: Vec<&str> = states.iter().map(String::as_str).collect();
        let word = words::closed(&states).map(|it| words::parts(it).join("_"));
        let word = word.filter(|it| FinalState::of_outcome(&format!("done:{it}")).is_some());
        format!("{one}.{}", word.as_deref().unwrap_or("expired"))
    }
}

/// `10,000`
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
