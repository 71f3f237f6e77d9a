//! What a worker without work costs, and how soon after its start it closes an order.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{
    bench::{
        contestant::Contestant,
        load::{DatabaseClock, Generator, Notices, Tables},
        stage::{BenchError, Stage},
        usage::Cpu,
    },
    broker::{Publisher, passive},
};

/// Between two looks whether a notice has come out.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// From the making of an order to its deadline.
const SOON: Duration = Duration::from_millis(300);

/// A worker without work.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Idle {
    /// Which one.
    pub contestant: String,
    /// What the services used without it.
    pub before: Cpu,
    /// What they and the worker used with it.
    pub with: Cpu,
    /// Resident memory of the worker, in bytes.
    pub resident_bytes: u64,
    /// From the start of the process to the commit of an order whose notice was there.
    pub start_to_close_ms: f64,
}

/// Watches an idle worker for a while, and starts another one.
///
/// # Errors
/// See [`BenchError`].
pub(super) async fn measure(
    stage: &Stage,
    publisher: &Publisher,
    place: usize,
    contestant: &Contestant,
    time: Duration,
) -> Result<Idle, BenchError> {
    let mut generator = Generator::new();
    Tables { store: &stage.store, run: generator.run() }.reset().await?;
    let nobody = stage.meters.read(&[]);
    tokio::time::sleep(time).await;
    let before = nobody.until(&stage.meters.read(&[]));
    let running = stage.start(place, contestant).await?;
    // What it does at its start is not what it does when idle.
    tokio::time::sleep(time / 4).await;
    let reading = stage.meters.read(&running.process_ids());
    tokio::time::sleep(time).await;
    let with = reading.until(&stage.meters.read(&running.process_ids()));
    let usage = running.usage();
    let route = running.long_route()?;
    let queue = running.queue.clone();
    let early = running.lead;
    running.stop().await;

    let clock = DatabaseClock::read(&stage.store).await?;
    let due_us = clock.us_in(SOON);
    let load = generator.load("start", 1, |_| due_us)?;
    Tables { store: &stage.store, run: generator.run() }.insert(&load).await?;
    Notices { publisher, route: &route, lead: early, clock }.publish(&load).await?;
    let link = crate::broker::Link::open(&stage.address, "overdue bench: looking").await?;
    while passive::ready(&link, &queue).await?.unwrap_or_default() == 0
        || clock.instant(due_us) > Instant::now()
    {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    link.close().await;
    let started_us = clock.us_in(Duration::ZERO);
    let mut running = stage.start(place, contestant).await?;
    running.until_closed(&stage.store).await?;
    let closed_us = first_closed(stage).await?;
    running.stop().await;
    let took_us = u64::try_from(closed_us.saturating_sub(started_us)).unwrap_or(0);
    Ok(Idle {
        contestant: contestant.to_string(),
        before,
        with,
        resident_bytes: usage.resident_bytes,
        start_to_close_ms: Duration::from_micros(took_us).as_secs_f64() * 1_000.0,
    })
}

async fn first_closed(stage: &Stage) -> Result<i64, BenchError> {
    const SQL: &str = include_str!("../../../sql/bench_first.sql");
    let commit_times = crate::bench::load::server::Server::read(&stage.store).await?.commit_times;
    let client = stage.store.client().await?;
    let row = client.query_one(SQL, &[&commit_times]).await;
    let first: Option<i64> = stage.store.named("bench_first", row)?.get(0);
    Ok(first.unwrap_or_default())
}
