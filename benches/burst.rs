//! A burst of orders that are due at one instant: time until the last order is committed. Measured for the worker, plain
//! SQL, a poller, a tutorial's consumer, and the broker alone.
//!
//! With `--locked`: lateness of 1,200 orders while another session has a lock on a row of stock that 300 others need.
//!
//! With `--frozen`: no byte passes between worker and broker, from some seconds before the instant until the last order is
//! closed.
//!
//! All close the same orders of the same shop, one after the other in each round, so that load of the machine affects all of
//! them. Notices are published to a level beforehand, each with an `expiration` that ends at the instant.

mod support;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use futures_util::{FutureExt, future::try_join_all};
use overdue::{Delay, Publisher, internals::broker::consume::Subscription};
use support::{
    Benchmark, Result,
    closers::{Closer, Running, TIMEOUT, Way},
    gate::{Gate, Settings},
    options::Options,
    report::Report,
    rivals::PlainSql,
    say,
    shop::{self, Clock, Generator, Notice, Order, Outcome, percentiles},
    stage::Stage,
};

const WAYS: [Way; 7] = [
    Way::Overdue,
    Way::OverdueX2,
    Way::OverdueX3,
    Way::PlainSql,
    Way::Poller,
    Way::Tutorial,
    Way::Broker,
];
/// The tutorial's design takes many times longer than the others: a sample is enough.
const TUTORIAL_AT_MOST: usize = 4_000;
/// Orders closed before the measurement, so that connections are open and statements planned: for all others, and for the
/// tutorial.
const WARM_UP: [usize; 2] = [2_000, 100];
/// Time from making the orders of the warm-up to their deadline, and the shortest time for the burst's.
const SOON: Duration = Duration::from_millis(1_500);
/// Usual time to publish and insert an order.
const USUAL: Duration = Duration::from_micros(150);
/// Everything must be ready this time before the first notice expires.
const MARGIN: Duration = Duration::from_millis(300);
/// A machine that needs longer is too slow for the number of orders.
const LONGEST_PREPARATION: Duration = Duration::from_mins(5);
/// Numbers of `--locked`: orders that do not need the locked row of stock, their rate, and their number for each order that
/// needs the row.
const FREE: usize = 1_200;
const FREE_PER_SECOND: i64 = 200;
const FREE_FOR_ONE_HELD: usize = 4;
/// SKU of the locked row: each tenth order has it.
const LOCKED_SKU: u32 = 0;
/// Delay of the notices with `--locked`.
const SHORT: Duration = Duration::from_secs(2);
/// Connections of plain SQL, and orders in a batch.
const CONNECTIONS: usize = 2;
const BATCH: usize = 500;
/// Most unacked deliveries, the limit of a quorum queue; and deliveries acked at once.
const PREFETCH: u16 = 2_000;
const ACKED_AT_ONCE: usize = 200;

/// The time to close many orders that are due at one instant
#[derive(Debug, Parser)]
struct Burst {
    /// Orders due at one instant; the tutorial closes at most 4,000
    #[arg(long, default_value_t = 20_000)]
    orders: usize,
    /// `delay.lead` of the worker's topology, e.g. 12s [default: 2s]
    #[arg(long)]
    lead: Option<String>,
    /// Measure instead 1,500 orders while another session has a lock on a row of stock, for this time. 300 of them need the
    /// row; the result is the lateness of the others, due at 200/s and at one instant
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "15")]
    locked: Option<u64>,
    /// Let no byte pass between worker and broker, from this time before the instant until the last order is closed
    #[arg(long, value_name = "SECONDS")]
    frozen: Option<f64>,
    /// Measure only these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Way>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Burst>()
}

impl Benchmark for Burst {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        self.orders = 200;
        self.locked = self.locked.map(|_| 2);
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let (orders, rounds) = (self.orders.max(1), self.options.rounds_or(5));
        let ways = if self.locked.is_some() { &WAYS[..1] } else { &WAYS };
        let closers = Closer::all(ways, &self.only, &self.options)?;
        let publisher = Publisher::connect(&stage.address, "bench: publishing").await?;
        let what = match self.locked {
            Some(seconds) => format!(
                "{FREE} orders of 2 items, 10,000 SKUs by Zipf, and as many more as need one row of stock that another session keeps \
                 locked for {seconds} s, one for {FREE_FOR_ONE_HELD}; lateness of those that do not need it; medians of {rounds} rounds"
            ),
            None => format!(
                "{orders} orders of 2 items, 10,000 SKUs by Zipf, due at one instant; took_s is to the last commit (of the broker \
                 alone, the last delivery); medians of {rounds} rounds"
            ),
        };
        let mut report = Report::new("burst", what, stage);
        let delays = match &self.lead {
            // A level must be at least twice as long as the lead.
            Some(lead) => {
                format!(
                    "delay.levels = [\"1h\"]\ndelay.lead = \"{lead}\"\nretry.after = [\"1h\"]\n"
                )
            }
            None => {
                "delay.levels = [\"2s\", \"10s\", \"1h\"]\nretry.after = [\"10s\"]\n".to_owned()
            }
        };
        if self.locked.is_none() {
            report.show(closers.iter().map(|closer| &closer.name));
        }
        let mut preparation = SOON + USUAL * u32::try_from(orders)?;
        for number in 1..=rounds {
            for step in 0..closers.len() {
                // The first contestant finds the machine in another state, so the order changes.
                let place = (step + number) % closers.len();
                let closer = &closers[place];
                say(&format!("round {number} of {rounds}: {}", closer.name));
                loop {
                    shop::reset(&stage.store).await?;
                    let (gate, settings) = self.gate(stage, closer).await?;
                    let running = closer.start_with(stage, place, &delays, &settings).await?;
                    let generator = Generator::new()?;
                    let mut round = Round {
                        stage,
                        publisher: &publisher,
                        closer,
                        running,
                        generator,
                        preparation,
                        gate,
                    };
                    round.warm_up(orders).await?;
                    if let Some(seconds) = self.locked {
                        let lasts = Duration::from_secs(seconds);
                        round.locked("at 200/s", Some(FREE_PER_SECOND), lasts, &mut report).await?;
                        round.locked("at one instant", None, lasts, &mut report).await?;
                        round.running.stop().await?;
                        break;
                    }
                    let is_measured = round.burst(orders, &mut report).await;
                    preparation = round.preparation;
                    round.running.stop().await?;
                    if is_measured? {
                        break;
                    }
                }
            }
        }
        for ours in closers.iter().filter(|closer| closer.way == Way::Overdue) {
            for other in closers.iter().filter(|other| other.way != Way::Overdue) {
                report.compare("took_s", &ours.name, &other.name);
            }
        }
        Ok(report)
    }
}

impl Burst {
    /// The gate between a worker and the broker if it will be shut, and how long before the instant; with the worker's
    /// setting.
    async fn gate(&self, stage: &Stage, closer: &Closer) -> Result<(Option<Shut>, Settings)> {
        let Some(seconds) = self.frozen.filter(|_| closer.is_worker()) else {
            return Ok((None, Vec::new()));
        };
        let (gate, settings) = Gate::before(&stage.environment).await?;
        Ok((Some((gate, Duration::try_from_secs_f64(seconds)?)), settings))
    }
}

type Shut = (Gate, Duration);

/// A round of one contestant.
struct Round<'a> {
    stage: &'a Stage,
    publisher: &'a Publisher,
    closer: &'a Closer,
    running: Running,
    generator: Generator,
    /// Time from the choice of the deadline to the deadline: enough to publish and insert everything.
    preparation: Duration,
    /// The gate to the broker, and how long before the instant it is shut.
    gate: Option<Shut>,
}

impl Round<'_> {
    async fn warm_up(&mut self, orders: usize) -> Result<()> {
        let most = match self.closer.way {
            Way::PlainSql | Way::Broker => return Ok(()),
            Way::Tutorial => WARM_UP[1],
            _ => WARM_UP[0],
        };
        let clock = Clock::read(&self.stage.store).await?;
        let due_us = clock.us_in(SOON);
        let orders = self.generator.orders("warm", orders.min(most), |_| due_us)?;
        self.prepare(clock, &orders).await?;
        self.running.until_closed(self.stage).await?;
        self.running.until_idle(self.stage, self.closer).await
    }

    async fn prepare(&self, clock: Clock, orders: &[Order]) -> Result<()> {
        let route = self.running.long_route()?;
        let early = if self.closer.is_worker() { route.early } else { Duration::ZERO };
        let notice = |order| {
            let (at, route) = (Instant::now(), route.clone());
            Notice { order, at, route, expires_early: Some(early) }
        };
        let with_notices = orders.iter().filter(|_| self.closer.needs_notices());
        let notices = with_notices.map(notice).collect();
        let publish = shop::publish(self.publisher, clock, notices);
        tokio::try_join!(publish, shop::insert(&self.stage.store, orders))?;
        Ok(())
    }

    /// Measures the lateness of orders while another session has a lock on a row of stock that other orders need. The orders are
    /// due at a rate or at one instant.
    async fn locked(
        &mut self,
        name: &str,
        per_second: Option<i64>,
        lasts: Duration,
        report: &mut Report,
    ) -> Result<()> {
        let (stage, free) = (self.stage, name.replace([' ', '/'], "-"));
        shop::reset(&stage.store).await?;
        let clock = Clock::read(&stage.store).await?;
        let first_us = clock.us_in(SOON + SHORT + USUAL * u32::try_from(2 * FREE)?);
        let step_us = per_second.map_or(0, |rate| 1_000_000 / rate);
        let due_us = |place: usize| first_us + step_us * i64::try_from(place).unwrap_or(i64::MAX);
        let (generator, held) = (&mut self.generator, ("held", FREE / FREE_FOR_ONE_HELD));
        let mut orders = generator.orders_with(LOCKED_SKU, false, (&free, FREE), due_us)?;
        orders.extend(
            generator
                .orders_with(LOCKED_SKU, true, held, |place| due_us(place * FREE_FOR_ONE_HELD))?,
        );
        orders.sort_by_key(|order| order.due_us);
        shop::insert(&stage.store, &orders).await?;
        let mut client = stage.store.client().await?;
        let transaction = client.transaction().await?;
        shop::lock(&transaction, LOCKED_SKU).await?;
        // In a queue a notice waits behind earlier notices: all have the same delay, or the same instant.
        let short = self.running.topology.route(TIMEOUT, &Delay::exactly(SHORT))?;
        let long = self.running.long_route()?;
        let notices = orders.iter().map(|order| {
            let at = clock.instant(order.due_us).checked_sub(SHORT).unwrap_or_else(Instant::now);
            if per_second.is_some() {
                return Notice { order, at, route: short.clone(), expires_early: None };
            }
            let expires_early = Some(long.early);
            Notice { order, at: Instant::now(), route: long.clone(), expires_early }
        });
        let late = shop::publish(self.publisher, clock, notices.collect()).await?;
        if per_second.is_none() && Instant::now() + long.early > clock.instant(first_us) {
            return Err("the orders were not ready in time".into());
        }
        tokio::time::sleep_until((clock.instant(first_us) + lasts).into()).await;
        transaction.rollback().await?;
        self.running.until_closed(stage).await?;
        self.running.until_idle(stage, self.closer).await?;
        let outcome = Outcome::read(stage, &free, FREE, true).await?;
        let line = format!("{name}, {}", self.closer.name);
        report.add(&line, outcome.late);
        report.add(&line, [("published_late_ms", late.as_secs_f64() * 1_000.0)]);
        report.note(&line, &outcome.paths);
        report.wrong(&line, outcome.wrong);
        Ok(())
    }

    /// Returns whether the burst was measured. Otherwise the deadline came before everything was ready, and the next attempt
    /// has more time.
    async fn burst(&mut self, orders: usize, report: &mut Report) -> Result<bool> {
        let is_tutorial = self.closer.way == Way::Tutorial;
        let count = if is_tutorial { orders.min(TUTORIAL_AT_MOST) } else { orders };
        let began = Instant::now();
        let clock = Clock::read(&self.stage.store).await?;
        let due_us = clock.us_in(self.preparation);
        let orders = self.generator.orders("burst", count, |_| due_us)?;
        self.prepare(clock, &orders).await?;
        let due = clock.instant(due_us);
        let lead =
            if self.closer.is_worker() { self.running.long_route()?.early } else { Duration::ZERO };
        let shut = self.gate.as_ref().map_or(Duration::ZERO, |(_, before)| *before);
        let first = due.checked_sub(lead.max(shut) + MARGIN).unwrap_or(due);
        if Instant::now() > first {
            self.preparation = began.elapsed() * 3 / 2 + SOON + lead.max(shut);
            if self.preparation > LONGEST_PREPARATION {
                return Err(format!("{count} orders were not ready in time").into());
            }
            // Unmeasured orders would be counted with the next burst.
            if self.closer.way == Way::Broker {
                self.receive(count).await?;
            } else if self.closer.needs_notices() {
                self.running.until_closed(self.stage).await?;
                self.running.until_idle(self.stage, self.closer).await?;
            }
            return Ok(false);
        }
        // The measurement begins at the same moment for all.
        tokio::time::sleep_until(first.into()).await;
        let before = self.stage.meters.read(&self.running.process_ids());
        let mut received = Vec::new();
        match self.closer.way {
            Way::PlainSql => self.plain_sql(&orders, due).await?,
            Way::Broker => received = self.receive(count).await?,
            _ => {
                if let Some((gate, before)) = &self.gate {
                    let at = due.checked_sub(*before).unwrap_or(due);
                    tokio::time::sleep_until(at.into()).await;
                    gate.shut();
                }
                tokio::time::sleep_until(due.into()).await;
                self.running.until_closed(self.stage).await?;
                if let Some((gate, _)) = &self.gate {
                    gate.open();
                }
            }
        }
        self.running.until_idle(self.stage, self.closer).await?;
        let after = self.stage.meters.read(&self.running.process_ids());
        let outcome = if self.closer.way == Way::Broker {
            let late = received.iter().map(|at| at.saturating_duration_since(due));
            let late = percentiles(["late_p50_ms", "late_p99_ms", "late_max_ms"], late);
            Outcome { late, ..Outcome::default() }
        } else {
            Outcome::read(self.stage, "burst", count, self.closer.audits()).await?
        };
        let name = &self.closer.name;
        let took_s = outcome.late.iter().map(|(_, ms)| ms / 1_000.0).fold(0.0, f64::max);
        report.add(name, [("took_s", took_s)]);
        report.add(name, outcome.late.into_iter().filter(|(name, _)| *name != "late_max_ms"));
        report.add(name, before.until(&after));
        report.add(name, self.running.peak());
        report
            .note(name, &if is_tutorial { format!("a sample of {count}") } else { outcome.paths });
        report.wrong(name, outcome.wrong);
        Ok(true)
    }

    /// Closes the same number of orders on each connection, in batches.
    async fn plain_sql(&self, orders: &[Order], due: Instant) -> Result<()> {
        let ids: Vec<&str> = orders.iter().map(|order| order.id.as_str()).collect();
        let share = ids.len().div_ceil(CONNECTIONS).max(1);
        let close = async |ids: &[&str]| {
            let mut plain_sql = PlainSql::open(&self.stage.store).await?;
            tokio::time::sleep_until(due.into()).await;
            for ids in ids.chunks(BATCH) {
                plain_sql.close(ids).await?;
            }
            Result::Ok(())
        };
        try_join_all(ids.chunks(share).map(close)).await.map(drop)
    }

    /// Acks all `messages`, and returns when each was received.
    async fn receive(&self, messages: usize) -> Result<Vec<Instant>> {
        let (link, queue) = (&self.running.link, &self.running.queues[0]);
        let mut subscription = Subscription::open(link, queue, PREFETCH).await?;
        let mut received = Vec::with_capacity(messages);
        while received.len() < messages {
            let mut last = subscription.next().await?;
            received.push(Instant::now());
            for _ in 1..ACKED_AT_ONCE {
                let Some(next) = subscription.next().now_or_never() else { break };
                last = next?;
                received.push(Instant::now());
            }
            subscription.ack_through(last.tag).await?;
        }
        Ok(received)
    }
}
