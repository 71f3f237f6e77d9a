//! The query whether rows are still open.

use super::{
    description::{Change, Description, Mistake},
    facts::Facts,
    statements::Writer,
};
use crate::text::sql::identifier;

/// The statement that reads the state of rows, for `effect watch`, which observes what closes them today.
///
/// # Errors
/// The description does not fit the tables.
pub(crate) fn watched(description: &Description, facts: &Facts) -> Result<String, Mistake> {
    Ok(Writer::new(description, facts)?.watched())
}

impl Writer<'_> {
    pub(super) fn watched(&self) -> String {
        let Description { name, open, unless, .. } = self.description;
        let (from, condition) = self.rows("$1");
        let kept =
            unless.as_ref().map_or_else(|| "false".to_owned(), |it| format!("({it}) IS TRUE"));
        format!(
            "\
-- {name}, what has become of rows of {table}; changes nothing.
-- $1 text[] keys
-- -> key text, is_open boolean, due_at timestamptz, is_kept boolean: by `unless`, is_closed boolean: whether
--    the row has the state that the effect sets; NULL where that is no constant
SELECT {key} AS key, ({open}) IS TRUE AS is_open, {deadline} AS due_at, {kept} AS is_kept,
       {closed} AS is_closed
FROM {from} WHERE {condition}
",
            table = self.table(),
            key = self.key_text(),
            deadline = self.deadline,
            closed = self.closed_state(),
        )
    }

    /// SQL whether a row has the state that the effect sets. It compares the constants in `set` for columns that the condition
    /// `open` names.
    pub(super) fn closed_state(&self) -> String {
        let Description { open, change, .. } = self.description;
        let Change::Set(assignments) = change else { return "NULL::boolean".to_owned() };
        let words = open.split(|it: char| !it.is_alphanumeric() && it != '_');
        let is_named = |column: &str| words.clone().any(|word| word == column);
        let states =
            assignments.iter().filter(|(column, value)| is_named(column) && is_constant(value));
        let states: Vec<String> = states
            .map(|(column, value)| {
                format!("row.{} IS NOT DISTINCT FROM ({value})", identifier(column))
            })
            .collect();
        if states.is_empty() {
            "NULL::boolean".to_owned()
        } else {
            format!("({})", states.join(" AND "))
        }
    }
}

/// Whether a value is a number, a truth value, or a text, with or without a type.
fn is_constant(value: &str) -> bool {
    let value = value.trim();
    if let Some(text) = value.strip_prefix('\'') {
        let Some((text, kind)) = text.split_once('\'') else { return false };
        let kind = kind.strip_prefix("::").unwrap_or(kind);
        let is_type = |it: char| it.is_alphanumeric() || "_.\"[]".contains(it);
        return !text.contains('\\') && kind.chars().all(is_type);
    }
    let is_number = !value.is_empty() && value.chars().all(|it| it.is_ascii_digit());
    is_number || ["true", "false"].contains(&value.to_ascii_lowercase().as_str())
}
