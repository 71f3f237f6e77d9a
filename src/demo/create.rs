//! Creating orders in chunks, and publishing each chunk right after its commit.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tokio::{sync::mpsc::UnboundedSender, time::MissedTickBehavior};

use super::{DemoError, Stage, board::Board, clock::Clock, script::Script};
use crate::{
    broker::Publisher,
    order::OrderId,
    shutdown::Stop,
    store::{Store, StoreError},
    topology::{level::Ttl, route::Route},
    wire::{DueNotice, Message},
};

/// A chunk so often: short enough that its orders are published long before they are due.
const EVERY: Duration = Duration::from_millis(50);
/// Chunks a second.
const CHUNKS_A_SECOND: u32 = 20;
/// Messages on their way at once.
const IN_FLIGHT: usize = 1_024;

/// Orders that are in the database, all with one deadline.
#[derive(Clone, Debug)]
pub(super) struct Created {
    /// Their places in the script; one past its end is the last order.
    pub(super) orders: Range<usize>,
    /// When they were created, by the clock of this process.
    pub(super) at: Instant,
}

/// What became of the creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    /// Orders that are in the database.
    pub(super) orders: usize,
    /// Messages that are in the level: the last order has one too.
    pub(super) published: usize,
    /// From the first to the last of them.
    pub(super) took: Duration,
}

/// Creates all orders of the script at the stage's rate, and then its last one; tells both ends of each chunk.
pub(super) async fn create_all(
    stage: &Stage,
    script: &Script,
    board: &Board,
    publisher: &Publisher,
    clock: Clock,
    told: [UnboundedSender<Created>; 2],
    stop: &Stop,
) -> Result<Creation, DemoError> {
    let size = usize::try_from(stage.rate.div_ceil(CHUNKS_A_SECOND)).unwrap_or(usize::MAX);
    let began = Instant::now();
    let mut ticks = tokio::time::interval(EVERY);
    // A chunk that took too long delays the others: two at once would be due at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let total = script.orders.len();
    let mut created = 0;
    let mut took = Duration::ZERO;
    while created <= total {
        tokio::select! {
            biased;
            () = stop.requested() => break,
            _ = ticks.tick() => {}
        }
        // The last order comes alone, so that its message is behind all others.
        let end = if created == total { total + 1 } else { total.min(created + size) };
        let chunk = created..end;
        let due_at = insert(&stage.worker.store, script, chunk.clone()).await?;
        let at = clock.instant(due_at - script.after.as_duration());
        for teller in &told {
            // The one told has failed, and its error ends the run.
            let _told = teller.send(Created { orders: chunk.clone(), at });
        }
        publish(publisher, &stage.route, script, chunk.clone(), due_at).await?;
        let orders = chunk.end.min(total) - chunk.start;
        Board::count(&board.created, orders);
        if orders > 0 {
            took = began.elapsed();
        }
        created = chunk.end;
    }
    Ok(Creation { orders: created.min(total), published: created, took })
}

/// Inserts a chunk in one statement and gives its deadline by the database's clock.
async fn insert(
    store: &Store,
    script: &Script,
    chunk: Range<usize>,
) -> Result<Timestamp, StoreError> {
    let ids: Vec<&str> = chunk.clone().map(|index| script.id(index).as_str()).collect();
    let mut rows = Rows::default();
    for order in script.orders.iter().skip(chunk.start).take(chunk.len()) {
        for item in &order.items {
            rows.push(order.id.as_str(), script.run.sku(item.sku), item.qty);
        }
    }
    insert_rows(store, &ids, script.after, &rows).await
}

/// The items of a chunk, as the columns of the statement.
#[derive(Debug, Default)]
pub(crate) struct Rows<'a> {
    orders: Vec<&'a str>,
    skus: Vec<String>,
    quantities: Vec<i64>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, order: &'a str, sku: String, qty: i64) {
        self.orders.push(order);
        self.skus.push(sku);
        self.quantities.push(qty);
    }
}

/// Inserts orders with their items and reserves their stock; the deadline is `after` from now.
pub(crate) async fn insert_rows(
    store: &Store,
    ids: &[&str],
    after: Ttl,
    rows: &Rows<'_>,
) -> Result<Timestamp, StoreError> {
    const SQL: &str = include_str!("../../sql/demo_create.sql");
    let client = store.client().await?;
    let statement = store.named("demo_create", client.prepare_cached(SQL).await)?;
    // A TTL is at most ten years.
    let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
    let row = client
        .query_one(&statement, &[&ids, &after_ms, &rows.orders, &rows.skus, &rows.quantities])
        .await;
    Ok(store.named("demo_create", row)?.get(0))
}

async fn publish(
    publisher: &Publisher,
    route: &Route,
    script: &Script,
    chunk: Range<usize>,
    due_at: Timestamp,
) -> Result<(), DemoError> {
    let messages = chunk.map(|index| message(route, script.id(index), due_at));
    let publishing = stream::iter(messages).map(|message| publisher.publish(message));
    Ok(publishing.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?)
}

fn message(route: &Route, order_id: &OrderId, due_at: Timestamp) -> Message {
    let notice = DueNotice { order_id: order_id.clone(), due_at: Some(due_at) };
    Message::notice(route.clone(), &notice)
}
