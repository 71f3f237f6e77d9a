//! The plan of an effect for any orders, from the live schema.

use tokio_postgres::SimpleQueryMessage;

use super::{Store, StoreError, effect::Effect, session::Connection};
use crate::doctor::effect_plan::EffectPlan;

/// How errors call it.
const NAME: &str = "effect_plan";

impl Store {
    /// Checks the effect against the contract, and reads the plan that PostgreSQL makes of it for any orders.
    ///
    /// # Errors
    /// As [`Store::check_effect`].
    pub(crate) async fn effect_plan(&self, effect: &Effect) -> Result<EffectPlan, StoreError> {
        self.check_effect(effect).await?;
        let plan = self.generic_plan(&effect.sql, "('{}', 'message')").await;
        let plan =
            plan.map_err(|error| error.in_effect(&effect.name, &effect.sql_file, &effect.sql))?;
        let plan = serde_json::from_str(&plan).map_err(|error| StoreError::Effect {
            effect: effect.name.clone(),
            file: effect.sql_file.clone(),
            reason: format!("its plan cannot be read: {error}"),
        })?;
        let mut plan = EffectPlan::read(&plan);
        for scan in &mut plan.scans {
            scan.rows = self.rows_of(&scan.table).await?;
        }
        Ok(plan)
    }

    /// The plan for any parameters, with scans forbidden where there is another way: on a small table PostgreSQL scans
    /// although there is an index.
    async fn generic_plan(&self, sql: &str, arguments: &str) -> Result<String, StoreError> {
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
        let client = self.client().await?;
        let row = self.named(NAME, client.query_opt(SQL, &[&table]).await)?;
        Ok(row.map(|row| row.get::<_, i64>(0)).filter(|rows| *rows >= 0))
    }
}
