//! The outbox: events written with the effect, published afterwards, forgotten when confirmed.

use jiff::Timestamp;

use super::{Store, StoreError};

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its row; also the `message-id`, so that a subscriber can tell a second copy.
    pub id: i64,
    /// What happened, and the routing key, e.g. `order.closed`.
    pub event: String,
    /// To which order.
    pub order_id: String,
    /// When.
    pub created_at: Timestamp,
}

impl Store {
    /// Takes up to `limit` of the oldest events for thirty seconds; other relays pass them over meanwhile.
    ///
    /// # Errors
    /// The statement failed; nothing is taken.
    pub async fn claim_events(&self, limit: i64) -> Result<Vec<Event>, StoreError> {
        const SQL: &str = include_str!("../../sql/outbox_claim.sql");
        let client = self.client().await?;
        let statement = self.named("outbox_claim", client.prepare_cached(SQL).await)?;
        let rows = self.named("outbox_claim", client.query(&statement, &[&limit]).await)?;
        let event = |row: tokio_postgres::Row| Event {
            id: row.get(0),
            event: row.get(1),
            order_id: row.get(2),
            created_at: row.get(3),
        };
        Ok(rows.into_iter().map(event).collect())
    }

    /// Forgets events that the broker has confirmed.
    ///
    /// # Errors
    /// The statement failed; the events are published again when their claim ends.
    pub async fn forget_events(&self, ids: &[i64]) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/outbox_done.sql");
        let client = self.client().await?;
        let statement = self.named("outbox_done", client.prepare_cached(SQL).await)?;
        self.named("outbox_done", client.execute(&statement, &[&ids]).await).map(drop)
    }
}
