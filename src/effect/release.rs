//! Parts of a closing statement that release, in another table, what closed rows had reserved.

use super::{
    description::{Assignment, Change, Release},
    facts::Relation,
    statements::Waiting,
};
use crate::text::sql::identifier;

/// A release within a statement.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    /// Number of the release, for the names of its subqueries.
    pub(super) number: usize,
    pub(super) release: &'a Release,
    /// The table of the release.
    pub(super) relation: &'a Relation,
}

/// A release whose `where` compares the key of its table with an expression: that expression is the key of each amount.
struct Direct {
    key: String,
    /// The other conditions of `where`.
    rest: Vec<String>,
}

impl<'a> Part<'a> {
    fn short(self) -> &'a str {
        &self.release.table.short
    }

    /// The columns of the table's key, each with its alias in the subqueries.
    fn key(self) -> Vec<(String, String)> {
        let columns = self.relation.row_key().unwrap_or_default().iter().enumerate();
        columns.map(|(index, it)| (identifier(it), format!("key_{}", index + 1))).collect()
    }

    fn key_names(self) -> String {
        self.key().into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ")
    }

    /// Whether a row must be unchanged since it was read; an amount can be added to any version of the row.
    const fn needs_place(self) -> bool {
        !matches!(self.release.change, Change::Add(_))
    }

    fn amounts(self) -> &'a [Assignment] {
        match &self.release.change {
            Change::Add(amounts) => amounts,
            Change::Set(_) | Change::Delete => &[],
        }
    }

    /// Key and `ctid`, as they are selected from the table.
    fn columns(self) -> Vec<String> {
        let short = self.short();
        let key =
            self.key().into_iter().map(|(column, name)| format!("{short}.{column} AS {name}"));
        key.chain(self.needs_place().then(|| format!("{short}.ctid AS place"))).collect()
    }

    /// `article.article_no = ANY (ARRAY[back.key_1])`, for each column of the key.
    fn is_key_of(self, alias: &str) -> String {
        let short = self.short();
        let equal = self
            .key()
            .into_iter()
            .map(|(column, name)| format!("{short}.{column} = ANY (ARRAY[{alias}.{name}])"));
        equal.collect::<Vec<_>>().join(" AND ")
    }

    /// Whether amounts can be summed without reading the table. The table is then changed in the order of its key.
    pub(super) fn is_direct(self) -> bool {
        self.direct().is_some()
    }

    fn direct(self) -> Option<Direct> {
        let keys = self.key();
        let ([(column, _)], Change::Add(amounts)) = (&keys[..], &self.release.change) else {
            return None;
        };
        let qualified = format!("{}.{column}", self.short());
        let mut key = None;
        let mut rest = Vec::new();
        for condition in conjuncts(&self.release.condition) {
            let sides = condition.split_once('=').map(|(one, other)| (one.trim(), other.trim()));
            match sides {
                Some((one, other)) if one == qualified && is_operand(other) && key.is_none() => {
                    key = Some(other.to_owned());
                }
                Some((one, other)) if other == qualified && is_operand(one) && key.is_none() => {
                    key = Some(one.to_owned());
                }
                _ => rest.push(condition),
            }
        }
        let names_table = |text: &str| text.contains(&format!("{}.", self.short()));
        let others =
            amounts.iter().map(|(_, amount)| amount).chain(&rest).chain(&self.release.from);
        let is_alone = !others.into_iter().any(|text| names_table(text));
        let has_from = self.release.from.is_some();
        key.filter(|_| is_alone && (has_from || rest.is_empty())).map(|key| Direct { key, rest })
    }

    /// The subquery of due rows, each with the rows of the table that it releases.
    pub(super) fn needed(self) -> String {
        let mut columns = self.columns();
        let amounts = (1..).zip(self.amounts());
        columns.extend(amounts.map(|(index, (_, amount))| format!("{amount} AS amount_{index}")));
        let from = self.release.from.as_ref().map_or_else(String::new, |from| format!("{from}, "));
        let (short, table) = (self.short(), &self.relation.name);
        // A subquery with OFFSET 0: otherwise PostgreSQL may compare all pairs of rows if the table was empty.
        let (found, condition) = match (self.direct(), &self.key()[..]) {
            (Some(Direct { key, rest }), [(column, _)]) => (
                format!(
                    "LATERAL (SELECT {short}.{column} FROM {table} WHERE {short}.{column} = {key} OFFSET 0) AS {short}"
                ),
                if rest.is_empty() { "true".to_owned() } else { rest.join(" AND ") },
            ),
            _ => (table.clone(), self.release.condition.clone()),
        };
        self.lateral("due", &columns, &format!("{from}{found}"), &condition)
    }

    fn lateral(self, rows: &str, columns: &[String], from: &str, condition: &str) -> String {
        format!(
            ", needed_{number} AS MATERIALIZED (
    -- OFFSET 0: for one row after the other, by index, also if the tables were empty when this was planned.
    SELECT row.overdue_key, needed.* FROM {rows} AS row CROSS JOIN LATERAL (
        SELECT {columns}
        FROM {from}
        WHERE {condition} OFFSET 0
    ) AS needed
)",
            number = self.number,
            columns = columns.join(", "),
        )
    }

    /// The subquery that locks the rows to release, in the order of their key.
    pub(super) fn held(self, waiting: Waiting) -> String {
        let (short, number) = (self.short(), self.number);
        let key = self.key();
        let (from, condition) = match &key[..] {
            [(column, name)] => (
                String::new(),
                format!(
                    "{short}.{column} = ANY (ARRAY(SELECT DISTINCT {name} FROM needed_{number}))"
                ),
            ),
            _ => (
                format!("(SELECT DISTINCT {} FROM needed_{number}) AS wanted, ", self.key_names()),
                self.is_key_of("wanted"),
            ),
        };
        let order: Vec<String> =
            key.iter().map(|(column, _)| format!("{short}.{column}")).collect();
        let lock = if self.release.change == Change::Delete { "UPDATE" } else { "NO KEY UPDATE" };
        let skip = if waiting == Waiting::Passes { " SKIP LOCKED" } else { "" };
        format!(
            ", held_{number} AS MATERIALIZED (
    SELECT {columns} FROM {from}{table}
    WHERE {condition}
    ORDER BY {order} FOR {lock} OF {short}{skip}
)",
            columns = self.columns().join(", "),
            table = self.relation.name,
            order = order.join(", "),
        )
    }

    /// The due rows for which a row to release is not locked.
    pub(super) fn missing(self) -> String {
        let number = self.number;
        let place = if self.needs_place() { ", place" } else { "" };
        let names = self.key_names() + place;
        format!(
            "SELECT overdue_key FROM needed_{number} WHERE ({names}) NOT IN (SELECT {names} FROM held_{number})"
        )
    }

    /// The change of the table, once per row.
    pub(super) fn released(self) -> String {
        let (number, names) = (self.number, self.key_names());
        let closed = "(overdue_key IN (SELECT overdue_key FROM closed)) IS TRUE";
        let back = match &self.release.change {
            Change::Add(_) => {
                format!(
                    "SELECT {names}, {} FROM needed_{number}\n        WHERE {closed} GROUP BY {names}",
                    self.sums()
                )
            }
            Change::Set(_) | Change::Delete => {
                format!("SELECT DISTINCT {names} FROM needed_{number} WHERE {closed}")
            }
        };
        self.change(&format!("(\n        {back}\n    ) AS back"))
    }

    fn sums(self) -> String {
        // The sum of bigint values is numeric, and PostgreSQL has no operator for both types.
        let sums = (1..).zip(self.amounts()).map(|(index, (column, _))| {
            let kind = self.relation.kind_of(column).unwrap_or("numeric");
            format!("coalesce(sum(amount_{index})::{kind}, '0') AS amount_{index}")
        });
        sums.collect::<Vec<_>>().join(", ")
    }

    fn change(self, back: &str) -> String {
        let (short, table, number) = (self.short(), &self.relation.name, self.number);
        let (change, using) = match &self.release.change {
            Change::Add(amounts) => {
                let set = (1..).zip(amounts).map(|(index, (column, _))| {
                    let column = identifier(column);
                    format!("{column} = {short}.{column} + back.amount_{index}")
                });
                (format!("UPDATE {table} SET {}", set.collect::<Vec<_>>().join(", ")), "FROM")
            }
            Change::Set(values) => (format!("UPDATE {table} SET {}", assigned(values)), "FROM"),
            Change::Delete => (format!("DELETE FROM {table}"), "USING"),
        };
        format!(
            ", released_{number} AS (
    {change}
    {using} {back}
    WHERE {found}
)",
            found = self.is_key_of("back"),
        )
    }

    /// All parts of a direct release: sums per row of the table, which is changed in the order of its key. The statement waits for
    /// rows that another session has locked.
    pub(super) fn summed(self) -> String {
        let Some(Direct { key, rest }) = self.direct() else { return String::new() };
        let number = self.number;
        let mut columns = vec![format!("{key} AS key_1")];
        let amounts = (1..).zip(self.amounts());
        columns.extend(amounts.map(|(index, (_, amount))| format!("{amount} AS amount_{index}")));
        let needed = match &self.release.from {
            Some(from) => {
                let condition =
                    if rest.is_empty() { "true".to_owned() } else { rest.join(" AND ") };
                self.lateral("closed_rows", &columns, from, &condition)
            }
            None => format!(
                ", needed_{number} AS MATERIALIZED (\n    SELECT row.overdue_key, {} FROM closed_rows AS row\n)",
                columns.join(", ")
            ),
        };
        let released = self.change(&format!("back_{number} AS back"));
        format!(
            "{needed}, back_{number} AS MATERIALIZED (
    SELECT key_1, {sums} FROM needed_{number} GROUP BY key_1 ORDER BY key_1
){released}",
            sums = self.sums(),
        )
    }
}

/// Columns with their values, as in `SET`.
pub(super) fn assigned(assignments: &[Assignment]) -> String {
    let each =
        assignments.iter().map(|(column, value)| format!("{} = {value}", identifier(column)));
    each.collect::<Vec<_>>().join(", ")
}

/// Whether the text is a single column without operators.
fn is_operand(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_alphanumeric() || "_.\"".contains(it))
}

/// Splits a condition at each `AND` of the outermost level. A condition with `BETWEEN`, `CASE` or `OR` is not split.
fn conjuncts(condition: &str) -> Vec<String> {
    let upper = condition.to_ascii_uppercase();
    if upper.contains("BETWEEN") || upper.contains("CASE") || upper.contains(" OR ") {
        return vec![condition.to_owned()];
    }
    let (mut depth, mut quote) = (0, None);
    let (mut parts, mut begin) = (Vec::new(), 0);
    for (at, character) in condition.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, 'A' | 'a') if depth == 0 && is_word(&upper, at, "AND") => {
                parts.push(condition[begin..at].trim().to_owned());
                begin = at + 3;
            }
            _ => {}
        }
    }
    parts.push(condition[begin..].trim().to_owned());
    parts
}

fn is_word(text: &str, at: usize, word: &str) -> bool {
    let space = |it: Option<char>| it.is_some_and(char::is_whitespace);
    text[at..].starts_with(word)
        && space(text[..at].chars().next_back())
        && space(text[at + word.len()..].chars().next())
}
