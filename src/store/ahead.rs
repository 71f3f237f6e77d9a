//! Reading what is overdue as fast as it is closed, by one reader per effect at a time.

use std::time::Duration;

use super::{Store, StoreError, effect::Effect, overdue::OverdueKey, run_statement::Cancellable};
use crate::order::OrderId;

const LOCK: &str = include_str!("../../sql/ahead_lock.sql");

/// What came of beginning to read.
pub(crate) enum Reading<'a> {
    /// This one reads.
    Begun(Box<OverdueReader<'a>>),
    /// Another worker does.
    ByAnother,
    /// There is no `overdue_sql`.
    Impossible,
}

/// What was overdue when it began, oldest first. Beside it no other one reads for the same effect and tables, in any
/// worker. Between two questions its transaction has neither a snapshot nor an id, so it holds up no vacuum.
pub(crate) struct OverdueReader<'a> {
    store: &'a Store,
    effect: &'a Effect,
    sql: &'a str,
    client: Cancellable,
    key: OverdueKey,
}

impl Store {
    /// Begins to read.
    ///
    /// # Errors
    /// The database is unavailable, or `overdue_sql` is not as agreed.
    pub(crate) async fn read_overdue<'a>(
        &'a self,
        effect: &'a Effect,
    ) -> Result<Reading<'a>, StoreError> {
        let Some(sql) = &effect.overdue_sql else { return Ok(Reading::Impossible) };
        let client = self.cancellable().await?;
        let key = OverdueKey::first();
        let reader = OverdueReader { store: self, effect, sql, client, key };
        if self.attended(Box::pin(reader.lock("BEGIN"))).await? {
            return Ok(Reading::Begun(Box::new(reader)));
        }
        reader.end().await.map(|()| Reading::ByAnother)
    }
}

impl OverdueReader<'_> {
    async fn lock(&self, begin: &str) -> Result<bool, StoreError> {
        let Self { store, effect, client, .. } = self;
        let lock = store.named("ahead_lock", client.prepare_cached(LOCK).await)?;
        store.named("ahead_lock", client.batch_execute(begin).await)?;
        let is_free = client.query_one(&lock, &[&effect.name]).await;
        Ok(store.named("ahead_lock", is_free)?.get(0))
    }

    /// Goes on with what has become due since it began. False where another worker does now.
    ///
    /// # Errors
    /// The connection is gone, and with it the lock.
    pub(crate) async fn next_lap(&mut self) -> Result<bool, StoreError> {
        // The time of a transaction is that of its beginning.
        self.store.attended(Box::pin(self.lock("COMMIT; BEGIN"))).await
    }

    /// The next page; none after the last one.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn page(&mut self, limit: i64) -> Result<Option<Vec<OrderId>>, StoreError> {
        let Self { store, effect, sql, client, key } = self;
        let reading = store.page_on(client, effect, sql, key, limit, Duration::ZERO);
        let page = store.attended(Box::pin(reading)).await?;
        // Rows that are no orders of ours have no key behind which it could go on.
        if page.next == self.key {
            return Ok(None);
        }
        self.key = page.next;
        Ok(Some(page.ids))
    }

    /// The next one may read.
    ///
    /// # Errors
    /// The connection is gone, and with it the lock.
    pub(crate) async fn end(self) -> Result<(), StoreError> {
        let Self { store, client, .. } = self;
        let ending = async { store.named("ahead_lock", client.batch_execute("COMMIT").await) };
        store.attended(Box::pin(ending)).await?;
        client.done();
        Ok(())
    }
}
