//! The floor: one committed statement that closes one order, on a database that does nothing else.

use std::time::{Duration, Instant};

use crate::{
    bench::{
        contestant::plain_sql,
        load::{DatabaseClock, Generator, Tables},
        stage::BenchError,
    },
    statistics::Percentiles,
    store::Store,
};

/// Orders closed one after the other.
const ORDERS: usize = 200;

/// How long each takes, with its audit row, its event and its stock.
///
/// # Errors
/// See [`BenchError`].
pub(super) async fn measure(store: &Store) -> Result<Percentiles, BenchError> {
    let mut generator = Generator::new();
    let clock = DatabaseClock::read(store).await?;
    let due_us = clock.us_in(Duration::ZERO);
    let load = generator.load("floor", ORDERS, |_| due_us)?;
    let tables = Tables { store, run: generator.run() };
    tables.reset().await?;
    tables.insert(&load).await?;
    tables.settle(&load).await?;
    let mut times = Vec::with_capacity(ORDERS);
    let mut floor = plain_sql::OneByOne::prepare(store).await?;
    for order in &load.orders {
        let sent = Instant::now();
        floor.close(store, order).await?;
        times.push(sent.elapsed());
    }
    Ok(Percentiles::of(times.into_iter()).unwrap_or_default())
}
