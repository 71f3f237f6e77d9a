//! What `overdue init` is given: names of a table, its columns, its states, and the stock that goes back.

use std::str::FromStr;

use crate::text::sql::identifier;

/// The limit of PostgreSQL (`NAMEDATALEN`), in bytes.
const LONGEST_NAME: usize = 63;

/// The name of a column, as it is written in SQL: quoted if it has to be.
#[derive(Clone, Debug)]
pub(super) struct ColumnName(pub(super) String);

impl FromStr for ColumnName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > LONGEST_NAME {
            return Err(format!(
                "`{text}` cannot be a name in PostgreSQL: write 1 to {LONGEST_NAME} bytes"
            ));
        }
        if let Some(odd) = text.chars().find(|it| it.is_control() || "\"'`".contains(*it)) {
            return Err(format!(
                "`{}` has {odd:?}: write the name without quotes",
                text.escape_debug()
            ));
        }
        Ok(Self(identifier(text)))
    }
}

/// A table, with its schema if one is named.
#[derive(Clone, Debug)]
pub(super) struct TableName {
    /// As it is written in SQL.
    pub(super) sql: String,
    /// Without the schema and without quotes.
    pub(super) name: String,
}

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        let [.., name] = parts[..] else { return Err("it is empty".to_owned()) };
        if parts.len() > 2 {
            return Err(format!("`{text}` has more than one dot: write TABLE or SCHEMA.TABLE"));
        }
        let parts: Vec<ColumnName> = parts.iter().map(|it| it.parse()).collect::<Result<_, _>>()?;
        let sql: Vec<&str> = parts.iter().map(|it| it.0.as_str()).collect();
        Ok(Self { sql: sql.join("."), name: name.to_owned() })
    }
}

/// The primary key, and its type.
#[derive(Clone, Debug)]
pub(super) struct PrimaryKey {
    pub(super) column: ColumnName,
    pub(super) kind: &'static str,
}

impl PrimaryKey {
    /// The least value of its type; none where that is the empty text.
    pub(super) fn least(&self) -> Option<&'static str> {
        match self.kind {
            "bigint" => Some("-9223372036854775808"),
            "integer" => Some("-2147483648"),
            "uuid" => Some("00000000-0000-0000-0000-000000000000"),
            _ => None,
        }
    }
}

impl FromStr for PrimaryKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = ["text", "uuid", "bigint", "integer"];
        let (column, kind) = text.rsplit_once(':').ok_or_else(|| {
            format!("write COLUMN:TYPE, such as {text}:bigint; types: {}", kinds.join(", "))
        })?;
        let kind = kinds.into_iter().find(|known| *known == kind).ok_or_else(|| {
            format!("`{kind}` is not among the types: write {}", kinds.join(", "))
        })?;
        Ok(Self { column: column.parse()?, kind })
    }
}

/// The column of the state, and what an overdue row is before and after.
#[derive(Clone, Debug)]
pub(super) struct StateChange {
    pub(super) column: ColumnName,
    /// A value that waits, as the user writes it.
    pub(super) from: String,
    pub(super) to: String,
}

impl FromStr for StateChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('=')
            .and_then(|(column, states)| Some((column, states.split_once(':')?)));
        let (column, (from, to)) = parts
            .filter(|(_, (from, to))| !from.is_empty() && !to.is_empty())
            .ok_or("write COLUMN=WAITING:CLOSED, such as state=pending:expired")?;
        if from == to {
            return Err(format!("both states are `{from}`: a row has to leave the first one"));
        }
        if text.chars().any(char::is_control) {
            return Err("it has control characters".to_owned());
        }
        Ok(Self { column: column.parse()?, from: from.to_owned(), to: to.to_owned() })
    }
}

/// A value as a literal, which takes the type of its column: text, an enum, a number.
pub(super) fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    // A backslash means nothing in it, whatever `standard_conforming_strings` is.
    if value.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// What a row had taken elsewhere, and gives back.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    pub(super) table: TableName,
    pub(super) column: ColumnName,
    /// Its key.
    pub(super) key: ColumnName,
    /// How much is given back: a column of the row, or of its lines.
    pub(super) amount: ColumnName,
    /// To which row of the stock: a column beside the amount.
    pub(super) reference: ColumnName,
    /// The table of the lines, and its column with the key of the row they belong to.
    pub(super) lines: Option<(TableName, Option<ColumnName>)>,
}

impl FromStr for Stock {
    type Err = String;

    /// `TABLE.COLUMN=AMOUNT by COLUMN[=KEY] [in LINES [on COLUMN]]`
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (place, reference, lines) = match words[..] {
            [place, "by", reference] => (place, reference, None),
            [place, "by", reference, "in", lines] => (place, reference, Some((lines, None))),
            [place, "by", reference, "in", lines, "on", column] => {
                (place, reference, Some((lines, Some(column))))
            }
            _ => return Err(Self::FORM.to_owned()),
        };
        let (place, amount) = place.split_once('=').ok_or(Self::FORM)?;
        let (table, column) = place.rsplit_once('.').ok_or(Self::FORM)?;
        let (reference, key) = reference.split_once('=').unwrap_or((reference, reference));
        let lines = match lines {
            Some((table, column)) => Some((table.parse()?, column.map(str::parse).transpose()?)),
            None => None,
        };
        Ok(Self {
            table: table.parse()?,
            column: column.parse()?,
            key: key.parse()?,
            amount: amount.parse()?,
            reference: reference.parse()?,
            lines,
        })
    }
}

impl Stock {
    const FORM: &str = "write TABLE.COLUMN=AMOUNT by COLUMN, such as events.seats_free=seats by event_id; if the amounts are in \
                        lines: article.on_hand=pieces by article_no in purchase_line";
}
