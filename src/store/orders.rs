//! Closing orders: the effect's SQL, run on a batch of order ids in one transaction.

pub(crate) mod answer;

use tokio_postgres::{Row, Statement};

pub use super::effect::{ClosingPath, Effect};
use super::{Store, StoreError, effect, overdue, run_statement::Patience, session::Connection};
use crate::order::{OrderId, Outcome};

impl Store {
    /// Compares the parameters and columns of the effect's SQL with the contract, and plans it, which shows
    /// missing permissions; changes nothing.
    ///
    /// # Errors
    /// A table, a column or a permission is missing, or the SQL takes or gives something else.
    pub async fn check_effect(&self, effect: &Effect) -> Result<(), StoreError> {
        let Effect { name, sql, sql_file, overdue_sql, overdue_file } = effect;
        let in_effect = |error: StoreError| error.in_effect(name, sql_file, sql);
        let none: &[&str] = &[];
        self.check_shape(effect).await.map_err(in_effect)?;
        let path = ClosingPath::Message.as_str();
        self.explain("effect", sql, &[&none, &path]).await.map_err(in_effect)?;
        if let Some(sql) = overdue_sql {
            let in_effect = |error: StoreError| error.in_effect(name, overdue_file, sql);
            self.check_overdue_shape(effect, sql).await.map_err(in_effect)?;
            self.explain_overdue(sql).await.map_err(in_effect)?;
        }
        Ok(())
    }

    async fn check_shape(&self, effect: &Effect) -> Result<(), StoreError> {
        let client = self.client().await?;
        let statement = self.named("effect", client.prepare_cached(&effect.sql).await)?;
        effect::check_shape(effect, &statement)
    }

    async fn check_overdue_shape(&self, effect: &Effect, sql: &str) -> Result<(), StoreError> {
        let client = self.client().await?;
        let statement = self.named("overdue_ids", client.prepare_cached(sql).await)?;
        overdue::check_shape(effect, &statement)
    }

    /// Runs the effect on `ids` and says what became of each, in the same order.
    ///
    /// One transaction: when this returns it is committed, and when it fails nothing has happened. An id that
    /// comes twice is closed once. Ids without a row in the result are [`Outcome::Unknown`]; a row that is not as
    /// agreed makes its order [`Outcome::Failed`].
    ///
    /// # Errors
    /// The statement failed; [`StoreError::kind`] says what to do.
    pub async fn run_effect(
        &self,
        effect: &Effect,
        ids: &[OrderId],
        path: ClosingPath,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.run_patiently(effect, &effect.sql, ids, path, Patience::LONG).await
    }

    /// Like [`Store::run_effect`], with `sql` instead of the effect's own, and no more than so much patience.
    pub(crate) async fn run_patiently(
        &self,
        effect: &Effect,
        sql: &str,
        ids: &[OrderId],
        path: ClosingPath,
        patience: Patience,
    ) -> Result<Vec<Outcome>, StoreError> {
        let rows = self.attended(self.run_once(effect, sql, ids, path, patience)).await;
        let rows = rows.map_err(|error| error.in_effect(&effect.name, &effect.sql_file, sql))?;
        let mut outcomes = answer::outcomes(effect, &rows, ids);
        for outcome in &mut outcomes {
            if let Outcome::Failed { reason, .. } = outcome {
                reason.push_str("; what the effect did is committed");
            }
        }
        Ok(outcomes)
    }

    async fn run_once(
        &self,
        effect: &Effect,
        sql: &str,
        ids: &[OrderId],
        path: ClosingPath,
        patience: Patience,
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.any_cancellable().await?;
        let prepared = if sql == effect.sql {
            client.prepare_cached(sql).await
        } else {
            prepare_impatiently(&client, sql, patience).await
        };
        let statement = self.named("effect", prepared);
        // Before it commits something that cannot be read.
        let result = match statement.and_then(|statement| {
            effect::check_shape(effect, &statement)?;
            Ok(statement)
        }) {
            Ok(statement) => self.execute(&client, &statement, ids, path, patience).await,
            Err(error) => Err(error),
        };
        if !result.as_ref().is_err_and(|error| error.is_stale() || error.is_misfit()) {
            // Otherwise the next attempt prepares anew, on another connection.
            client.done();
        }
        result
    }

    /// What is sent goes out in one piece: whoever drops this leaves no open transaction behind.
    async fn execute(
        &self,
        client: &Connection,
        statement: &Statement,
        ids: &[OrderId],
        path: ClosingPath,
        patience: Patience,
    ) -> Result<Vec<Row>, StoreError> {
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let path = path.as_str();
        let (limit, end) = match patience.statement {
            None if client.is_own() => (client.limit(patience.lock), None),
            // Seldom; the next statement is not to have this limit.
            _ => (Some(patience.begin()), Some("COMMIT")),
        };
        let (limited, rows, ended) = tokio::join!(
            biased;
            send(client, limit.as_deref()),
            async { client.query(statement, &[&texts, &path]).await },
            send(client, end),
        );
        if limited.is_err() {
            client.limit_is_unknown();
        }
        self.named("effect", limited.and(rows).and_then(|rows| ended.map(|()| rows)))
    }
}

/// Preparing needs a lock on the tables, too, and this happens when something is locked.
pub(super) async fn prepare_impatiently(
    client: &Connection,
    sql: &str,
    patience: Patience,
) -> Result<Statement, tokio_postgres::Error> {
    let limit = client.limit(patience.lock);
    let (limited, statement) =
        tokio::join!(biased; send(client, limit.as_deref()), client.prepare_cached(sql));
    if limited.is_err() {
        client.limit_is_unknown();
    }
    limited.and(statement)
}

async fn send(client: &Connection, sql: Option<&str>) -> Result<(), tokio_postgres::Error> {
    match sql {
        Some(sql) => client.batch_execute(sql).await,
        None => Ok(()),
    }
}
