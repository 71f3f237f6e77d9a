//! The tables of a description, from the catalog of the database.

use serde::Deserialize;

/// Facts about the tables of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The schema of `closures` and `outbox`, in SQL.
    pub own_schema: String,
    /// The table whose rows become overdue.
    pub table: Relation,
    /// PostgreSQL's name of the deadline's type.
    pub deadline_type: String,
    /// Whether the deadline is a sum of a column and an interval.
    pub adds_interval: bool,
    /// The table of each release, in the same order.
    pub releases: Vec<Relation>,
}

/// A table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Relation {
    /// The name in SQL, with the schema.
    pub name: String,
    /// `r` for a table, `p` for a partitioned table; others are views, foreign tables and the like.
    pub kind: String,
    /// The columns of the table.
    pub columns: Vec<Column>,
    /// Columns of each valid unique index without a condition; the primary key comes first.
    pub unique: Vec<Vec<String>>,
    /// The partitions in SQL with their schemas; empty if the table is not partitioned.
    pub partitions: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Column {
    /// The name without quotes.
    pub name: String,
    /// The type without a length: `bigint`, `bpchar`, `shop.state`.
    pub kind: String,
    /// Whether the column is declared NOT NULL.
    pub is_not_null: bool,
}

impl Relation {
    /// The type of a column.
    pub fn kind_of(&self, column: &str) -> Option<&str> {
        self.columns.iter().find(|it| it.name == column).map(|it| it.kind.as_str())
    }

    /// Whether `columns` identify a row.
    pub fn is_unique(&self, columns: &[String]) -> bool {
        self.unique.iter().any(|unique| unique.iter().all(|it| columns.contains(it)))
    }

    /// The columns by which rows are locked and changed: the primary key, or a unique index without NULL.
    pub fn row_key(&self) -> Option<&[String]> {
        let is_not_null =
            |name: &String| self.columns.iter().any(|it| it.name == *name && it.is_not_null);
        self.unique.iter().find(|unique| unique.iter().all(is_not_null)).map(Vec::as_slice)
    }
}
