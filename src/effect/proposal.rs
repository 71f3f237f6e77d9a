//! The proposal of `overdue init` for a table: a description. Each key is certain, a guess with choices, or a question.

pub mod file;
pub mod found;
mod life;
mod releases;
mod time;
pub mod words;

use clap::Args;

use self::{
    file::quoted,
    found::{Found, Table},
};
use super::description::ReleaseKeys;

pub use releases::parse_release;
pub use time::interval;

/// Whether the names and types of columns suggest that rows have a deadline.
pub fn has_deadlines(columns: &[(String, String)]) -> bool {
    let is_time = |kind: &str| kind.starts_with("timestamp") || kind == "date";
    let has_state = columns.iter().any(|(name, _)| words::has(name, words::STATE));
    let has = |is: fn(&str) -> bool| columns.iter().any(|(name, kind)| is_time(kind) && is(name));
    has(words::is_deadline) || (has_state && has(words::is_created))
}

/// The singular, e.g. `order` for `orders`.
pub fn singular(table: &str) -> String {
    words::one_of(table)
}

/// Answers of the team, as options of `overdue init`: an option that is given is no guess.
#[derive(Args, Clone, Debug, Default)]
pub struct Answers {
    /// The columns that messages name a row by, such as `id` or `tenant_id, no`
    #[arg(long, value_name = "COLUMNS")]
    pub key: Option<String>,
    /// The condition of open rows, such as `state IN (10, 15)`
    #[arg(long, value_name = "CONDITION")]
    pub open: Option<String>,
    /// The condition that keeps a row open, also on other tables; the row is called `row`; `none` for no condition
    #[arg(long, value_name = "CONDITION")]
    pub unless: Option<String>,
    /// The time at which a row is due: a column, or an expression
    #[arg(long, value_name = "EXPRESSION")]
    pub deadline: Option<String>,
    /// The time zone of a deadline without one, such as `UTC`
    #[arg(long)]
    pub zone: Option<String>,
    /// The time from the creation of a row to its deadline, such as `30m`
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub after: Option<u64>,
    /// A column of an overdue row and its new value in SQL, such as `state=90`; an empty value leaves the column as it is
    #[arg(long, value_name = "COLUMN=EXPRESSION", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Delete overdue rows
    #[arg(long, conflicts_with = "set")]
    pub delete: bool,
    /// A change that gives back, such as `article.reserved -= line.pieces FROM purchase_line AS line WHERE …`; `none` for no change
    #[arg(long, value_name = "CHANGE", value_parser = parse_release)]
    pub release: Vec<ReleaseKeys>,
    /// The event of a closed row, such as `purchase.expired`
    #[arg(long)]
    pub event: Option<String>,
    /// Rows with an earlier deadline stay open; `all` closes every overdue row [default: now]
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// The name of the effect [default: expire]
    #[arg(long, value_name = "NAME")]
    pub effect: Option<String>,
    /// The name of the timeout [default: unpaid]
    #[arg(long, value_name = "NAME")]
    pub timeout: Option<String>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (column, value) =
        text.split_once('=').ok_or("write COLUMN=EXPRESSION, such as state=90")?;
    Ok((column.trim().trim_matches('"').to_owned(), value.trim().to_owned()))
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
    /// Keys and releases of the description, in order.
    pub points: Vec<Point>,
    /// The delay of a notice in milliseconds, and its reason if it is a guess.
    pub after: (u64, Option<String>),
    /// Notes for the reader of the file.
    pub notes: Vec<String>,
}

/// A key of the description, or a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The key's name.
    pub key: &'static str,
    /// The lines in TOML.
    pub lines: Vec<String>,
    /// Guesses and questions about the key.
    pub asks: Vec<Ask>,
}

/// A guess, or a question that only the team can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The option of `overdue init` for the answer.
    pub option: &'static str,
    /// The column or the table of the answer; empty if the option has a single subject.
    pub about: String,
    /// The fact, and why it matters.
    pub why: String,
    /// Possible answers; the first one is written to the file, or shown.
    pub choices: Vec<String>,
    /// Whether only the team can answer.
    pub is_needed: bool,
}

impl Point {
    fn new(key: &'static str, line: String, asks: impl IntoIterator<Item = Ask>) -> Self {
        Self { key, lines: vec![line], asks: asks.into_iter().collect() }
    }

    fn text(key: &'static str, value: &str, asks: impl IntoIterator<Item = Ask>) -> Self {
        Self::new(key, format!("{key} = {}", quoted(value)), asks)
    }

    /// Whether the lines are commented out until the team answers.
    pub fn is_needed(&self) -> bool {
        self.asks.iter().any(|it| it.is_needed)
    }
}

impl Ask {
    fn guess(option: &'static str, why: impl Into<String>, choices: Vec<String>) -> Self {
        Self { option, about: String::new(), why: why.into(), choices, is_needed: false }
    }

    fn question(option: &'static str, why: impl Into<String>, choices: Vec<String>) -> Self {
        Self { is_needed: true, ..Self::guess(option, why, choices) }
    }

    fn about(self, about: &str) -> Self {
        Self { about: about.to_owned(), ..self }
    }

    /// The first choice, or a placeholder.
    fn first(&self) -> String {
        let placeholder = if self.option == "key" { "COLUMN" } else { "VALUE" };
        self.choices.first().cloned().unwrap_or_else(|| placeholder.to_owned())
    }

    /// The options that answer the question.
    pub fn options(&self) -> Vec<String> {
        let choices =
            if self.choices.is_empty() { vec![self.first()] } else { self.choices.clone() };
        let option = |choice: &String| match self.option {
            "delete" => "--delete".to_owned(),
            "set" => format!("--set {}", shell(&format!("{}={choice}", self.about))),
            option => format!("--{option} {}", shell(choice)),
        };
        choices.iter().map(option).collect()
    }
}

/// A value as one word of a shell; most values contain quotes of SQL.
fn shell(value: &str) -> String {
    if !value.contains('\'') || value.contains('!') {
        return crate::text::quote(value);
    }
    let escaped = ['\\', '"', '$', '`']
        .iter()
        .fold(value.to_owned(), |text, it| text.replace(*it, &format!("\\{it}")));
    format!("\"{escaped}\"")
}

impl Answers {
    /// Reads a typed text as the answer.
    ///
    /// # Errors
    /// The text is not an answer; the error is what to type.
    pub fn take(&mut self, ask: &Ask, found: &Found, text: &str) -> Result<(), String> {
        let (about, owned) = (ask.about.clone(), text.to_owned());
        match ask.option {
            "key" => self.key = Some(owned),
            "open" => self.open = Some(owned),
            "unless" => self.unless = Some(owned),
            "deadline" => self.deadline = Some(owned),
            "zone" => self.zone = Some(owned),
            "after" => self.after = Some(interval(text)?),
            "set" => {
                let column = found.table().and_then(|it| it.column(&about));
                let is_bare = text.chars().all(|it| it.is_alphanumeric() || it == '_');
                let literal = column.filter(|_| is_bare).map(|it| it.literal(text));
                self.set.push((about, literal.unwrap_or(owned)));
            }
            "release" if text == "none" => {
                self.release.push(ReleaseKeys { table: Some(about), ..ReleaseKeys::default() });
            }
            "release" => self.release.push(parse_release(text)?),
            _ if text == "yes" => self.delete = true,
            _ => {
                let what = "type yes; or end here, and write the new values with --set and --open";
                return Err(what.to_owned());
            }
        }
        Ok(())
    }

    fn sets(&self, column: &str) -> bool {
        self.set.iter().any(|(set, _)| set == column)
    }
}

impl Proposal {
    /// Guesses and questions, in the order of the file.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.points.iter().flat_map(|it| &it.asks)
    }

    /// Questions that only the team can answer.
    pub fn questions(&self) -> impl Iterator<Item = &Ask> {
        self.asks().filter(|it| it.is_needed)
    }
}

/// Proposes a description for a table; `None` without a table.
pub fn propose(found: &Found, answers: &Answers) -> Option<Proposal> {
    Some(Proposer { found, answers, table: found.table()? }.propose())
}

struct Proposer<'a> {
    found: &'a Found,
    answers: &'a Answers,
    table: &'a Table,
}

impl Proposer<'_> {
    fn propose(&self) -> Proposal {
        let Self { answers, table, .. } = self;
        let life = self.life();
        let (due, after) = self.when(&life.is_open);
        let (releases, left) = self.releases();
        let since = answers.since.as_deref().unwrap_or("all");
        let stay = "  # rows with an earlier deadline stay open; \"all\" closes them, too";
        let stay = if since == "all" { "" } else { stay };
        let mut points = vec![Point::text("table", &table.key(), []), self.key(), life.open];
        points.extend(self.unless());
        points.extend(due);
        points.push(Point::new("since", format!("since = {}{stay}", quoted(since)), []));
        points.push(life.change);
        let event = answers.event.as_ref().or(life.event.as_ref());
        points.extend(event.map(|it| Point::text("event", it, [])));
        points.extend(releases);
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        Proposal {
            effect: name(&answers.effect),
            timeout: name(&answers.timeout),
            table: table.name.clone(),
            points,
            after,
            notes: self.notes(&left),
        }
    }

    fn notes(&self, left: &[String]) -> Vec<String> {
        let Self { found, table, answers } = self;
        let flags = table.columns.iter().filter(|it| it.is_flag() && !it.is(words::DELETED));
        let flags: Vec<&str> = flags.map(|it| it.name.as_str()).collect();
        let is_partitioned = table.kind == "p";
        let notes = [
            (
                found.sample.rows.is_empty(),
                "the table has no rows, so no guess was compared with any",
            ),
            (
                found.has_row_security,
                "row level security is on: the worker's role needs a policy, or BYPASSRLS",
            ),
            (
                is_partitioned,
                "the table is partitioned: `overdue effect show` has the index for each partition",
            ),
        ];
        let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned());
        let lists = [
            ("rows of these refer to it, and stay as they are", left.join(", ")),
            ("triggers that run when a row changes", found.triggers.join(", ")),
            (
                "tables that are not used, though overdue has some of these names",
                found.namesakes.join(", "),
            ),
            (
                "flags that `open` could ask for as well",
                if answers.open.is_none() { flags.join(", ") } else { String::new() },
            ),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        notes.chain(lists.map(|(what, list)| format!("{what}: {list}"))).collect()
    }

    fn key(&self) -> Point {
        match (&self.answers.key, self.table.row_key()) {
            (Some(key), _) => Point::text("key", key, []),
            (None, Some(columns)) => Point::text("key", &columns.join(", "), []),
            (None, None) => {
                let why = format!(
                    "{} has no primary key and no unique index without NULL, so a message could not name one row: make one, and name its \
                     columns",
                    self.table.name
                );
                let ask = Ask::question("key", why, Vec::new());
                Point::text("key", &ask.first(), [ask])
            }
        }
    }
}
