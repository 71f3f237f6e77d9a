//! What publishes the outbox in the place of our relay.

use std::time::Duration;

use tokio_postgres::Row;

use crate::{
    bench::raw_client::{RawClient, RawClientError},
    broker::BrokerAddress,
    store::{Store, StoreError},
    wire::Message,
};

const TAKE: &str = include_str!("../../../sql/bench_outbox_take.sql");
const DONE: &str = include_str!("../../../sql/outbox_done.sql");
/// How often it looks where the outbox is empty.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why it has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutboxError {
    /// The AMQP client failed.
    #[error(transparent)]
    Client(#[from] RawClientError),
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Publishes messages, then waits for ever.
///
/// # Errors
/// The AMQP client failed.
pub(crate) async fn client_alone(
    address: &BrokerAddress,
    messages: &[Message],
    window: usize,
) -> Result<std::convert::Infallible, OutboxError> {
    let client = RawClient::open(address, "overdue bench: the client alone").await?;
    client.publish(messages, window).await?;
    std::future::pending().await
}

/// Takes events in batches, publishes them where there is a `client`, and deletes them.
///
/// # Errors
/// See [`OutboxError`].
pub(crate) async fn relay(
    store: &Store,
    client: Option<&RawClient>,
    exchange: &str,
    batch: i64,
) -> Result<std::convert::Infallible, OutboxError> {
    loop {
        while relay_batch(store, client, exchange, batch).await? {}
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether there were any.
async fn relay_batch(
    store: &Store,
    client: Option<&RawClient>,
    exchange: &str,
    batch: i64,
) -> Result<bool, OutboxError> {
    let named = |error| store.named::<()>("bench_outbox", Err(error));
    let mut connection = store.client().await?;
    let transaction = store.named("bench_outbox", connection.transaction().await)?;
    let take = store.named("bench_outbox", transaction.prepare_cached(TAKE).await)?;
    let rows = store.named("bench_outbox", transaction.query(&take, &[&batch]).await)?;
    if let Some(client) = client {
        let messages: Result<Vec<Message>, _> =
            rows.iter().map(|row| message(exchange, row)).collect();
        let messages = store.named("bench_outbox", messages)?;
        client.publish(&messages, messages.len()).await?;
    }
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect();
    let done = store.named("bench_outbox", transaction.prepare_cached(DONE).await)?;
    transaction.execute(&done, &[&ids]).await.map(drop).or_else(named)?;
    transaction.commit().await.or_else(named)?;
    Ok(!ids.is_empty())
}

fn message(exchange: &str, row: &Row) -> Result<Message, tokio_postgres::Error> {
    let (event, order_id): (String, String) = (row.try_get("event")?, row.try_get("order_id")?);
    let (id, at) = (row.try_get("id")?, row.try_get("created_at")?);
    Ok(Message::event(exchange.to_owned(), &event, id, &order_id, at))
}
