//! One burst of one contestant.

use std::time::{Duration, Instant};

use super::{
    measured::Measured,
    size::{BATCH, BurstSize, TUTORIAL_AT_MOST},
};
use crate::{
    bench::{
        contestant::{Contestant, broker_alone, plain_sql},
        load::{DatabaseClock, Expected, Generator, Load, Notices, Outcome, Tables},
        stage::{BenchError, Running, Stage},
    },
    broker::Publisher,
    statistics::Percentiles,
};

/// Orders that are closed before, so that connections are open and statements planned.
const WARM_UP: usize = 2_000;
/// What the tutorial needs of these.
const WARM_UP_ONE_BY_ONE: usize = 100;
/// From making the orders of the warm-up to their deadline, and the least time for the burst's.
const SOON: Duration = Duration::from_millis(1_500);
/// What an order takes to be published and inserted, as a rule.
const USUAL: Duration = Duration::from_micros(150);
/// Everything is ready so long before the first notice comes out.
const MARGIN: Duration = Duration::from_millis(300);
/// A machine that takes longer to get ready is too slow for so many orders.
const LONGEST_PREPARATION: Duration = Duration::from_mins(5);
/// Connections of plain SQL.
const CONNECTIONS: usize = 2;

/// What all rounds have in common.
pub(super) struct Round<'a> {
    stage: &'a Stage,
    publisher: &'a Publisher,
    size: BurstSize,
    commit_times: bool,
    /// From the choice of the deadline to the deadline: enough to publish and insert everything before.
    preparation: Duration,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        stage: &'a Stage,
        publisher: &'a Publisher,
        size: BurstSize,
        commit_times: bool,
    ) -> Self {
        let orders = u32::try_from(size.orders).unwrap_or(u32::MAX);
        let preparation = SOON + USUAL.saturating_mul(orders);
        Self { stage, publisher, size, commit_times, preparation }
    }

    /// A burst, once there was enough time to prepare one.
    pub(super) async fn run(
        &mut self,
        place: usize,
        contestant: &Contestant,
        generator: &mut Generator,
    ) -> Result<Measured, BenchError> {
        loop {
            let tables = Tables { store: &self.stage.store, run: &generator.run().clone() };
            tables.reset().await?;
            let mut running = self.stage.start(place, contestant).await?;
            self.warm_up(&mut running, contestant, generator).await?;
            let measured = self.burst(&mut running, contestant, generator).await;
            running.stop().await;
            if let Some(measured) = measured? {
                return Ok(measured);
            }
        }
    }

    async fn warm_up(
        &self,
        running: &mut Running,
        contestant: &Contestant,
        generator: &mut Generator,
    ) -> Result<(), BenchError> {
        let orders = match contestant {
            Contestant::PlainSql | Contestant::Broker => return Ok(()),
            Contestant::Tutorial => WARM_UP_ONE_BY_ONE,
            Contestant::Worker { .. } | Contestant::Poller => WARM_UP,
        };
        let clock = DatabaseClock::read(&self.stage.store).await?;
        let due_us = clock.us_in(SOON);
        let load = generator.load("warm", orders.min(self.size.orders), |_| due_us)?;
        self.prepare(running, contestant, generator, &load, clock).await?;
        running.until_closed(&self.stage.store).await?;
        running.until_idle(&self.stage.store, contestant).await
    }

    /// `None` where the deadline came before everything was ready; the next time there is more time.
    async fn burst(
        &mut self,
        running: &mut Running,
        contestant: &Contestant,
        generator: &mut Generator,
    ) -> Result<Option<Measured>, BenchError> {
        let orders = match contestant {
            Contestant::Tutorial => self.size.orders.min(TUTORIAL_AT_MOST),
            _ => self.size.orders,
        };
        let clock = DatabaseClock::read(&self.stage.store).await?;
        let began = Instant::now();
        let due_us = clock.us_in(self.preparation);
        let due = clock.instant(due_us);
        let load = generator.load("burst", orders, |_| due_us)?;
        self.prepare(running, contestant, generator, &load, clock).await?;
        Tables { store: &self.stage.store, run: generator.run() }.settle(&load).await?;
        let first = due.checked_sub(running.lead + MARGIN).unwrap_or(due);
        if Instant::now() > first {
            self.preparation = began.elapsed() * 3 / 2 + SOON + running.lead;
            // What was prepared in vain would be counted with the next burst.
            if matches!(contestant, Contestant::Broker) {
                let consumer = broker_alone::Consumer::open(&running.link, &running.queue).await?;
                consumer.receive(orders).await?;
            } else if contestant.needs_notices() {
                running.until_closed(&self.stage.store).await?;
                running.until_idle(&self.stage.store, contestant).await?;
            }
            let what = || format!("{orders} orders were not ready in time");
            return if self.preparation > LONGEST_PREPARATION {
                Err(BenchError::Stuck { what: what(), waited: began.elapsed() })
            } else {
                Ok(None)
            };
        }
        // What is counted begins at the same moment for all.
        tokio::time::sleep_until(first.into()).await;
        self.measure(running, contestant, &load, due).await.map(Some)
    }

    async fn prepare(
        &self,
        running: &Running,
        contestant: &Contestant,
        generator: &Generator,
        load: &Load,
        clock: DatabaseClock,
    ) -> Result<(), BenchError> {
        let tables = Tables { store: &self.stage.store, run: generator.run() };
        let route = running.long_route()?;
        let notices =
            Notices { publisher: self.publisher, route: &route, lead: running.lead, clock };
        let publish = async {
            if contestant.needs_notices() {
                notices.publish(load).await?;
            }
            Ok::<(), BenchError>(())
        };
        let insert = async { Ok(tables.insert(load).await?) };
        tokio::try_join!(publish, insert).map(drop)
    }

    async fn measure(
        &self,
        running: &mut Running,
        contestant: &Contestant,
        load: &Load,
        due: Instant,
    ) -> Result<Measured, BenchError> {
        let store = &self.stage.store;
        let before = self.stage.meters.read(&running.process_ids());
        let received = match contestant {
            Contestant::PlainSql => {
                plain_sql::close(store, &load.orders, due, CONNECTIONS, BATCH).await?;
                None
            }
            Contestant::Broker => {
                let consumer = broker_alone::Consumer::open(&running.link, &running.queue).await?;
                Some(consumer.receive(load.orders.len()).await?)
            }
            _ => {
                tokio::time::sleep_until(due.into()).await;
                running.until_closed(store).await?;
                None
            }
        };
        running.until_idle(store, contestant).await?;
        let after = self.stage.meters.read(&running.process_ids());
        let memory = running.usage();
        let outcome = if let Some(received) = received {
            delivered(&received, due)
        } else {
            let (audited, commit_times) = (contestant.audits(), self.commit_times);
            Outcome::read(store, Expected { load, audited, commit_times }).await?
        };
        let Outcome { late, paths, broken } = outcome;
        Ok(Measured {
            orders: load.orders.len(),
            late,
            cpu: before.until(&after),
            memory,
            paths,
            broken,
        })
    }
}

fn delivered(received: &[Instant], due: Instant) -> Outcome {
    let late = received.iter().map(|at| at.saturating_duration_since(due));
    Outcome { late: Percentiles::of(late).unwrap_or_default(), ..Outcome::default() }
}
