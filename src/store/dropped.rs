//! The record of what a person has dropped from the parking lot.

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::{Store, StoreError};

/// A message that is about to be dropped, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedMessage {
    pub(crate) queue: String,
    pub(crate) order_id: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) routing_key: String,
    pub(crate) message_id: Option<String>,
    pub(crate) parked_because: String,
    pub(crate) parked_at: Option<Timestamp>,
    /// None where it was too large to be read.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) body_bytes: i64,
}

impl Store {
    /// Records messages, in one transaction; `because` is what the person says.
    ///
    /// # Errors
    /// The statement failed; then nothing is to be dropped.
    pub(crate) async fn record_dropped(
        &self,
        messages: &[DroppedMessage],
        because: &str,
    ) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/parked_dropped.sql");
        let texts = |of: fn(&DroppedMessage) -> Option<&str>| -> Vec<Option<&str>> {
            messages.iter().map(of).collect()
        };
        let queues = texts(|it| Some(&it.queue));
        let orders = texts(|it| it.order_id.as_deref());
        let timeouts = texts(|it| it.timeout.as_deref());
        let keys = texts(|it| Some(&it.routing_key));
        let ids = texts(|it| it.message_id.as_deref());
        let reasons = texts(|it| Some(&it.parked_because));
        let times: Vec<Option<Timestamp>> = messages.iter().map(|it| it.parked_at).collect();
        let bodies: Vec<Option<&[u8]>> = messages.iter().map(|it| it.body.as_deref()).collect();
        let sizes: Vec<i64> = messages.iter().map(|it| it.body_bytes).collect();
        let parameters: [&(dyn ToSql + Sync); 10] =
            [&queues, &orders, &timeouts, &keys, &ids, &reasons, &times, &bodies, &sizes, &because];
        self.rows("record_dropped", SQL, &parameters).await.map(drop)
    }
}
