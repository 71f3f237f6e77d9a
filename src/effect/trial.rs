//! Trial of a described effect on rows that are due or not, in a transaction that is rolled back.

use super::{
    description::{Change, Description, Mistake},
    facts::Facts,
    statements::{Waiting, Writer},
};
use crate::text::sql::identifier;

/// Statements that show the changes by an effect to rows, due or not, in a transaction that is rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Locks the rows; `$1 text[]` keys.
    pub lock: String,
    /// Closes the rows whatever their deadline; parameters as for [`Statements::close`].
    pub close: String,
    /// The table of the effect, followed by the table of each release.
    pub targets: Vec<TrialTarget>,
}

/// Statements that read the rows of a table before and after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrialTarget {
    pub table: String,
    /// Columns to which amounts are added.
    pub columns: Vec<String>,
    /// `$1 text[]` keys of rows of the effect → `key jsonb`, `image jsonb`.
    pub before: String,
    /// `$1 jsonb` an array of these keys → `key jsonb`, `image jsonb`.
    pub after: String,
}

impl Trial {
    /// Writes the statements of a description.
    ///
    /// # Errors
    /// The description does not fit the tables.
    pub(crate) fn of(description: &Description, facts: &Facts) -> Result<Self, Mistake> {
        let mut writer = Writer::new(description, facts)?;
        writer.is_trial = true;
        let images = |keys: &str| {
            let ((from, condition), key) = (writer.rows(keys), writer.key_text());
            format!(
                "SELECT jsonb_build_array({key}) AS key, to_jsonb(row) AS image FROM {from} WHERE {condition}"
            )
        };
        let own = TrialTarget {
            table: writer.table().to_owned(),
            columns: Vec::new(),
            before: images("$1"),
            after: images(
                "ARRAY(SELECT wanted.key ->> 0 FROM jsonb_array_elements($1::jsonb) AS wanted (key))",
            ),
        };
        let (from, condition) = writer.rows("$1");
        let targets = writer.releases.iter().map(|(release, relation)| {
            let short = &release.table.short;
            let columns = relation.row_key().unwrap_or_default();
            let each = columns.iter().map(|it| format!("{short}.{}", identifier(it)));
            let each = each.collect::<Vec<_>>().join(", ");
            let between = release.from.as_ref().map_or_else(String::new, |it| format!("{it}, "));
            let equal = columns.iter().enumerate().map(|(index, it)| {
                let kind = relation.kind_of(it).unwrap_or("text");
                format!("{short}.{} = ANY (ARRAY[(wanted.key ->> {index})::{kind}])", identifier(it))
            });
            let table = &relation.name;
            TrialTarget {
                table: table.clone(),
                columns: match &release.change {
                    Change::Add(amounts) => amounts.iter().map(|(column, _)| column.clone()).collect(),
                    Change::Set(_) | Change::Delete => Vec::new(),
                },
                before: format!(
                    "SELECT DISTINCT found.* FROM (SELECT row.* FROM {from} WHERE {condition}) AS row CROSS JOIN LATERAL (\
                     SELECT jsonb_build_array({each}) AS key, to_jsonb({short}) AS image FROM {between}{table} WHERE {} OFFSET 0) AS found",
                    release.condition
                ),
                after: format!(
                    "SELECT wanted.key, to_jsonb({short}) AS image FROM jsonb_array_elements($1::jsonb) AS wanted (key), {table} WHERE {}",
                    equal.collect::<Vec<_>>().join(" AND ")
                ),
            }
        });
        Ok(Self {
            targets: [own].into_iter().chain(targets).collect(),
            lock: writer.lock(),
            close: writer.close(Waiting::Waits),
        })
    }
}
