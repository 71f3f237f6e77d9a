//! Closing orders: the effect's SQL, run on a batch of order ids in one transaction.

pub(crate) mod answer;

pub use super::effect::{ClosingPath, Effect};
use super::{
    Store, StoreError, effect, overdue,
    pool::{End, For, Limits, Question},
};
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

    pub(super) async fn check_overdue_shape(
        &self,
        effect: &Effect,
        sql: &str,
    ) -> Result<(), StoreError> {
        let client = self.client().await?;
        let statement = self.named("overdue_ids", client.prepare_cached(sql).await)?;
        overdue::check_shape(effect, &statement)
    }

    /// Runs the effect on `ids` and says what became of each, in the same order.
    ///
    /// It waits for each lock for 50 ms. One transaction: when this returns it is committed, and when it fails nothing has happened. An id that
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
        self.run_limited(effect, &effect.sql, ids, path, Limits::NONE).await
    }

    /// Like [`Store::run_effect`], with `sql` instead of the effect's own, and limits.
    pub(crate) async fn run_limited(
        &self,
        effect: &Effect,
        sql: &str,
        ids: &[OrderId],
        path: ClosingPath,
        limits: Limits,
    ) -> Result<Vec<Outcome>, StoreError> {
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let question = Question {
            name: "effect",
            sql,
            parameters: &[&texts, &path.as_str()],
            // Before it commits something that cannot be read.
            check: &|statement| effect::check_shape(effect, statement),
        };
        let rows = if limits == Limits::NONE {
            self.ask(For::Closing, question).await
        } else {
            self.in_transaction(For::Closing, limits, question, End::Commit).await
        };
        let rows = rows.map_err(|error| error.in_effect(&effect.name, &effect.sql_file, sql))?;
        let mut outcomes = answer::outcomes(effect, &rows, ids);
        for outcome in &mut outcomes {
            if let Outcome::Failed { reason, .. } = outcome {
                reason.push_str("; what the effect did is committed");
            }
        }
        Ok(outcomes)
    }
}
