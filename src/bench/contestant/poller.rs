//! What many build without a broker: a loop that looks in the database for what is overdue.

use std::{convert::Infallible, time::Duration};

use tokio::{sync::Notify, time::MissedTickBehavior};

use crate::store::{Store, StoreError};

const SQL: &str = include_str!("../../../sql/bench_poll.sql");
/// How often it looks.
pub(crate) const EVERY: Duration = Duration::from_millis(10);
/// Orders closed by one statement: the poller is not much faster with more, and payments wait for fewer.
pub(crate) const BATCH: i64 = 500;

/// Polls until it fails; where there is more than a batch, on two connections.
///
/// # Errors
/// A statement failed.
pub(crate) async fn poll(store: &Store) -> Result<Infallible, StoreError> {
    let more = Notify::new();
    tokio::select! {
        ended = look(store, &more) => ended,
        ended = help(store, &more) => ended,
    }
}

async fn look(store: &Store, more: &Notify) -> Result<Infallible, StoreError> {
    let mut look = tokio::time::interval(EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        close_all(store, more).await?;
    }
}

async fn help(store: &Store, more: &Notify) -> Result<Infallible, StoreError> {
    loop {
        more.notified().await;
        close_all(store, more).await?;
    }
}

/// Closes batch after batch until one is not full.
async fn close_all(store: &Store, more: &Notify) -> Result<(), StoreError> {
    let client = store.client().await?;
    let statement = store.named("bench_poll", client.prepare_cached(SQL).await)?;
    loop {
        let row = store.named("bench_poll", client.query_one(&statement, &[&BATCH]).await)?;
        if row.get::<_, i64>("orders") < BATCH {
            return Ok(());
        }
        more.notify_one();
    }
}
