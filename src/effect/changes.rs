//! Changes of rows, from their images before and after an effect.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Limit of rows of one table that are shown individually.
const SHOWN: usize = 3;

/// The rows of a table before and after an effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableImages {
    pub table: String,
    /// Columns that a release changes; empty for the table of the effect, and for deleted rows.
    pub columns: Vec<String>,
    /// Rows by their key: the image before, and the image after; `None` for a deleted row.
    pub rows: BTreeMap<String, (Value, Option<Value>)>,
}

/// Counts of changed rows in another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherChange {
    pub table: String,
    /// Inserted, updated and deleted rows.
    pub rows: [i64; 3],
}

/// A change of a column: the same in every row, or a sum.
#[derive(Clone, Debug, PartialEq)]
enum ColumnChange {
    Same(String, String),
    Sum(f64, usize),
    Various(usize),
}

impl TableImages {
    /// Rows that differ.
    fn changed(&self) -> impl Iterator<Item = (&String, &(Value, Option<Value>))> {
        self.rows.iter().filter(|(_, (before, after))| after.as_ref() != Some(before))
    }

    /// Number of rows that differ.
    pub(crate) fn count(&self) -> usize {
        self.changed().count()
    }

    /// Lines like `4711: state 10 → 90`, for the first rows.
    pub(crate) fn examples(&self) -> Vec<String> {
        let line = |(key, (before, after)): (&String, &(Value, Option<Value>))| match after {
            None => format!("{}: deleted", shown_key(key)),
            Some(after) => {
                let columns = columns(before, after);
                let each =
                    columns.map(|(name, was, is)| format!("{name} {} → {}", shown(was), shown(is)));
                format!("{}: {}", shown_key(key), each.collect::<Vec<_>>().join(", "))
            }
        };
        self.changed().take(SHOWN).map(line).collect()
    }

    /// Lines like `5 rows of shop.purchase: state 10 → 90`, or `article.reserved -10 in 3 rows`.
    pub(crate) fn sums(&self) -> Vec<String> {
        let deleted = self.changed().filter(|(_, (_, after))| after.is_none()).count();
        let mut all: Vec<String> = Vec::new();
        if deleted > 0 {
            all.push(format!("{} of {} deleted", crate::text::counted(deleted, "row"), self.table));
        }
        let changed = self.count() - deleted;
        let mut same = Vec::new();
        for (column, change) in self.columns_changed() {
            match change {
                ColumnChange::Same(was, is) => same.push(format!("{column} {was} → {is}")),
                ColumnChange::Sum(sum, rows) => all.push(format!(
                    "{}.{column} {sum:+} in {}",
                    self.table,
                    crate::text::counted(rows, "row")
                )),
                ColumnChange::Various(_) => same.push(format!("{column} set")),
            }
        }
        if !same.is_empty() {
            let rows = crate::text::counted(changed, "row");
            all.push(format!("{rows} of {}: {}", self.table, same.join(", ")));
        }
        all
    }

    fn columns_changed(&self) -> BTreeMap<&str, ColumnChange> {
        let mut changes: BTreeMap<&str, ColumnChange> = BTreeMap::new();
        for (_, (before, after)) in self.changed() {
            let Some(after) = after else { continue };
            for (name, was, is) in columns(before, after) {
                let is_amount = self.columns.iter().any(|it| it == name);
                let difference = was.as_f64().zip(is.as_f64()).map(|(was, is)| is - was);
                let new = match difference.filter(|_| is_amount) {
                    Some(sum) => ColumnChange::Sum(sum, 1),
                    None => ColumnChange::Same(shown(was), shown(is)),
                };
                let known = changes.remove(name);
                changes.insert(name, known.map_or(new.clone(), |known| known.and(new)));
            }
        }
        changes
    }

    /// Counters of a release that are negative or NULL afterwards.
    pub(crate) fn wrong_counters(&self) -> Vec<String> {
        let mut wrong = BTreeSet::new();
        for (key, (before, after)) in self.changed() {
            let Some(after) = after else { continue };
            for (name, was, is) in columns(before, after) {
                let is_counter = self.columns.iter().any(|it| it == name) && was.is_number();
                if is_counter && (is.is_null() || is.as_f64().is_some_and(|is| is < 0.0)) {
                    wrong.insert(format!(
                        "{}.{name} of {} becomes {}",
                        self.table,
                        shown_key(key),
                        shown(is)
                    ));
                }
            }
        }
        for (key, (before, _)) in &self.rows {
            for name in &self.columns {
                if before.get(name).is_some_and(Value::is_null) && before.get(name).is_some() {
                    wrong.insert(format!(
                        "{}.{name} of {} is NULL, and stays so whatever is added",
                        self.table,
                        shown_key(key)
                    ));
                }
            }
        }
        wrong.into_iter().collect()
    }
}

impl ColumnChange {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Sum(one, rows), Self::Sum(other, more)) => Self::Sum(one + other, rows + more),
            (Self::Same(was, is), Self::Same(other_was, other_is))
                if (&was, &is) == (&other_was, &other_is) =>
            {
                Self::Same(was, is)
            }
            _ => Self::Various(0),
        }
    }
}

/// Columns with different values: name, value before, value after.
fn columns<'a>(
    before: &'a Value,
    after: &'a Value,
) -> impl Iterator<Item = (&'a str, &'a Value, &'a Value)> {
    let empty = before.as_object().into_iter().flat_map(Map::iter);
    empty.filter_map(move |(name, was)| {
        let is = after.get(name)?;
        (was != is).then_some((name.as_str(), was, is))
    })
}

fn shown(value: &Value) -> String {
    const MOST: usize = 40;
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text: String = crate::text::one_line(&text).chars().collect();
    if text.chars().count() > MOST {
        text.chars().take(MOST).chain(['…']).collect()
    } else {
        text
    }
}

/// The text of a key; an array of one value is shown as the value.
fn shown_key(key: &str) -> String {
    match serde_json::from_str::<Value>(key) {
        Ok(Value::Array(parts)) => parts.iter().map(shown).collect::<Vec<_>>().join("/"),
        _ => key.to_owned(),
    }
}
