//! What the database says about one order, changing nothing.

use super::{
    Store, StoreError,
    database_time::DatabaseTime,
    effect::{self, ClosingPath, Effect},
    orders::answer,
};
use crate::order::{OrderId, Outcome};

/// An order at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// What the effect would have done. [`Outcome::Closed`] says that the order is overdue: it was rolled back.
    pub outcome: Outcome,
    /// Its deadline, where the database knows the order.
    pub due_at: Option<DatabaseTime>,
}

impl Store {
    /// Runs the effect on one order in a transaction that is rolled back, so that it works for any tables.
    ///
    /// Nothing stays of it, but what PostgreSQL never takes back: numbers of sequences. For that moment it locks what the
    /// effect locks.
    ///
    /// # Errors
    /// The statement failed, or is not as agreed.
    pub(crate) async fn standing(
        &self,
        effect: &Effect,
        id: &OrderId,
    ) -> Result<Standing, StoreError> {
        let mut client = self.client().await?;
        let transaction = self.named("standing", client.transaction().await)?;
        let in_effect =
            |error: StoreError| error.in_effect(&effect.name, &effect.sql_file, &effect.sql);
        let statement = self.named("standing", transaction.prepare(&effect.sql).await);
        let statement = statement.map_err(in_effect)?;
        effect::check_shape(effect, &statement)?;
        let path = ClosingPath::Message.as_str();
        let rows = transaction.query(&statement, &[&[id.as_str()].as_slice(), &path]).await;
        let rows = self.named("standing", rows).map_err(in_effect)?;
        self.named("standing", transaction.rollback().await)?;
        let due_at = rows.first().and_then(|row| row.try_get(2).ok());
        let outcome = answer::outcomes(effect, &rows, std::slice::from_ref(id)).remove(0);
        Ok(Standing { outcome, due_at })
    }
}
