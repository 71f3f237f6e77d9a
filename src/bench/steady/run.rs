//! One contestant at one rate.

use std::time::{Duration, Instant};

use super::{
    measured::SteadyMeasured,
    pace::{Pace, Planned},
};
use crate::{
    bench::{
        contestant::Contestant,
        load::{DatabaseClock, Expected, Generator, Load, Outcome, Tables},
        stage::{BenchError, Running, Stage},
    },
    broker::Publisher,
};

/// Orders before, so that connections are open and statements planned.
const WARM_UP: usize = 200;
/// Until their deadline, beside the delay of their notices.
const SOON: Duration = Duration::from_millis(500);
/// A machine that takes longer to get ready is too slow for so many orders.
const LONGEST_PREPARATION: Duration = Duration::from_mins(5);

/// One contestant at one rate.
pub(super) struct SteadyRun<'a> {
    pub stage: &'a Stage,
    pub publisher: &'a Publisher,
    pub commit_times: bool,
    /// Orders per second.
    pub rate: u32,
    /// All of them.
    pub orders: usize,
}

impl SteadyRun<'_> {
    pub(super) async fn measure(
        &self,
        place: usize,
        contestant: &Contestant,
        generator: &mut Generator,
    ) -> Result<SteadyMeasured, BenchError> {
        let store = &self.stage.store;
        Tables { store, run: generator.run() }.reset().await?;
        let mut running = self.stage.start(place, contestant).await?;
        let warm = self.insert(&running, generator, "warm", WARM_UP, SOON).await?;
        self.publish(&running, contestant, &warm).await?;
        running.until_closed(store).await?;
        running.until_idle(store, contestant).await?;
        let mut preparation = SOON;
        let measured = loop {
            let name = format!("steady-{}", preparation.as_millis());
            let began = Instant::now();
            let load = self.insert(&running, generator, &name, self.orders, preparation).await?;
            if load.first_notice(&running) > Instant::now() {
                break self.close(&mut running, contestant, &load).await;
            }
            // Nothing of it was published. The next time there is more time.
            Tables { store, run: generator.run() }.reset().await?;
            preparation = began.elapsed() * 3 / 2 + SOON;
            if preparation > LONGEST_PREPARATION {
                let what = format!("{} orders were not ready in time", self.orders);
                break Err(BenchError::Stuck { what, waited: began.elapsed() });
            }
        };
        running.stop().await;
        measured
    }

    /// Orders that become due one after the other, the first one when there was time to prepare and to publish its notice.
    async fn insert(
        &self,
        running: &Running,
        generator: &mut Generator,
        name: &str,
        orders: usize,
        preparation: Duration,
    ) -> Result<Prepared, BenchError> {
        let clock = DatabaseClock::read(&self.stage.store).await?;
        let first_us = clock.us_in(preparation + running.longest_delay());
        let step_us = 1_000_000 / i64::from(self.rate.max(1));
        let at = |place: usize| first_us + step_us * i64::try_from(place).unwrap_or(i64::MAX);
        let load = generator.load(name, orders, at)?;
        let tables = Tables { store: &self.stage.store, run: generator.run() };
        tables.insert(&load).await?;
        tables.settle(&load).await?;
        Ok(Prepared { load, clock })
    }

    async fn publish(
        &self,
        running: &Running,
        contestant: &Contestant,
        prepared: &Prepared,
    ) -> Result<Duration, BenchError> {
        if !contestant.needs_notices() {
            return Ok(Duration::ZERO);
        }
        let Prepared { load, clock } = prepared;
        let pace = Pace { publisher: self.publisher, clock: *clock, load };
        // What lets a notice go before its time is for a worker that holds it.
        let ours = matches!(contestant, Contestant::Worker { .. });
        let plan = |place: usize| -> Result<Planned, BenchError> {
            let (before, route) = running.usual_route(place)?;
            if ours {
                return Ok(Planned { before, route, expires: false });
            }
            Ok(Planned { before, route: running.long_route()?, expires: true })
        };
        pace.publish(plan).await
    }

    async fn close(
        &self,
        running: &mut Running,
        contestant: &Contestant,
        prepared: &Prepared,
    ) -> Result<SteadyMeasured, BenchError> {
        let store = &self.stage.store;
        tokio::time::sleep_until(prepared.first_notice(running).into()).await;
        let before = self.stage.meters.read(&running.process_ids());
        let published_late = self.publish(running, contestant, prepared).await?;
        let last = prepared.load.due_us.last().copied().unwrap_or_default();
        tokio::time::sleep_until(prepared.clock.instant(last).into()).await;
        running.until_closed(store).await?;
        running.until_idle(store, contestant).await?;
        let after = self.stage.meters.read(&running.process_ids());
        let memory = running.usage();
        let load = &prepared.load;
        let (audited, commit_times) = (contestant.audits(), self.commit_times);
        let outcome = Outcome::read(store, Expected { load, audited, commit_times }).await?;
        Ok(SteadyMeasured {
            orders: load.orders.len(),
            late: outcome.late,
            cpu: before.until(&after),
            memory,
            published_late,
            paths: outcome.paths,
            broken: outcome.broken,
        })
    }
}

/// Orders in the tables, and when their deadlines are.
struct Prepared {
    load: Load,
    clock: DatabaseClock,
}

impl Prepared {
    /// When the first notice is to be published.
    fn first_notice(&self, running: &Running) -> Instant {
        let first = self.clock.instant(self.load.due_us.first().copied().unwrap_or_default());
        first.checked_sub(running.longest_delay()).unwrap_or(first)
    }
}
