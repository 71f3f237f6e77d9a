//! The outbox: events written with the effect, published afterwards, forgotten when confirmed.

use jiff::Timestamp;

use super::{Store, StoreError};

const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const DONE: &str = include_str!("../../sql/outbox_done.sql");

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its row; also the `message-id`, so that a subscriber can recognise a second copy.
    pub id: i64,
    /// What happened, and the routing key, e.g. `order.closed`.
    pub event: String,
    /// To which order.
    pub order_id: String,
    /// When.
    pub created_at: Timestamp,
}

impl Store {
    /// Whether the outbox has the columns it should, and may be changed; changes nothing.
    ///
    /// # Errors
    /// The table or a column is missing, or a permission is.
    pub async fn check_outbox(&self) -> Result<(), StoreError> {
        let none: &[i64] = &[];
        self.explain("outbox_claim", CLAIM, &[&0_i64]).await?;
        self.explain("outbox_done", DONE, &[&none]).await
    }

    /// Takes up to `limit` of the oldest events for thirty seconds; other relays pass them over meanwhile.
    ///
    /// # Errors
    /// The statement failed; nothing is taken.
    pub async fn claim_events(&self, limit: i64) -> Result<Vec<Event>, StoreError> {
        let client = self.client().await?;
        let statement = self.named("outbox_claim", client.prepare_cached(CLAIM).await)?;
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
        let client = self.client().await?;
        let statement = self.named("outbox_done", client.prepare_cached(DONE).await)?;
        self.named("outbox_done", client.execute(&statement, &[&ids]).await).map(drop)
    }
}
