//! Closing orders: the effect's SQL, run on a batch of order ids in one transaction.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use tokio_postgres::{Column, Row, Statement, types::Type};

use super::{Store, StoreError};
use crate::order::{OrderId, Outcome};

/// The SQL of a timeout's effect: one statement, so it is its own transaction.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Its name in `topology.toml`.
    pub name: String,
    /// `$1 text[]` ids, `$2 text` path → `order_id`, `outcome`, `due_at`, `decided_at`.
    pub sql: String,
    /// `$1 bigint` limit, `$2 bigint` grace in ms → `order_id`; without it nothing is swept.
    pub overdue_sql: Option<String>,
}

impl Effect {
    /// The built-in effect on the reference schema: `sql/close.sql`.
    #[must_use]
    pub fn close() -> Self {
        Self {
            name: "close".to_owned(),
            sql: include_str!("../../sql/close.sql").to_owned(),
            overdue_sql: Some(include_str!("../../sql/overdue_ids.sql").to_owned()),
        }
    }
}

/// What made an order due: the value of `closures.path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingPath {
    /// A message came.
    Message,
    /// The sweep found it.
    Sweep,
}

impl ClosingPath {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Sweep => "sweep",
        }
    }
}

const PARAMETERS: [Type; 2] = [Type::TEXT_ARRAY, Type::TEXT];
const COLUMNS: [(&str, Type); 4] = [
    ("order_id", Type::TEXT),
    ("outcome", Type::TEXT),
    ("due_at", Type::TIMESTAMPTZ),
    ("decided_at", Type::TIMESTAMPTZ),
];

impl Store {
    /// Compares the parameters and columns of the effect's SQL with the contract, and plans it, which shows
    /// missing permissions; changes nothing.
    ///
    /// # Errors
    /// A table, a column or a permission is missing, or the SQL takes or gives something else.
    pub async fn check_effect(&self, effect: &Effect) -> Result<(), StoreError> {
        self.check_shape(effect).await?;
        let none: &[&str] = &[];
        self.explain("effect", &effect.sql, &[&none, &ClosingPath::Message.as_str()]).await?;
        match &effect.overdue_sql {
            Some(sql) => self.explain("overdue_ids", sql, &[&0_i64, &0_i64]).await,
            None => Ok(()),
        }
    }

    async fn check_shape(&self, effect: &Effect) -> Result<(), StoreError> {
        let client = self.client().await?;
        let misfit = |reason| StoreError::Effect { effect: effect.name.clone(), reason };
        let statement = self.named("effect", client.prepare_cached(&effect.sql).await)?;
        effect_shape(&statement).map_err(misfit)?;
        if let Some(sql) = &effect.overdue_sql {
            let statement = self.named("overdue_ids", client.prepare_cached(sql).await)?;
            overdue_shape(&statement).map_err(misfit)?;
        }
        Ok(())
    }

    /// Runs the effect on `ids` and says what became of each, in the same order.
    ///
    /// One transaction: when this returns it is committed, and when it fails nothing has happened. An id that
    /// comes twice is closed once. Ids without a row in the result are [`Outcome::Unknown`].
    ///
    /// # Errors
    /// The statement failed; [`StoreError::kind`] says what to do.
    pub async fn run_effect(
        &self,
        effect: &Effect,
        ids: &[OrderId],
        path: ClosingPath,
    ) -> Result<Vec<Outcome>, StoreError> {
        let client = self.client().await?;
        let statement = self.named("effect", client.prepare_cached(&effect.sql).await)?;
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let rows =
            self.named("effect", client.query(&statement, &[&texts, &path.as_str()]).await)?;
        let mut outcomes = HashMap::with_capacity(rows.len());
        for row in &rows {
            let (id, outcome) = outcome(effect, row)?;
            outcomes.insert(id, outcome);
        }
        Ok(texts.iter().map(|id| take(&mut outcomes, id)).collect())
    }

    /// Orders past their deadline by more than `grace`, oldest first, at most `limit`; none without `overdue_sql`.
    ///
    /// # Errors
    /// The statement failed.
    pub async fn overdue_ids(
        &self,
        effect: &Effect,
        limit: i64,
        grace: Duration,
    ) -> Result<Vec<OrderId>, StoreError> {
        let Some(sql) = &effect.overdue_sql else { return Ok(Vec::new()) };
        let client = self.client().await?;
        let statement = self.named("overdue_ids", client.prepare_cached(sql).await)?;
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let rows = client.query(&statement, &[&limit, &grace_ms]).await;
        let rows = self.named("overdue_ids", rows)?;
        // An id that no message could carry is none of ours.
        Ok(rows.iter().filter_map(|row| OrderId::parse(row.get(0)).ok()).collect())
    }
}

fn effect_shape(statement: &Statement) -> Result<(), String> {
    if statement.params() != PARAMETERS {
        return Err(format!("it takes {:?}, not $1 text[] and $2 text", statement.params()));
    }
    for (index, (name, kind)) in COLUMNS.iter().enumerate() {
        let number = index + 1;
        match statement.columns().get(index) {
            Some(column) if column.name() == *name && column.type_() == kind => {}
            Some(column) => {
                let found = format!("{} {}", column.name(), column.type_());
                return Err(format!("column {number} is `{found}`, not `{name} {kind}`"));
            }
            None => return Err(format!("column {number}, `{name} {kind}`, is missing")),
        }
    }
    Ok(())
}

fn overdue_shape(statement: &Statement) -> Result<(), String> {
    let columns: Vec<&Type> = statement.columns().iter().map(Column::type_).collect();
    if statement.params() == [Type::INT8, Type::INT8] && columns == [&Type::TEXT] {
        return Ok(());
    }
    Err("overdue_sql has to take $1 bigint, $2 bigint and give order_id text".to_owned())
}

fn outcome(effect: &Effect, row: &Row) -> Result<(String, Outcome), StoreError> {
    let misfit = |reason: String| StoreError::Effect { effect: effect.name.clone(), reason };
    let cell = |error: tokio_postgres::Error| misfit(crate::text::error_chain(&error));
    let id: String = row.try_get(0).map_err(cell)?;
    let name: &str = row.try_get(1).map_err(cell)?;
    let due_at: Timestamp = row.try_get(2).map_err(cell)?;
    let decided_at: Timestamp = row.try_get(3).map_err(cell)?;
    let outcome = match name {
        "closed" => Outcome::Closed { late: between(due_at, decided_at) },
        "already_final" => Outcome::AlreadyFinal,
        "not_due" => Outcome::NotDue { remaining: between(decided_at, due_at) },
        other => {
            return Err(misfit(format!(
                "`{other}` is not a valid outcome: write closed, already_final or not_due"
            )));
        }
    };
    Ok((id, outcome))
}

/// The same order twice in a batch was closed by the first of the two.
fn take(outcomes: &mut HashMap<String, Outcome>, id: &str) -> Outcome {
    match outcomes.get_mut(id) {
        None => Outcome::Unknown,
        Some(outcome @ Outcome::Closed { .. }) => std::mem::replace(outcome, Outcome::AlreadyFinal),
        Some(outcome) => outcome.clone(),
    }
}

/// Zero where `to` is before `from`.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
