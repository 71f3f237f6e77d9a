//! Orders that become due one after the other, at several rates: their lateness, and the cost. Measured for the worker, a
//! poller and a tutorial's consumer. Notices are published while others expire, as by order services.
//!
//! Also a worker without work: its cost, and the time from its start to the first closed order.

mod support;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use overdue::{Delay, Publisher};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use support::{
    Benchmark, Result,
    closers::{Closer, Running, TIMEOUT, Way},
    gate::{Gate, Settings},
    options::Options,
    report::{Number, Report},
    rivals::PlainSql,
    say,
    shop::{self, Clock, Generator, Notice, Order, Outcome, percentiles},
    stage::Stage,
    until,
};

const WAYS: [Way; 4] = [Way::Overdue, Way::OverdueNoEvents, Way::Poller, Way::Tutorial];
/// Orders closed before the measurement, so that connections are open and statements planned.
const WARM_UP: usize = 200;
/// Time until the deadline, in addition to the delay of the notices.
const SOON: Duration = Duration::from_millis(500);
/// A machine that needs longer is too slow for the number of orders.
const LONGEST_PREPARATION: Duration = Duration::from_mins(5);
/// Limit of orders, which shortens runs at high rates: the tables of this number are made in a minute.
const MOST_ORDERS: usize = 200_000;
/// Delay of notices in a level, and longest delay in a ladder.
const SHORT: Duration = Duration::from_secs(2);
const LONGEST_MS: u64 = 10_000;
/// Orders closed one after the other on the idle database.
const FLOOR: usize = 200;
/// Polling interval until a notice has expired.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The lateness of orders that become due one after the other, and the cost
#[derive(Debug, Parser)]
struct Steady {
    /// Orders that become due per second, separated by commas
    #[arg(long, default_values_t = [10, 200, 1_000, 5_000], value_delimiter = ',')]
    rates: Vec<u32>,
    /// Rates at which contestants other than the worker are measured, too
    #[arg(long, default_values_t = [200], value_delimiter = ',', value_name = "RATES")]
    rivals_at: Vec<u32>,
    /// Seconds at each rate; fewer if there would be more than 200,000 orders
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Seconds for which a worker without work is measured; 0 leaves it out
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// Each notice waits in a ladder, for a random time up to 10 s; only the worker is measured
    #[arg(long)]
    random_delays: bool,
    /// Let no byte pass between worker and broker, from this time before the first deadline until the last order is closed
    #[arg(long, value_name = "SECONDS", conflicts_with = "unreachable")]
    frozen: Option<f64>,
    /// Start the worker without a broker, and publish no notices
    #[arg(long)]
    unreachable: bool,
    /// Measure only these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Way>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Steady>()
}

impl Benchmark for Steady {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        (self.rates, self.rivals_at) = (vec![100], vec![100]);
        (self.seconds, self.idle) = (1, 1);
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let ways = if self.random_delays { &WAYS[..1] } else { &WAYS };
        let closers = Closer::all(ways, &self.only, &self.options)?;
        let (rounds, seconds) = (self.options.rounds_or(1), self.seconds);
        let own = if self.random_delays { ", each with a delay of its own up to 10 s" } else { "" };
        let what = format!(
            "orders of 2 items, 10,000 SKUs by Zipf, due one after the other for {seconds} s{own}; medians of {rounds} rounds"
        );
        let mut report = Report::new("steady", what, stage);
        let publisher = Publisher::connect(&stage.address, "bench: publishing").await?;
        say("one order after the other on the idle database");
        report.add("one committed statement, idle database", floor(stage).await?);
        for number in 1..=rounds {
            for &rate in &self.rates {
                for step in 0..closers.len() {
                    let place = (step + number) % closers.len();
                    let closer = &closers[place];
                    if closer.way != Way::Overdue && !self.rivals_at.contains(&rate) {
                        continue;
                    }
                    say(&format!("round {number} of {rounds}: {rate}/s, {}", closer.name));
                    let gate = self.gate(stage, closer).await?;
                    let publisher = &publisher;
                    let run = Run { steady: self, stage, publisher, closer, place, gate };
                    run.at_rate(rate, &mut report).await?;
                }
            }
        }
        for (place, closer) in closers.iter().enumerate() {
            if closer.way == Way::Overdue && self.idle > 0 {
                say(&format!("{}: idle, and from its start to the first close", closer.name));
                let (publisher, gate) = (&publisher, None);
                let run = Run { steady: self, stage, publisher, closer, place, gate };
                run.idle(&mut report).await?;
            }
        }
        for rate in &self.rates {
            let [with, without] = [Way::Overdue, Way::OverdueNoEvents].map(|way| {
                let closer = closers.iter().find(|closer| closer.way == way);
                closer.map_or(String::new(), |closer| line(*rate, closer))
            });
            report.compare("worker_cpu_s", &with, &without);
            report.compare("database_cpu_s", &with, &without);
        }
        Ok(report)
    }
}

impl Steady {
    /// The gate between a worker and the broker if it will be shut, with the worker's setting.
    async fn gate(&self, stage: &Stage, closer: &Closer) -> Result<Option<(Gate, Settings)>> {
        if !closer.is_worker() || self.frozen.is_none() && !self.unreachable {
            return Ok(None);
        }
        Gate::before(&stage.environment).await.map(Some)
    }
}

fn line(rate: u32, closer: &Closer) -> String {
    format!("{rate}/s, {}", closer.name)
}

/// The floor: a committed statement per order, with its audit row, its event and its stock.
async fn floor(stage: &Stage) -> Result<Vec<Number>> {
    let due_us = Clock::read(&stage.store).await?.us_in(Duration::ZERO);
    let orders = Generator::new()?.orders("floor", FLOOR, |_| due_us)?;
    shop::reset(&stage.store).await?;
    shop::insert(&stage.store, &orders).await?;
    let mut times = Vec::with_capacity(FLOOR);
    let mut plain_sql = PlainSql::open(&stage.store).await?;
    for order in &orders {
        let sent = Instant::now();
        plain_sql.close(&[order.id.as_str()]).await?;
        times.push(sent.elapsed());
    }
    Ok(percentiles(["late_p50_ms", "late_p99_ms", "late_max_ms"], times))
}

struct Run<'a> {
    steady: &'a Steady,
    stage: &'a Stage,
    publisher: &'a Publisher,
    closer: &'a Closer,
    place: usize,
    gate: Option<(Gate, Settings)>,
}

/// Orders in the tables, and the clock of their deadlines.
struct Prepared {
    orders: Vec<Order>,
    clock: Clock,
}

impl Run<'_> {
    fn delays(&self) -> &'static str {
        if self.steady.random_delays {
            "[delay]\nstrategy = \"ladder\"\n[delay.ladder]\nmax = \"1h\"\n"
        } else {
            "delay.levels = [\"2s\", \"10s\", \"1h\"]\nretry.after = [\"10s\"]\n"
        }
    }

    fn has_notices(&self) -> bool {
        self.closer.needs_notices() && !self.steady.unreachable
    }

    const fn longest_delay(&self) -> Duration {
        if self.steady.random_delays { Duration::from_millis(LONGEST_MS) } else { SHORT }
    }

    async fn at_rate(&self, rate: u32, report: &mut Report) -> Result<()> {
        shop::reset(&self.stage.store).await?;
        let Self { stage, closer, place, .. } = *self;
        let mut generator = Generator::new()?;
        let mut running = match &self.gate {
            Some((gate, settings)) if self.steady.unreachable => {
                gate.shut();
                closer.spawn(stage, place, self.delays(), settings).await?
            }
            gate => {
                let settings = gate.as_ref().map_or(&[][..], |(_, settings)| settings);
                let mut running = closer.start_with(stage, place, self.delays(), settings).await?;
                let warm = self.insert(rate, &mut generator, "warm", WARM_UP, SOON).await?;
                self.publish(&running, &warm).await?;
                running.until_closed(stage).await?;
                running.until_idle(stage, closer).await?;
                running
            }
        };
        let seconds = usize::try_from(self.steady.seconds)?;
        let count = usize::try_from(rate)?.saturating_mul(seconds).clamp(1, MOST_ORDERS);
        let frozen = Duration::try_from_secs_f64(self.steady.frozen.unwrap_or_default())?;
        let mut preparation = SOON + frozen;
        loop {
            let name = format!("steady-{}", preparation.as_millis());
            let began = Instant::now();
            let prepared = self.insert(rate, &mut generator, &name, count, preparation).await?;
            let due = prepared.clock.instant(prepared.orders[0].due_us);
            let first = due.checked_sub(self.longest_delay().max(frozen)).unwrap_or(due);
            if first > Instant::now() {
                if let Some((gate, _)) = &self.gate {
                    let shut = due.checked_sub(frozen).unwrap_or(due);
                    tokio::time::sleep_until(shut.into()).await;
                    gate.shut();
                }
                let first = due.checked_sub(self.longest_delay()).unwrap_or(due);
                tokio::time::sleep_until(first.into()).await;
                self.close(rate, &mut running, &name, &prepared, report).await?;
                return running.stop().await;
            }
            // No notice was published yet. The next attempt has more time.
            shop::reset(&self.stage.store).await?;
            preparation = began.elapsed() * 3 / 2 + SOON + frozen;
            if preparation > LONGEST_PREPARATION {
                return Err(format!("{count} orders were not ready in time").into());
            }
        }
    }

    /// Inserts orders that become due one after the other. The first deadline leaves time to prepare and to publish its
    /// notice.
    async fn insert(
        &self,
        rate: u32,
        generator: &mut Generator,
        name: &str,
        count: usize,
        preparation: Duration,
    ) -> Result<Prepared> {
        let clock = Clock::read(&self.stage.store).await?;
        let first_us = clock.us_in(preparation + self.longest_delay());
        let step_us = 1_000_000 / i64::from(rate.max(1));
        let due_us = |place| first_us + step_us * i64::try_from(place).unwrap_or(i64::MAX);
        let orders = generator.orders(name, count, due_us)?;
        shop::insert(&self.stage.store, &orders).await?;
        Ok(Prepared { orders, clock })
    }

    /// Publishes each notice its delay before the deadline; returns the lateness of the latest one.
    async fn publish(&self, running: &Running, prepared: &Prepared) -> Result<Duration> {
        let Prepared { orders, clock } = prepared;
        let mut notices = Vec::with_capacity(orders.len());
        for (place, order) in (0..).zip(orders).filter(|_| self.has_notices()) {
            let delay = if self.steady.random_delays {
                let ms = StdRng::seed_from_u64(place).random_range(1..=LONGEST_MS);
                Duration::from_millis(ms)
            } else {
                SHORT
            };
            let due = clock.instant(order.due_us);
            // Early expiry is only for a worker, which keeps the notice until the deadline.
            let (route, expires_early) = if self.closer.is_worker() {
                (running.topology.route(TIMEOUT, &Delay::exactly(delay))?, None)
            } else {
                (running.long_route()?, Some(Duration::ZERO))
            };
            let at = due.checked_sub(delay).unwrap_or(due);
            notices.push(Notice { order, at, route, expires_early });
        }
        shop::publish(self.publisher, *clock, notices).await
    }

    async fn close(
        &self,
        rate: u32,
        running: &mut Running,
        name: &str,
        prepared: &Prepared,
        report: &mut Report,
    ) -> Result<()> {
        let Self { stage, closer, .. } = self;
        let before = stage.meters.read(&running.process_ids());
        let published_late = self.publish(running, prepared).await?;
        let last_us = prepared.orders.last().map_or(0, |order| order.due_us);
        tokio::time::sleep_until(prepared.clock.instant(last_us).into()).await;
        running.until_closed(stage).await?;
        if let Some((gate, _)) = &self.gate {
            gate.open();
        }
        if !self.steady.unreachable {
            running.until_idle(stage, closer).await?;
        }
        let after = stage.meters.read(&running.process_ids());
        let outcome = Outcome::read(stage, name, prepared.orders.len(), closer.audits()).await?;
        let line = line(rate, closer);
        report.add(&line, outcome.late);
        report.add(&line, before.until(&after));
        let published_late = published_late.as_secs_f64() * 1_000.0;
        report.add(&line, running.peak());
        report.add(&line, [("published_late_ms", published_late)]);
        report.note(&line, &outcome.paths);
        report.wrong(&line, outcome.wrong);
        Ok(())
    }

    /// Measures a worker without work for a while, and then the start of another one.
    async fn idle(&self, report: &mut Report) -> Result<()> {
        const FIRST: &str = include_str!("sql/first.sql");
        let Self { stage, closer, .. } = self;
        let name = format!("idle, {}", closer.name);
        let time = Duration::from_secs(self.steady.idle);
        shop::reset(&stage.store).await?;
        let nobody = stage.meters.read(&[]);
        tokio::time::sleep(time).await;
        report.add("idle, no worker", nobody.until(&stage.meters.read(&[])));
        let running = closer.start(stage, self.place, self.delays()).await?;
        // The start of a worker is not measured as idle.
        tokio::time::sleep(time / 4).await;
        let reading = stage.meters.read(&running.process_ids());
        tokio::time::sleep(time).await;
        report.add(&name, reading.until(&stage.meters.read(&running.process_ids())));
        report.add(&name, running.peak());
        let (route, queue) = (running.long_route()?, running.queues[0].clone());
        running.stop().await?;

        let clock = Clock::read(&stage.store).await?;
        let due_us = clock.us_in(SOON);
        let orders = Generator::new()?.orders("start", 1, |_| due_us)?;
        shop::insert(&stage.store, &orders).await?;
        let (at, expires_early) = (Instant::now(), Some(route.early));
        let notice = Notice { order: &orders[0], at, route, expires_early };
        shop::publish(self.publisher, clock, vec![notice]).await?;
        let link = overdue::internals::broker::Link::open(&stage.address, "bench: looking").await?;
        let channel = link.channel().await?;
        until("the notice does not come out", LOOK_EVERY, async || {
            let is_out = support::closers::counts(&channel, &queue).await?.0 > 0;
            Ok((is_out && clock.instant(due_us) <= Instant::now()).then_some(()))
        })
        .await?;
        let started_us = clock.us_in(Duration::ZERO);
        let mut running = closer.start(stage, self.place, self.delays()).await?;
        running.until_closed(stage).await?;
        let client = stage.store.client().await?;
        let closed_us: i64 = client.query_one(FIRST, &[&stage.server.commit_times]).await?.get(0);
        let took = Duration::from_micros(u64::try_from(closed_us - started_us)?);
        report.add(&name, [("start_to_close_s", took.as_secs_f64())]);
        running.stop().await
    }
}
