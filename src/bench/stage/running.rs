//! A contestant that runs, and waiting until it has done what it is to do.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{delays::Delays, error::BenchError};
use crate::{
    bench::{
        contestant::{Contestant, Process, ProcessError},
        usage::ProcessUsage,
    },
    broker::{Link, passive},
    store::{Store, StoreError},
    topology::Topology,
};

/// Between two looks: they cost the database a little, in the same way whoever closes the orders.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// For a contestant to start, and after the last deadline for it to close everything.
const PATIENCE: Duration = Duration::from_mins(3);
/// After the last message was taken from the queue: until it is acked.
const ACKS: Duration = Duration::from_millis(300);

/// A contestant that runs.
pub(crate) struct Running {
    /// Empty for one that is a part of this process.
    pub processes: Vec<Process>,
    /// For looking at queues, and for the consumer that only acks.
    pub link: Link,
    /// Where its notices come out.
    pub queue: String,
    /// Its own.
    pub topology: Topology,
    /// How long before its time a notice comes out.
    pub lead: Duration,
    /// How the notices of a steady load wait.
    pub delays: Delays,
}

impl Running {
    pub(super) fn new(
        processes: Vec<Process>,
        link: Link,
        queue: String,
        topology: Topology,
        delays: Delays,
    ) -> Self {
        Self { processes, link, queue, topology, lead: Duration::ZERO, delays }
    }

    /// The processes that close the orders: its own or this one.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        if self.processes.is_empty() {
            return vec![std::process::id()];
        }
        self.processes.iter().map(Process::id).collect()
    }

    /// What its own processes have used; nothing where it has none.
    pub(crate) fn usage(&self) -> ProcessUsage {
        self.processes.iter().filter_map(Process::usage).sum()
    }

    /// Waits until each of its processes consumes from its queue.
    pub(super) async fn until_all_consume(&mut self) -> Result<(), BenchError> {
        let began = Instant::now();
        let expected = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        while passive::consumers(&self.link, &self.queue).await?.unwrap_or_default() < expected {
            self.wait(began, || "nobody consumes the notices".to_owned()).await?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), ProcessError> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// Waits until no order is unpaid; after the patience is over, returns all the same: what is unpaid is counted.
    ///
    /// # Errors
    /// The contestant has ended, or the database does not answer.
    pub(crate) async fn until_closed(&mut self, store: &Store) -> Result<(), BenchError> {
        const SQL: &str = include_str!("../../../sql/bench_open.sql");
        let began = Instant::now();
        while ask(store, "bench_open", SQL).await? && began.elapsed() < PATIENCE {
            self.check()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until it has nothing more to do: no notice waits, and no event of those that it publishes.
    ///
    /// # Errors
    /// It goes on for too long, has ended, or nobody answers.
    pub(crate) async fn until_idle(
        &mut self,
        store: &Store,
        contestant: &Contestant,
    ) -> Result<(), BenchError> {
        const SQL: &str = include_str!("../../../sql/bench_outbox.sql");
        let began = Instant::now();
        let waiting = self.topology.delay_queues().map(|(_, queue)| queue);
        let queues: Vec<String> = waiting.chain([self.queue.clone()]).collect();
        for queue in queues.into_iter().filter(|_| contestant.needs_notices()) {
            while passive::ready(&self.link, &queue).await?.unwrap_or_default() > 0 {
                self.wait(began, || format!("there are still messages in {queue}")).await?;
            }
        }
        while contestant.publishes_events() && ask(store, "bench_outbox", SQL).await? {
            self.wait(began, || "there are still events in the outbox".to_owned()).await?;
        }
        tokio::time::sleep(ACKS).await;
        Ok(())
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        join_all(self.processes.into_iter().map(Process::stop)).await;
        self.link.close().await;
    }

    async fn wait(&mut self, began: Instant, what: impl Fn() -> String) -> Result<(), BenchError> {
        self.check()?;
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Stuck { what: what(), waited: PATIENCE });
        }
        tokio::time::sleep(LOOK_EVERY).await;
        Ok(())
    }
}

async fn ask(store: &Store, name: &'static str, sql: &str) -> Result<bool, StoreError> {
    let client = store.client().await?;
    let statement = store.named(name, client.prepare_cached(sql).await)?;
    Ok(store.named(name, client.query_one(&statement, &[]).await)?.get(0))
}
