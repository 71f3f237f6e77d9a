//! Cells of rows that are not ours: each can be NULL or something else than agreed.

use tokio_postgres::{Row, types::FromSql};

/// Characters of a text from the database that a reason repeats.
const EXCERPT: usize = 60;

/// What was wrong with a cell, as the object of "gave".
pub(super) fn cell<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, String> {
    let name = row.columns().get(index).map_or("?", tokio_postgres::Column::name);
    match row.try_get::<_, Option<T>>(index) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("NULL as `{name}`")),
        Err(error) => Err(format!(
            "a value as `{name}` that cannot be read ({})",
            crate::text::error_chain(&error)
        )),
    }
}

/// The beginning of a text from the database, for a message.
pub(super) fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT).is_some() {
        excerpt.push('…');
    }
    excerpt
}
