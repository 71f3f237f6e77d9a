//! Closing orders: the effect's SQL, run on a batch of order ids in one transaction.

mod answer;

use deadpool_postgres::Object;
use tokio_postgres::Row;

pub use super::effect::{ClosingPath, Effect};
use super::{Store, StoreError, effect, overdue};
use crate::order::{OrderId, Outcome};
use answer::Answer;

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
            Some(sql) => self.explain_overdue(sql).await,
            None => Ok(()),
        }
    }

    async fn check_shape(&self, effect: &Effect) -> Result<(), StoreError> {
        let client = self.client().await?;
        let statement = self.named("effect", client.prepare_cached(&effect.sql).await)?;
        effect::check_shape(effect, &statement)?;
        if let Some(sql) = &effect.overdue_sql {
            let statement = self.named("overdue_ids", client.prepare_cached(sql).await)?;
            overdue::check_shape(effect, &statement)?;
        }
        Ok(())
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
        let client = self.cancellable().await?;
        let result = self.execute(&client, effect, ids, path).await;
        if !result.as_ref().is_err_and(|error| error.is_stale() || error.is_misfit()) {
            // Otherwise the next attempt prepares anew, on another connection.
            client.done();
        }
        let rows = result?;
        let mut answer = Answer::read(effect, &rows);
        Ok(ids.iter().map(|id| answer.take(id.as_str())).collect())
    }

    async fn execute(
        &self,
        client: &Object,
        effect: &Effect,
        ids: &[OrderId],
        path: ClosingPath,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.named("effect", client.prepare_cached(&effect.sql).await)?;
        // Before it commits something that cannot be read.
        effect::check_shape(effect, &statement)?;
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let rows = client.query(&statement, &[&texts, &path.as_str()]).await;
        self.named("effect", rows)
    }
}
