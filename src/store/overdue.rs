//! What the sweeps ask: overdue orders, page by page.

use std::{fmt, str::FromStr, time::Duration};

use tokio_postgres::{Column, Row, Statement, types::Type};

use super::{
    Store, StoreError,
    database_time::DatabaseTime,
    effect::Effect,
    pool::{For, Question},
    row::{cell, excerpt},
    shape::{self, Misfit},
};
use crate::order::OrderId;

/// `$3` and `$4` say after which order a page begins.
const PARAMETERS: [Type; 4] = [Type::INT8, Type::INT8, Type::TIMESTAMPTZ, Type::TEXT];
const COLUMNS: [(&str, Type); 2] = [("order_id", Type::TEXT), ("due_at", Type::TIMESTAMPTZ)];

/// The place of an order among those that are overdue: by deadline, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OverdueKey {
    due_at: DatabaseTime,
    order_id: String,
}

impl OverdueKey {
    /// Before all orders.
    pub(crate) const fn first() -> Self {
        Self { due_at: DatabaseTime::FIRST, order_id: String::new() }
    }

    /// Before all orders that are due then.
    pub(crate) const fn at(due_at: DatabaseTime) -> Self {
        Self { due_at, order_id: String::new() }
    }

    /// `$3` and `$4`.
    pub(super) const fn parts(&self) -> (&DatabaseTime, &String) {
        (&self.due_at, &self.order_id)
    }

    /// How long an order with this key has been overdue at `now`.
    pub(crate) fn overdue_at(&self, now: DatabaseTime) -> Duration {
        self.due_at.until(now)
    }
}

/// `2026-11-22T10:00:00Z/4711`.
impl fmt::Display for OverdueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.due_at, self.order_id)
    }
}

impl FromStr for OverdueKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (due_at, order_id) = text.split_once('/').ok_or("it has no `/` before the order")?;
        let due_at = due_at.parse().map_err(|error: jiff::Error| error.to_string())?;
        Ok(Self { due_at, order_id: order_id.to_owned() })
    }
}

/// What `overdue_sql` found.
#[derive(Debug)]
pub(crate) struct OverduePage {
    /// Orders that can be asked for.
    pub(crate) ids: Vec<OrderId>,
    /// Rows whose id is none that a message could carry, and why.
    pub(crate) refused: Vec<String>,
    /// Rows in all.
    pub(crate) rows: usize,
    /// Where the next page begins.
    pub(crate) next: OverdueKey,
}

impl Store {
    /// Orders past their deadline by more than `grace`, oldest first, at most `limit`; none without `overdue_sql`.
    ///
    /// # Errors
    /// The statement failed, or its rows say not where the next page begins.
    pub(crate) async fn overdue_page(
        &self,
        effect: &Effect,
        after: &OverdueKey,
        limit: i64,
        grace: Duration,
    ) -> Result<Option<OverduePage>, StoreError> {
        let Some(sql) = &effect.overdue_sql else { return Ok(None) };
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let (rows, next) = self.overdue_rows(effect, sql, after, limit, grace_ms).await?;
        Ok(Some(page(&rows, next)))
    }

    /// Rows of `overdue_sql`, and where the next page begins; a grace below zero is one before the deadline.
    pub(super) async fn overdue_rows(
        &self,
        effect: &Effect,
        sql: &str,
        after: &OverdueKey,
        limit: i64,
        grace_ms: i64,
    ) -> Result<(Vec<Row>, OverdueKey), StoreError> {
        let (due_at, order_id) = after.parts();
        let question = Question {
            name: "overdue_ids",
            sql,
            parameters: &[&limit, &grace_ms, due_at, order_id],
            check: &|statement| check_shape(effect, statement),
        };
        let rows = self.ask(For::Anything, question).await;
        let rows =
            rows.map_err(|error| error.in_effect(&effect.name, &effect.overdue_file, sql))?;
        let next = next(effect, after, &rows)?;
        Ok((rows, next))
    }

    pub(super) async fn explain_overdue(&self, sql: &str) -> Result<(), StoreError> {
        let OverdueKey { due_at, order_id } = OverdueKey::first();
        self.explain("overdue_ids", sql, &[&0_i64, &0_i64, &due_at, &order_id]).await
    }
}

fn page(rows: &[Row], next: OverdueKey) -> OverduePage {
    let mut page = OverduePage { ids: Vec::new(), refused: Vec::new(), rows: rows.len(), next };
    for row in rows {
        match order_id(row) {
            Ok(id) => page.ids.push(id),
            Err(reason) => page.refused.push(reason),
        }
    }
    page
}

/// The order of a row; why it is none that a message could carry.
pub(super) fn order_id(row: &Row) -> Result<OrderId, String> {
    let id: &str = cell(row, 0)?;
    OrderId::parse(id).map_err(|error| format!("{error}: `{}`", excerpt(id)))
}

/// The last row that can be a key. A page that ends where it began would come again for ever.
fn next(effect: &Effect, after: &OverdueKey, rows: &[Row]) -> Result<OverdueKey, StoreError> {
    let Some(key) = rows.iter().rev().find_map(key) else { return Ok(after.clone()) };
    if key == *after || key.due_at < after.due_at {
        let reason = "it gives orders that are not after $3 and $4".to_owned();
        return Err(misfit(effect, reason));
    }
    Ok(key)
}

fn key(row: &Row) -> Option<OverdueKey> {
    let order_id = cell::<&str>(row, 0).ok()?.to_owned();
    Some(OverdueKey { due_at: cell(row, 1).ok()?, order_id })
}

pub(super) fn check_shape(effect: &Effect, statement: &Statement) -> Result<(), StoreError> {
    let columns = statement.columns();
    if statement.params() == PARAMETERS
        && columns.iter().map(Column::type_).eq(COLUMNS.iter().map(|it| &it.1))
    {
        return Ok(());
    }
    let given: Vec<_> = columns.iter().map(|column| (column.name(), column.type_())).collect();
    let Misfit { found, write } = wrong_parameter(statement.params())
        .or_else(|| shape::wrong_column(&given, &COLUMNS))
        .unwrap_or_else(|| "it gives more than the columns order_id and due_at".to_owned().into());
    let agreed = "overdue_sql takes $1 bigint, $2 bigint, $3 timestamptz, $4 text and gives order_id text, due_at \
                  timestamptz";
    let write = write.unwrap_or_else(|| "write what is agreed".to_owned());
    Err(misfit(effect, Misfit { found, write: Some(format!("{write} ({agreed})")) }))
}

fn wrong_parameter(found: &[Type]) -> Option<Misfit> {
    if found == &PARAMETERS[..2] {
        let found = "it takes no place to begin at ($3 and $4)".to_owned();
        let write = "write `AND (due_at, id) > ($3, $4) ORDER BY due_at, id LIMIT $1`".to_owned();
        return Some(Misfit { found, write: Some(write) });
    }
    match found.get(3) {
        // Before the first page it is empty, which no number is.
        Some(kind) if *kind != Type::TEXT && found[..3] == PARAMETERS[..3] => {
            let kind = shape::sql_name(kind);
            let write = Some(format!("write nullif($4, '')::{kind}"));
            Some(Misfit { found: format!("$4 is {kind}"), write })
        }
        _ => shape::wrong_parameter(found, &PARAMETERS),
    }
}

pub(super) fn misfit(effect: &Effect, wrong: impl Into<Misfit>) -> StoreError {
    StoreError::misfit(&effect.name, &effect.overdue_file, wrong.into())
}
