//! What tutorials show: for each message a transaction that looks at the order, closes it and gives its stock back; then the
//! ack. No audit row and no event, as there.

use std::{convert::Infallible, time::Duration};

use crate::{
    broker::{
        BrokerAddress, ConnectError, Link,
        consume::{ConsumeError, Subscription},
    },
    store::{Store, StoreError},
    wire::DueNotice,
};

const LOOK: &str = include_str!("../../../sql/bench_tutorial_look.sql");
const CLOSE: &str = include_str!("../../../sql/bench_tutorial_close.sql");
const STOCK: &str = include_str!("../../../sql/bench_tutorial_stock.sql");
/// Messages wait here rather than on the broker.
const PREFETCH: u16 = 100;
/// Until an order that is not due yet, by less than the clocks differ, is looked at again.
const AGAIN: Duration = Duration::from_millis(1);

/// Why the consumer has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TutorialError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The subscription ended.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Not one of the benchmark's messages.
    #[error("cannot read a message: {0}")]
    Unreadable(#[from] crate::wire::Unreadable),
}

/// Consumes until it fails.
///
/// # Errors
/// See [`TutorialError`].
pub(crate) async fn consume(
    address: &BrokerAddress,
    queue: &str,
    store: &Store,
) -> Result<Infallible, TutorialError> {
    let link = Link::open(address, "overdue bench: tutorial").await?;
    let mut subscription = Subscription::open(&link, queue, PREFETCH).await?;
    loop {
        let delivery = subscription.next().await?;
        let notice = DueNotice::decode(&delivery.body)?;
        while !close(store, notice.order_id.as_str()).await? {
            tokio::time::sleep(AGAIN).await;
        }
        subscription.ack(delivery.tag).await?;
    }
}

/// Whether there is nothing more to do.
async fn close(store: &Store, id: &str) -> Result<bool, StoreError> {
    let mut client = store.client().await?;
    let transaction = store.named("bench_tutorial", client.transaction().await)?;
    let done = store.named("bench_tutorial", close_in(&transaction, id).await)?;
    store.named("bench_tutorial", transaction.commit().await)?;
    Ok(done)
}

async fn close_in(
    transaction: &deadpool_postgres::Transaction<'_>,
    id: &str,
) -> Result<bool, tokio_postgres::Error> {
    let look = transaction.prepare_cached(LOOK).await?;
    let Some(order) = transaction.query_opt(&look, &[&id]).await? else { return Ok(true) };
    if order.get::<_, String>("status") != "unpaid" {
        return Ok(true);
    }
    if !order.get::<_, bool>("is_due") {
        return Ok(false);
    }
    for sql in [CLOSE, STOCK] {
        let statement = transaction.prepare_cached(sql).await?;
        transaction.execute(&statement, &[&id]).await?;
    }
    Ok(true)
}
