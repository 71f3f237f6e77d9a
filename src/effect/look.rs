//! The query for overdue rows, and its index.

use super::deadline::is_name;
use super::{
    description::{Description, Mistake},
    facts::Facts,
    statements::{Writer, part},
};
use crate::text::sql::identifier;

/// Bytes of an index name; the rest of PostgreSQL's limit is for the number of a partition.
const LONGEST_INDEX: usize = 58;

/// The index that the sweep needs, one statement per line.
///
/// # Errors
/// The description does not fit the tables.
pub(crate) fn index(description: &Description, facts: &Facts) -> Result<Vec<String>, Mistake> {
    Ok(Writer::new(description, facts)?.index())
}

impl Writer<'_> {
    pub(super) fn overdue(&self) -> String {
        let Description { name, open, not_before, .. } = self.description;
        let deadline = &self.deadline;
        let key = self.key("row").join(", ");
        let since = self.first_deadline();
        let since =
            since.map_or_else(String::new, |since| format!("\n  AND {deadline} >= {since}"));
        let grace = "now() - $2::bigint::float8 * interval '1 millisecond'";
        let found = not_before
            .as_ref()
            .map_or_else(String::new, |column| format!("\n  AND ({column}) <= {grace}"));
        let index: String =
            self.index().iter().fold(String::new(), |text, line| text + "-- " + line + "\n");
        format!(
            "\
-- {name}, look for overdue rows: rows of {table} that are open after their deadline, the oldest first,
-- page by page.
-- $1 bigint rows at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text the row
-- before the page: '-infinity' and '' at first
-- -> order_id text, due_at timestamptz
{index}SELECT {key_text} AS order_id, {deadline} AS due_at FROM {table} AS row
WHERE ({open}){since}{found}
  AND {deadline} <= {grace}
  AND {after}
ORDER BY {deadline}, {key} LIMIT $1
",
            table = self.table(),
            key_text = self.key_text(),
            after = self.after(),
        )
    }

    /// The condition for rows after the last row of the previous page.
    pub(super) fn after(&self) -> String {
        let (deadline, columns, kinds) = (&self.deadline, self.key("row"), self.key_kinds());
        let value = |index: usize, kind: &str| match columns.len() {
            1 => ("$4".to_owned(), kind.to_owned()),
            _ => (part("$4", index + 1), kind.to_owned()),
        };
        let values: Vec<(String, String)> =
            kinds.iter().enumerate().map(|(index, kind)| value(index, kind)).collect();
        // The first page has no key, so the least value of the type replaces it.
        let all = kinds.iter().zip(&values).map(|(kind, (text, _))| match least(kind)? {
            "" => Some(format!("{text}::{kind}")),
            least => Some(format!("coalesce(nullif({text}, '')::{kind}, '{least}')")),
        });
        let columns = columns.join(", ");
        if let Some(all) = all.collect::<Option<Vec<_>>>() {
            return format!("({deadline}, {columns}) > ($3, {})", all.join(", "));
        }
        let values: Vec<String> =
            values.iter().map(|(text, kind)| format!("nullif({text}, '')::{kind}")).collect();
        format!(
            "{deadline} >= $3 AND ({deadline} > $3 OR $4 = '' OR ({columns}) > ({}))",
            values.join(", ")
        )
    }

    /// Statements that create the index; writers do not wait while it is built.
    pub(super) fn index(&self) -> Vec<String> {
        let Description { name, open, key, not_before, table, .. } = self.description;
        let first = not_before.as_deref().unwrap_or(&self.deadline);
        // In an index the row has no alias.
        let first = first.replace("row.", "");
        let bare =
            not_before.is_none().then(|| first.strip_prefix('(')?.strip_suffix(')')).flatten();
        let first = match bare {
            // Other expressions need parentheses in an index.
            Some(call) if is_call(call) => call.to_owned(),
            None if !is_name(&first) && !is_call(&first) => format!("({first})"),
            _ => first,
        };
        let columns = key.iter().map(|column| identifier(column));
        let columns: Vec<String> = [first].into_iter().chain(columns).collect();
        let on = format!("({}) WHERE {open}", columns.join(", "));
        let mut index = format!("{}_{name}_due", table.short.trim_matches('"'));
        index.truncate(index.floor_char_boundary(LONGEST_INDEX));
        let relation = &self.facts.table;
        if relation.kind != "p" {
            return vec![format!(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} {on};",
                identifier(&index),
                relation.name
            )];
        }
        let parent = identifier(&index);
        let schema = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let mut lines =
            vec![format!("CREATE INDEX IF NOT EXISTS {parent} ON ONLY {} {on};", relation.name)];
        for (number, partition) in (1..).zip(&relation.partitions) {
            let part = identifier(&format!("{index}_{number}"));
            lines.push(format!(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS {part} ON {partition} {on};"
            ));
            lines.push(format!(
                "ALTER INDEX {}.{parent} ATTACH PARTITION {}.{part};",
                schema(&relation.name),
                schema(partition)
            ));
        }
        lines
    }
}

/// Whether an expression is a single function call.
fn is_call(text: &str) -> bool {
    let Some((name, arguments)) = text.split_once('(') else { return false };
    let mut depth = 1_i32;
    let ends = arguments.char_indices().find(|(_, it)| {
        depth += match it {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    is_name(name) && ends.is_some_and(|(at, _)| at + 1 == arguments.len())
}

/// The least value of a type; `''` for text.
fn least(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bigint" => "-9223372036854775808",
        "integer" => "-2147483648",
        "smallint" => "-32768",
        "uuid" => "00000000-0000-0000-0000-000000000000",
        "text" | "character varying" => "",
        _ => return None,
    })
}
