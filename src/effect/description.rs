//! `[effects.NAME]` of `overdue.toml`: the condition of open rows, their deadline, and their change.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deadline::is_name;
use crate::{
    order::FinalState,
    text::sql::{identifier, unbalanced},
};

/// PostgreSQL's limit for names (`NAMEDATALEN`), in bytes.
const LONGEST_NAME: usize = 63;

/// An effect: a description of rows and of their change, or a file with SQL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct EffectKeys {
    /// File with the statement of the effect, for what cannot be described; without it there is a `table`.
    #[schemars(example = &"cancel.sql")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<PathBuf>,
    /// File with the statement that finds overdue orders, for the sweep; it goes with `sql`.
    #[schemars(example = &"cancel_overdue.sql")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_sql: Option<PathBuf>,
    /// The table whose rows become overdue, with its schema.
    #[schemars(example = &"shop.purchase")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The column that a message names a row by; several, separated by commas, are joined by `/` there.
    #[schemars(example = &"purchase_no")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A condition in SQL on columns of the row: only open rows become overdue.
    #[schemars(example = &"state IN (10, 15) AND deleted_at IS NULL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// A condition in SQL that keeps a row open, also on other tables; the row is called `row`.
    #[schemars(example = &"EXISTS (SELECT FROM payment WHERE payment.purchase_no = row.purchase_no)")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// An expression in SQL on the row: when it is due. NULL is never.
    #[schemars(example = &"created_at + interval '30 minutes'")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The time zone of a deadline without one.
    #[schemars(example = &"UTC")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// An expression in SQL on the row that is never later than the deadline, for the index, where the deadline cannot be in one.
    #[schemars(example = &"created_at")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Rows whose deadline is earlier stay open; `all` is none.
    #[schemars(example = &"2026-12-01T09:00Z")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Columns of the row and their new values in SQL.
    #[schemars(example = serde_json::json!({"state": "90"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Whether the row is deleted.
    #[serde(skip_serializing_if = "is_false")]
    pub delete: bool,
    /// The event that is published for each closed row; its last word is the outcome.
    #[schemars(example = &"purchase.expired")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Changes of other tables, by which closed rows give back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub release: Vec<ReleaseKeys>,
}

/// A change of the rows of another table, by which closed rows give back.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct ReleaseKeys {
    /// The table that is changed.
    #[schemars(example = &"article")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The table whose rows are deleted.
    #[schemars(example = &"seat_hold")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// Columns and the amounts in SQL that are added to them; for each row of the table the amounts of a batch are summed.
    #[schemars(example = serde_json::json!({"reserved": "-line.pieces"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, String>,
    /// Columns and their new values in SQL.
    #[schemars(example = serde_json::json!({"status": "'free'"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Tables between the row and the table that is changed, as in `FROM`.
    #[schemars(example = &"purchase_line AS line")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The condition in SQL that joins them to the row, which is called `row`.
    #[schemars(example = &"line.purchase_no = row.purchase_no AND article.article_no = line.article_no")]
    #[serde(skip_serializing_if = "Option::is_none", rename = "where")]
    pub condition: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// An effect, parsed from its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name of the effect.
    pub name: String,
    /// The table whose rows become overdue.
    pub table: TableName,
    /// Columns of the key, without quotes.
    pub key: Vec<String>,
    /// The condition of open rows.
    pub open: String,
    /// The condition that keeps a row open.
    pub unless: Option<String>,
    /// The expression for the deadline.
    pub deadline: String,
    /// The time zone of a deadline without one.
    pub zone: Option<String>,
    /// An expression that is never later than the deadline.
    pub not_before: Option<String>,
    /// Rows whose deadline is earlier stay open.
    pub since: Since,
    /// The change of the row.
    pub change: Change,
    /// The event that is published.
    pub event: Option<String>,
    /// Changes of other tables that release what closed rows reserved.
    pub releases: Vec<Release>,
}

/// The earliest deadline of rows that may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The description has no `since`.
    Unsaid,
    /// Every deadline.
    All,
    /// This deadline.
    At(Timestamp),
}

/// A column, without quotes, and an expression in SQL.
pub(crate) type Assignment = (String, String);

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Columns get new values.
    Set(Vec<Assignment>),
    /// Amounts are added to columns; only in releases.
    Add(Vec<Assignment>),
    /// The row is deleted.
    Delete,
}

/// A change of rows of another table, which releases what closed rows reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The table that is changed.
    pub table: TableName,
    /// The change of these rows.
    pub change: Change,
    /// Tables between the row and this table.
    pub from: Option<String>,
    /// The condition that joins these tables to the row.
    pub condition: String,
}

/// The name of a table, for SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// In SQL, with its schema if the description has one.
    pub sql: String,
    /// In SQL without the schema, to qualify columns.
    pub short: String,
}

/// An invalid key of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key below `[effects.NAME]`; empty for the whole section.
    pub key: &'static str,
    /// The mistake, and the line to write.
    pub what: String,
}

impl EffectKeys {
    /// Parses the keys; `None` if a file has the SQL.
    ///
    /// # Errors
    /// Keys are missing, or contradict each other.
    pub fn description(&self, name: &str) -> Result<Option<Description>, Vec<Mistake>> {
        let mut mistakes = Mistakes(Vec::new());
        let table = match (&self.sql, &self.table) {
            (Some(_), None) => return mistakes.result(|| None),
            (Some(_), Some(_)) => {
                mistakes.add("table", "there is `sql` as well: the effect has one or the other");
                return mistakes.result(|| None);
            }
            (None, None) => {
                let what = format!(
                    "it has neither `table` nor `sql`: describe the rows (docs/effects.md), or write sql = \"{name}.sql\""
                );
                mistakes.add("", &what);
                return mistakes.result(|| None);
            }
            (None, Some(table)) => table,
        };
        if self.overdue_sql.is_some() {
            mistakes.add(
                "overdue_sql",
                "the program writes that statement itself for a described effect: leave it out",
            );
        }
        let table = mistakes.of("table", TableName::parse(table));
        let key = self.key.as_deref().map_or_else(
            || Err("add the column that messages name a row by: key = \"id\"".to_owned()),
            columns,
        );
        let key = mistakes.of("key", key);
        let open = mistakes.required("open", self.open.as_ref(), "state = 'pending'");
        let deadline = mistakes.required(
            "deadline",
            self.deadline.as_ref(),
            "created_at + interval '30 minutes'",
        );
        let since = match self.since.as_deref() {
            None => Since::Unsaid,
            Some("all") => Since::All,
            Some(text) => {
                if let Ok(at) = text.parse() {
                    Since::At(at)
                } else {
                    let what = "write a time with its zone, such as since = \"2026-12-01T09:00Z\", or since = \"all\"";
                    mistakes.add("since", what);
                    Since::Unsaid
                }
            }
        };
        let change = match (self.delete, self.set.is_empty()) {
            (true, true) => Change::Delete,
            (false, false) => Change::Set(mistakes.assignments("set", &self.set)),
            (true, false) => {
                mistakes.add("delete", "there is `set` as well: a row is changed or deleted");
                Change::Delete
            }
            (false, true) => {
                let what = "nothing says what happens to a row: add set = { state = \"'expired'\" }, or delete = true";
                mistakes.add("set", what);
                Change::Delete
            }
        };
        for (key, text) in [
            ("unless", &self.unless),
            ("open", &self.open),
            ("deadline", &self.deadline),
            ("not_before", &self.not_before),
        ] {
            if let Some(text) = text {
                mistakes.fragment(key, text);
            }
        }
        if let Some(event) = &self.event
            && FinalState::of_outcome(&format!("done:{}", last_word(event))).is_none()
        {
            let what = "its last word becomes the outcome of the row: small letters, digits and `_`, such as \"purchase.expired\"";
            mistakes.add("event", what);
        }
        let releases: Vec<_> =
            self.release.iter().filter_map(|keys| mistakes.release(keys)).collect();
        mistakes.result(|| {
            Some(Description {
                name: name.to_owned(),
                table: table?,
                key: key?,
                open: open?,
                unless: self.unless.clone(),
                deadline: deadline?,
                zone: self.zone.clone(),
                not_before: self.not_before.clone(),
                since,
                change,
                event: self.event.clone(),
                releases,
            })
        })
    }
}

impl Description {
    /// The keys that decide which rows are overdue, one per line: `open = status = 'pending'`.
    pub fn terms(&self) -> String {
        let Self { table, key, open, unless, deadline, zone, since, .. } = self;
        let key = key.join(", ");
        let lines = [
            ("table", Some(table.sql.as_str())),
            ("key", Some(key.as_str())),
            ("open", Some(open.as_str())),
            ("unless", unless.as_deref()),
            ("deadline", Some(deadline.as_str())),
            ("zone", zone.as_deref()),
        ];
        let since = match since {
            Since::Unsaid => None,
            Since::All => Some("all".to_owned()),
            Since::At(at) => Some(at.to_string()),
        };
        let lines = lines.into_iter().chain([("since", since.as_deref())]);
        let lines = lines.filter_map(|(key, value)| Some(format!("{key} = {}", value?.trim())));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The column and the expression that is added to it, if the deadline is a sum.
    pub fn sum(&self) -> Option<(&str, &str)> {
        let (column, added) = self.deadline.split_once('+')?;
        let column = column.trim();
        is_name(column.strip_prefix("row.").unwrap_or(column)).then_some((column, added.trim()))
    }

    /// The value of `closures.outcome` for a closed row: the last word of the event, or the name of the effect.
    pub fn outcome(&self) -> &str {
        self.event.as_deref().map_or(&self.name, last_word)
    }
}

impl Release {
    /// The columns that the release changes, with their expressions.
    pub fn assignments(&self) -> &[Assignment] {
        match &self.change {
            Change::Set(assignments) | Change::Add(assignments) => assignments,
            Change::Delete => &[],
        }
    }
}

impl TableName {
    /// Parses `purchase`, `shop.purchase` or `"Order"`; only a name with a dot needs quotes.
    ///
    /// # Errors
    /// The name is invalid in PostgreSQL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<String> = split(text, '.')?;
        let [.., short] = &parts[..] else { return Err("it is empty".to_owned()) };
        if parts.len() > 2 {
            return Err(format!("`{text}` has more than one dot: write TABLE or SCHEMA.TABLE"));
        }
        let sql: Vec<String> = parts.iter().map(|part| identifier(part)).collect();
        Ok(Self { sql: sql.join("."), short: identifier(short) })
    }
}

/// Parses columns, separated by commas; the result is without quotes.
fn columns(text: &str) -> Result<Vec<String>, String> {
    split(text, ',')
}

/// Splits names at a separator; a name that contains the separator needs double quotes.
fn split(text: &str, separator: char) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut is_quoted = false;
    for character in text.trim().chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            it if it == separator && !is_quoted => names.push(String::new()),
            it => {
                if let Some(name) = names.last_mut() {
                    name.push(it);
                }
            }
        }
    }
    for name in &mut names {
        *name = name.trim().to_owned();
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return Err(format!(
                "`{}` is not a name: write 1 to {LONGEST_NAME} bytes",
                text.escape_debug()
            ));
        }
    }
    Ok(names)
}

fn last_word(event: &str) -> &str {
    event.rsplit_once('.').map_or(event, |(_, word)| word)
}

struct Mistakes(Vec<Mistake>);

impl Mistakes {
    fn add(&mut self, key: &'static str, what: &str) {
        self.0.push(Mistake { key, what: what.to_owned() });
    }

    fn of<T>(&mut self, key: &'static str, result: Result<T, String>) -> Option<T> {
        result.map_err(|what| self.add(key, &what)).ok()
    }

    fn required(
        &mut self,
        key: &'static str,
        value: Option<&String>,
        example: &str,
    ) -> Option<String> {
        if value.is_none() {
            self.add(key, &format!("it is missing: {key} = \"{example}\""));
        }
        value.cloned()
    }

    /// A fragment is written between parentheses in a statement, and must not close them.
    fn fragment(&mut self, key: &'static str, text: &str) {
        if let Some(what) = unbalanced(text) {
            self.add(key, &what);
        }
    }

    fn assignments(
        &mut self,
        key: &'static str,
        map: &BTreeMap<String, String>,
    ) -> Vec<Assignment> {
        for text in map.values() {
            self.fragment(key, text);
        }
        map.iter().map(|(column, value)| (column.clone(), value.clone())).collect()
    }

    fn release(&mut self, keys: &ReleaseKeys) -> Option<Release> {
        const KEY: &str = "release";
        let ReleaseKeys { table, delete, add, set, from, condition } = keys;
        let (name, change) = match (table, delete, add.is_empty(), set.is_empty()) {
            (Some(table), None, false, true) => (table, Change::Add(self.assignments(KEY, add))),
            (Some(table), None, true, false) => (table, Change::Set(self.assignments(KEY, set))),
            (None, Some(table), true, true) => (table, Change::Delete),
            _ => {
                let what = "a release has a `table` with `add`, a `table` with `set`, or `delete` with the name of a table";
                self.add(KEY, what);
                return None;
            }
        };
        let Some(condition) = condition else {
            self.add(KEY, "it has no `where`, so it would change every row: where = \"line.order_id = row.id\"");
            return None;
        };
        for text in [Some(condition), from.as_ref()].into_iter().flatten() {
            self.fragment(KEY, text);
        }
        let table = self.of(KEY, TableName::parse(name))?;
        Some(Release { table, change, from: from.clone(), condition: condition.clone() })
    }

    fn result(
        self,
        value: impl FnOnce() -> Option<Description>,
    ) -> Result<Option<Description>, Vec<Mistake>> {
        if self.0.is_empty() { Ok(value()) } else { Err(self.0) }
    }
}
