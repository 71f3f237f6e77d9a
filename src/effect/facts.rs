//! The tables that a description names, as the catalog of the database has them.

use serde::Deserialize;

/// Of each table that a description names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The schema of `closures` and `outbox`, as it is written in SQL.
    pub own_schema: String,
    /// The table whose rows become overdue.
    pub table: Relation,
    /// The type of the deadline, as PostgreSQL names it.
    pub deadline_type: String,
    /// Whether the deadline is a column and an interval.
    pub adds_interval: bool,
    /// The table of each release.
    pub releases: Vec<Relation>,
}

/// A table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Relation {
    /// With its schema, as it is written in SQL.
    pub name: String,
    /// `r` for a table, `p` for a partitioned one; others are views, foreign tables and the like.
    pub kind: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The columns of each valid unique index without a condition, of the primary key first.
    pub unique: Vec<Vec<String>>,
    /// Its partitions with their schemas, as they are written in SQL, where it is partitioned.
    pub partitions: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Column {
    /// Without quotes.
    pub name: String,
    /// Its type without a length: `bigint`, `bpchar`, `shop.state`.
    pub kind: String,
    /// Whether it is declared NOT NULL.
    pub is_not_null: bool,
}

impl Relation {
    /// The type of a column.
    pub fn kind_of(&self, column: &str) -> Option<&str> {
        self.columns.iter().find(|it| it.name == column).map(|it| it.kind.as_str())
    }

    /// Whether no two rows have the same values in `columns`.
    pub fn is_unique(&self, columns: &[String]) -> bool {
        self.unique.iter().any(|unique| unique.iter().all(|it| columns.contains(it)))
    }

    /// The columns by which its rows are locked and changed: the primary key, or a unique index without NULL.
    pub fn row_key(&self) -> Option<&[String]> {
        let is_not_null =
            |name: &String| self.columns.iter().any(|it| it.name == *name && it.is_not_null);
        self.unique.iter().find(|unique| unique.iter().all(is_not_null)).map(Vec::as_slice)
    }
}
