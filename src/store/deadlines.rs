//! When orders are due: asked before their time, and without locks.

use std::collections::HashMap;

use tokio_postgres::{Row, Statement, types::Type};

use super::{Store, StoreError, database_time::DatabaseTime, effect::Effect};
use crate::order::{OrderId, Spelled};

const PARAMETERS: [Type; 1] = [Type::TEXT_ARRAY];
const COLUMNS: [Type; 2] = [Type::TEXT, Type::TIMESTAMPTZ];

/// What `due_sql` says of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// It is open until then.
    At(DatabaseTime),
    /// Nothing is left to be done with it.
    Final,
    /// It said nothing: the effect says more.
    Unknown,
}

impl Store {
    /// The deadline of each of `ids`, in the same order; none where the effect has no `due_sql`.
    ///
    /// # Errors
    /// The statement failed, or has another shape than agreed.
    pub(crate) async fn deadlines(
        &self,
        effect: &Effect,
        ids: &[OrderId],
    ) -> Result<Option<Vec<Deadline>>, StoreError> {
        let Some(sql) = &effect.due_sql else { return Ok(None) };
        let asking = async {
            let client = self.cancellable().await?;
            let statement = self.named("due", client.prepare_cached(sql).await)?;
            check_shape(effect, &statement)?;
            let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
            let rows = self.named("due", client.query(&statement, &[&texts]).await)?;
            client.done();
            Ok(rows)
        };
        let rows = self.attended(Box::pin(asking)).await;
        let rows = rows.map_err(|error| error.in_effect(&effect.name, &effect.due_file, sql))?;
        let found: HashMap<&str, Deadline> = rows.iter().filter_map(deadline).collect();
        let mut spelled = None;
        let of = |id: &OrderId| {
            let deadline = found.get(id.as_str()).or_else(|| {
                let spelled =
                    spelled.get_or_insert_with(|| Spelled::new(ids, found.keys().copied()));
                found.get(spelled.of(id)?)
            });
            deadline.copied().unwrap_or(Deadline::Unknown)
        };
        Ok(Some(ids.iter().map(of).collect()))
    }

    pub(super) async fn explain_due(&self, sql: &str) -> Result<(), StoreError> {
        let none: &[&str] = &[];
        self.explain("due", sql, &[&none]).await
    }
}

/// A row that is not as agreed says nothing.
fn deadline(row: &Row) -> Option<(&str, Deadline)> {
    let due_at: Option<DatabaseTime> = row.try_get(1).ok()?;
    Some((row.try_get(0).ok()?, due_at.map_or(Deadline::Final, Deadline::At)))
}

pub(super) fn check_shape(effect: &Effect, statement: &Statement) -> Result<(), StoreError> {
    let columns = statement.columns().iter().map(tokio_postgres::Column::type_);
    if statement.params() == PARAMETERS && columns.eq(&COLUMNS) {
        return Ok(());
    }
    let reason = "due_sql has to take $1 text[] and give order_id text, due_at timestamptz";
    let (effect, file) = (effect.name.clone(), effect.due_file.clone());
    Err(StoreError::Effect { effect, file, reason: reason.to_owned() })
}
