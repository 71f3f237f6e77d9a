//! The ways of closing orders that are measured.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::{
    order::OrderId,
    order_service::{self, basket::Order},
    store::{
        Store, StoreError,
        orders::{ClosingPath, Effect},
    },
    worker::closing::Closer,
};

/// Batches at the same time, as a worker does it.
pub(crate) const IN_FLIGHT: usize = 4;

/// A way of closing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Method {
    /// One order per transaction, one after the other.
    OneByOne,
    /// A batch per transaction, one after the other.
    Batches,
    /// Batches, [`IN_FLIGHT`] at the same time.
    BatchesInFlight,
    /// Batches, one after the other, as a worker closes them: with its answer to locks and bad rows.
    WorkerBatches,
    /// The statement of a batch, sent without this library.
    SqlBatches,
    /// One statement for the whole table.
    SqlWhole,
}

impl Method {
    /// In the order they are measured.
    pub(crate) const ALL: [Self; 6] = [
        Self::OneByOne,
        Self::Batches,
        Self::BatchesInFlight,
        Self::WorkerBatches,
        Self::SqlBatches,
        Self::SqlWhole,
    ];

    /// In words, with the size of a batch.
    #[must_use]
    pub(crate) fn describe(self, batch: usize) -> String {
        match self {
            Self::OneByOne => "one order per transaction".to_owned(),
            Self::Batches => format!("batches of {batch}, one connection"),
            Self::BatchesInFlight => format!("batches of {batch}, {IN_FLIGHT} in flight"),
            Self::WorkerBatches => format!("batches of {batch}, as a worker closes them"),
            Self::SqlBatches => format!("plain SQL, batches of {batch}, one connection"),
            Self::SqlWhole => "plain SQL, the whole table in one statement".to_owned(),
        }
    }

    /// Closes all `orders` and says how long it took.
    pub(crate) async fn run(
        self,
        store: &Store,
        effect: &Effect,
        orders: &[Order],
        batch: usize,
    ) -> Result<Duration, StoreError> {
        let ids: Vec<OrderId> = orders.iter().map(|order| order.id.clone()).collect();
        // Connected and prepared, as in a worker that has run for a while.
        order_service::prepare(store, IN_FLIGHT, "effect", &effect.sql).await?;
        let began = Instant::now();
        match self {
            Self::OneByOne => batches(store, effect, &ids, 1, 1).await?,
            Self::Batches => batches(store, effect, &ids, batch, 1).await?,
            Self::BatchesInFlight => batches(store, effect, &ids, batch, IN_FLIGHT).await?,
            Self::WorkerBatches => worker_batches(store, effect, &ids, batch).await?,
            Self::SqlBatches => sql_batches(store, effect, &ids, batch).await?,
            Self::SqlWhole => sql_whole(store).await?,
        }
        Ok(began.elapsed())
    }
}

async fn batches(
    store: &Store,
    effect: &Effect,
    ids: &[OrderId],
    batch: usize,
    in_flight: usize,
) -> Result<(), StoreError> {
    let closing = ids
        .chunks(batch)
        .map(async |ids| store.run_effect(effect, ids, ClosingPath::Message).await);
    stream::iter(closing).buffer_unordered(in_flight).try_for_each(async |_| Ok(())).await
}

async fn worker_batches(
    store: &Store,
    effect: &Effect,
    ids: &[OrderId],
    batch: usize,
) -> Result<(), StoreError> {
    let closer = Closer::new(store.clone(), effect.clone());
    for ids in ids.chunks(batch) {
        closer.outcomes(ids, ClosingPath::Message).await?;
    }
    Ok(())
}

/// What the database alone needs: the same statement, its answer unread.
async fn sql_batches(
    store: &Store,
    effect: &Effect,
    ids: &[OrderId],
    batch: usize,
) -> Result<(), StoreError> {
    let client = store.client().await?;
    let client: &tokio_postgres::Client = &client;
    let statement = store.named("effect", client.prepare(&effect.sql).await)?;
    for ids in ids.chunks(batch) {
        let ids: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        store.named("effect", client.query(&statement, &[&ids, &"bench"]).await)?;
    }
    Ok(())
}

async fn sql_whole(store: &Store) -> Result<(), StoreError> {
    const SQL: &str = include_str!("../../../sql/bench_whole.sql");
    let client = store.client().await?;
    store.named("bench_whole", client.execute(SQL, &[]).await).map(drop)
}
