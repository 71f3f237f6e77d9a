//! The SQL of an effect, and the shape it has to have.

use serde_json::Value;
use tokio_postgres::{SimpleQueryMessage, Statement, types::Type};

use super::{Store, StoreError, pool::Connection, shape};
use crate::doctor::effect_plan::EffectPlan;

const CLOSE: &str = include_str!("../../sql/close.sql");
const CLOSE_CONTENDED: &str = include_str!("../../sql/close_contended.sql");
const CANCEL: &str = include_str!("../../sql/cancel.sql");
const CANCEL_CONTENDED: &str = include_str!("../../sql/cancel_contended.sql");

/// The SQL of a timeout's effect: one statement, so it is its own transaction.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Its name in `topology.toml`.
    pub name: String,
    /// `$1 text[]` ids, `$2 text` path → `order_id`, `outcome`, `due_at`, `decided_at`.
    pub sql: String,
    /// Where that is written, for messages.
    pub sql_file: String,
    /// `$1 bigint` limit, `$2 bigint` grace in ms, `$3 timestamptz` and `$4 text` the order before → `order_id`,
    /// `due_at`; without it nothing is swept.
    pub overdue_sql: Option<String>,
    /// Where that is written, for messages.
    pub overdue_file: String,
}

impl Effect {
    /// The same effect in a statement that waits for no lock, where there is one.
    pub(crate) fn contended_sql(&self) -> Option<&'static str> {
        match self.sql.as_str() {
            CLOSE => Some(CLOSE_CONTENDED),
            CANCEL => Some(CANCEL_CONTENDED),
            _ => None,
        }
    }

    /// The effect on the reference schema that is called so, if one is.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        [Self::close, Self::cancel, Self::complete]
            .into_iter()
            .map(|effect| effect())
            .find(|effect| effect.name == name)
    }

    /// Whether its SQL is part of the program.
    pub(crate) fn is_built_in(&self) -> bool {
        Self::built_in(&self.name).is_some_and(|built_in| built_in.sql == self.sql)
    }

    /// The built-in effect on the reference schema: `sql/close.sql`.
    #[must_use]
    pub fn close() -> Self {
        Self {
            name: "close".to_owned(),
            sql: CLOSE.to_owned(),
            sql_file: "built in, sql/close.sql".to_owned(),
            overdue_sql: Some(include_str!("../../sql/overdue_ids.sql").to_owned()),
            overdue_file: "built in, sql/overdue_ids.sql".to_owned(),
        }
    }

    /// The built-in effect on paid orders that were not shipped: `sql/cancel.sql`.
    #[must_use]
    pub fn cancel() -> Self {
        Self {
            name: "cancel".to_owned(),
            sql: CANCEL.to_owned(),
            sql_file: "built in, sql/cancel.sql".to_owned(),
            overdue_sql: Some(include_str!("../../sql/cancel_overdue_ids.sql").to_owned()),
            overdue_file: "built in, sql/cancel_overdue_ids.sql".to_owned(),
        }
    }

    /// The built-in effect on shipped orders that were not confirmed: `sql/complete.sql`.
    #[must_use]
    pub fn complete() -> Self {
        Self {
            name: "complete".to_owned(),
            sql: include_str!("../../sql/complete.sql").to_owned(),
            sql_file: "built in, sql/complete.sql".to_owned(),
            overdue_sql: Some(include_str!("../../sql/complete_overdue_ids.sql").to_owned()),
            overdue_file: "built in, sql/complete_overdue_ids.sql".to_owned(),
        }
    }
}

/// What made an order due: the value of `closures.path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingPath {
    /// A message came.
    Message,
    /// Many were due at once: it was closed ahead of its message.
    Burst,
    /// The sweep found it: no message came.
    Sweep,
}

impl ClosingPath {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Burst => "burst",
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

pub(super) fn check_shape(effect: &Effect, statement: &Statement) -> Result<(), StoreError> {
    let misfit = |wrong| StoreError::misfit(&effect.name, &effect.sql_file, wrong);
    if let Some(wrong) = shape::wrong_parameter(statement.params(), &PARAMETERS) {
        return Err(misfit(wrong));
    }
    let columns: Vec<_> =
        statement.columns().iter().map(|column| (column.name(), column.type_())).collect();
    if let Some(wrong) = shape::wrong_column(&columns, &COLUMNS) {
        return Err(misfit(wrong));
    }
    Ok(())
}

/// How errors call it.
const NAME: &str = "effect_plan";

impl Store {
    /// Checks the effect against the contract, and reads the plan that PostgreSQL makes of it for any orders.
    ///
    /// # Errors
    /// As [`Store::check_effect`].
    pub(crate) async fn effect_plan(&self, effect: &Effect) -> Result<EffectPlan, StoreError> {
        self.check_effect(effect).await?;
        let file = &effect.sql_file;
        let plan = self.generic_plan(effect, file, &effect.sql, "('{}', 'message')").await?;
        let mut plan = EffectPlan::read(&plan);
        for scan in &mut plan.scans {
            scan.rows = self.rows_of(&scan.table).await?;
        }
        Ok(plan)
    }

    /// The plan of a statement of an effect for any parameters, with scans forbidden where there is another way: on a small
    /// table PostgreSQL scans although there is an index.
    pub(super) async fn generic_plan(
        &self,
        effect: &Effect,
        file: &str,
        sql: &str,
        arguments: &str,
    ) -> Result<Value, StoreError> {
        let plan = self.planned(sql, arguments).await;
        let plan = plan.map_err(|error| error.in_effect(&effect.name, file, sql))?;
        serde_json::from_str(&plan).map_err(|error| StoreError::Effect {
            effect: effect.name.clone(),
            file: file.to_owned(),
            reason: format!("its plan cannot be read: {error}"),
        })
    }

    async fn planned(&self, sql: &str, arguments: &str) -> Result<String, StoreError> {
        // Taken out of the pool: what is prepared here outlives even a roll-back.
        let mut client = Connection::take(self.client().await?);
        let transaction = self.named(NAME, client.transaction().await)?;
        let prepare = format!(
            "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan;\nPREPARE effect_plan AS {}",
            sql.trim().trim_end_matches(';')
        );
        self.named(NAME, transaction.batch_execute(&prepare).await)?;
        let explain = format!("EXPLAIN (FORMAT json) EXECUTE effect_plan {arguments}");
        let answer = self.named(NAME, transaction.simple_query(&explain).await)?;
        self.named(NAME, transaction.rollback().await)?;
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// By the latest statistics; none where the table was never analysed.
    async fn rows_of(&self, table: &str) -> Result<Option<i64>, StoreError> {
        const SQL: &str = include_str!("../../sql/table_rows.sql");
        let rows = self.rows(NAME, SQL, &[&table]).await?;
        Ok(rows.first().map(|row| row.get::<_, i64>(0)).filter(|rows| *rows >= 0))
    }
}
