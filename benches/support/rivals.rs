//! Designs that others build in the place of the worker. For a separate measurement, the benchmark starts itself as a
//! rival's process.

use std::{convert::Infallible, time::Duration};

use clap::ValueEnum;
use futures_util::{StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use lapin::{
    BasicProperties, Channel,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use overdue::{
    BrokerAddress, DueNotice, Message, Store,
    internals::{
        broker::{Link, consume::Subscription},
        store::Connection,
    },
};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_postgres::Statement;

use super::{Result, options::Options};

/// Most unconfirmed messages, as in the publisher of this program.
pub const WINDOW: usize = 1_024;
/// Polling interval of the poller.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// Orders closed by one statement: more are not much faster, and payments wait for fewer.
const POLL_BATCH: i64 = 500;
/// Messages of the tutorial wait here instead of on the broker.
const TUTORIAL_PREFETCH: u16 = 100;
/// Pause before the tutorial looks again at an order that is not due yet, because the clocks differ.
const AGAIN: Duration = Duration::from_millis(1);
/// Polling interval of an outbox relay while the outbox is empty.
const RELAY_EVERY: Duration = Duration::from_millis(100);
/// Events per transaction: in most outbox relays, and in this program.
const RELAY_BATCHES: [i64; 2] = [100, 2_000];

/// Designs that work in the place of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rival {
    /// No broker: a loop that selects overdue orders in the database
    Poller,
    /// A transaction for each message, which reads the order, closes it and returns its stock; then the ack
    Tutorial,
    /// The usual outbox relay: lock 100 rows with `SKIP LOCKED`, publish, wait for the confirms, delete, commit
    SkipLocked,
    /// Rows of the outbox locked and deleted, 2,000 at once, and nothing published
    Database,
    /// The AMQP client with the same number of events, and no database
    Client,
}

/// Runs a rival until it fails or is killed.
pub async fn run(rival: Rival, options: &Options) -> Result<Infallible> {
    let address = BrokerAddress::parse(&options.broker_url, Some(&options.management_url))?;
    let store = Store::new(&options.database_url, &options.schema, 4)?;
    match rival {
        Rival::Poller => poll(&store).await,
        Rival::Tutorial => consume(&address, &options.target, &store).await,
        Rival::SkipLocked => {
            let client = RawClient::open(&address).await?;
            relay(&store, Some(&client), &options.target, RELAY_BATCHES[0]).await
        }
        Rival::Database => relay(&store, None, &options.target, RELAY_BATCHES[1]).await,
        Rival::Client => {
            let client = RawClient::open(&address).await?;
            client.publish(&events(&options.target, options.count)).await?;
            std::future::pending().await
        }
    }
}

/// Polls; if there is more than a batch, on two connections.
async fn poll(store: &Store) -> Result<Infallible> {
    let more = Notify::new();
    let look = async {
        let mut look = interval(POLL_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            poll_all(store, &more).await?;
        }
    };
    let help = async {
        loop {
            more.notified().await;
            poll_all(store, &more).await?;
        }
    };
    tokio::select! {
        ended = look => ended,
        ended = help => ended,
    }
}

/// Closes batches until a batch is not full.
async fn poll_all(store: &Store, more: &Notify) -> Result<()> {
    const SQL: &str = include_str!("../sql/poll.sql");
    let client = store.client().await?;
    let statement = client.prepare_cached(SQL).await?;
    while client.query_one(&statement, &[&POLL_BATCH]).await?.get::<_, i64>("orders") == POLL_BATCH
    {
        more.notify_one();
    }
    Ok(())
}

async fn consume(address: &BrokerAddress, queue: &str, store: &Store) -> Result<Infallible> {
    let link = Link::open(address, "bench: tutorial").await?;
    let mut subscription = Subscription::open(&link, queue, TUTORIAL_PREFETCH).await?;
    loop {
        let delivery = subscription.next().await?;
        let notice = DueNotice::decode(&delivery.body)?;
        while !close(store, notice.order_id.as_str()).await? {
            sleep(AGAIN).await;
        }
        subscription.ack(delivery.tag).await?;
    }
}

/// Returns whether the order needs no more work. Writes no audit row and no event, as in tutorials.
async fn close(store: &Store, id: &str) -> Result<bool> {
    const LOOK: &str = include_str!("../sql/tutorial_look.sql");
    const CLOSE: &str = include_str!("../sql/tutorial_close.sql");
    const STOCK: &str = include_str!("../sql/tutorial_stock.sql");
    let mut client = store.client().await?;
    let transaction = client.transaction().await?;
    let look = transaction.prepare_cached(LOOK).await?;
    let order = transaction.query_opt(&look, &[&id]).await?;
    let Some(order) = order.filter(|order| order.get::<_, &str>("status") == "unpaid") else {
        return Ok(true);
    };
    if !order.get::<_, bool>("is_due") {
        return Ok(false);
    }
    for sql in [CLOSE, STOCK] {
        let statement = transaction.prepare_cached(sql).await?;
        transaction.execute(&statement, &[&id]).await?;
    }
    transaction.commit().await?;
    Ok(true)
}

/// Takes events in batches, publishes them if there is a `client`, and deletes them.
async fn relay(
    store: &Store,
    client: Option<&RawClient>,
    exchange: &str,
    batch: i64,
) -> Result<Infallible> {
    loop {
        while relay_batch(store, client, exchange, batch).await? {}
        sleep(RELAY_EVERY).await;
    }
}

/// Returns whether there were any events.
async fn relay_batch(
    store: &Store,
    client: Option<&RawClient>,
    exchange: &str,
    batch: i64,
) -> Result<bool> {
    const TAKE: &str = include_str!("../sql/outbox_take.sql");
    const DONE: &str = "DELETE FROM outbox WHERE id = ANY ($1)";
    let mut connection = store.client().await?;
    let transaction = connection.transaction().await?;
    let take = transaction.prepare_cached(TAKE).await?;
    let rows = transaction.query(&take, &[&batch]).await?;
    if let Some(client) = client {
        let message = |row: &tokio_postgres::Row| {
            let (event, order_id): (&str, &str) = (row.get("event"), row.get("order_id"));
            let at = row.get("created_at");
            Message::event(exchange.to_owned(), event, row.get("id"), order_id, at)
        };
        client.publish(&rows.iter().map(message).collect::<Vec<_>>()).await?;
    }
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect();
    let done = transaction.prepare_cached(DONE).await?;
    transaction.execute(&done, &[&ids]).await?;
    transaction.commit().await?;
    Ok(!ids.is_empty())
}

/// The name of an event, and its order. Each order has two successive events, so that a relay cannot publish a whole batch
/// at once.
pub fn event(place: usize) -> (&'static str, String) {
    (["order.paid", "order.shipped"][place % 2], format!("order-{}", place / 2))
}

/// The messages of `count` events.
fn events(exchange: &str, count: usize) -> Vec<Message> {
    let message = |place: usize| {
        let (name, order_id) = event(place);
        let id = i64::try_from(place).unwrap_or(i64::MAX);
        let at = Timestamp::new(1_600_000_000, 123_456_000).unwrap_or_default();
        Message::event(exchange.to_owned(), name, id, &order_id, at)
    };
    (0..count).map(message).collect()
}

/// The AMQP client alone: one loop, one channel, a window of unconfirmed messages.
pub struct RawClient {
    /// The connection, which is closed when this is dropped.
    _link: Link,
    channel: Channel,
}

impl RawClient {
    pub async fn open(address: &BrokerAddress) -> Result<Self> {
        let link = Link::open(address, "bench: the client alone").await?;
        let channel = link.channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { _link: link, channel })
    }

    /// Publishes persistent messages, mandatory if they need a route; returns when each is confirmed. Returned and refused
    /// messages are missing, and the receiver counts them.
    pub async fn publish(&self, messages: &[Message]) -> Result<()> {
        let mut confirms = FuturesUnordered::new();
        for message in messages {
            if confirms.len() == WINDOW {
                confirms.next().await.transpose()?;
            }
            let mandatory = !message.needs_no_route;
            let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
            let properties = BasicProperties::default()
                .with_delivery_mode(2)
                .with_content_type("application/json".into())
                .with_message_id(message.message_id.as_str().into());
            let (exchange, key) = (message.exchange.as_str(), message.routing_key.as_str());
            let (exchange, key) = (exchange.into(), key.into());
            let publishing =
                self.channel.basic_publish(exchange, key, options, &message.body, properties);
            confirms.push(publishing.await?);
        }
        while let Some(confirm) = confirms.next().await {
            confirm?;
        }
        Ok(())
    }
}

/// The floor: the database alone, with all ids known beforehand. A part of the benchmark's process.
pub struct PlainSql {
    client: Connection,
    statement: Statement,
}

impl PlainSql {
    /// Connects and plans the statement: five times for its parameters, then once for all.
    /// <https://www.postgresql.org/docs/current/sql-prepare.html>
    pub async fn open(store: &Store) -> Result<Self> {
        const SQL: &str = include_str!("../sql/plain.sql");
        let client = store.client().await?;
        let statement = client.prepare_cached(SQL).await?;
        let mut plain_sql = Self { client, statement };
        for _ in 0..6 {
            plain_sql.close(&[]).await?;
        }
        Ok(plain_sql)
    }

    pub async fn close(&mut self, ids: &[&str]) -> Result<()> {
        self.client.execute(&self.statement, &[&ids]).await?;
        Ok(())
    }
}
