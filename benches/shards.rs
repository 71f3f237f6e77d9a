//! A timeout with several queues: how fast what is due at one instant leaves its level, is consumed, and is closed, with so many
//! shards and so many workers. For a cluster: `docker/services.sh up cluster`.
//!
//! The broker alone is measured with as many consumers of each shard as there are workers, which only ack: what the worker and the
//! database add is the difference.

mod support;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use clap::Parser;
use futures_util::{FutureExt, future::try_join_all};
use overdue::{
    Publisher,
    internals::broker::{Link, consume::Subscription},
};
use support::{
    Benchmark, Result,
    closers::{Closer, Running, Way},
    options::Options,
    report::Report,
    say,
    shop::{self, Clock, Generator, Notice, Order, Outcome, per_second, percentiles},
    stage::Stage,
};

/// Until everything is published and inserted, and what an order takes.
const SOON: Duration = Duration::from_secs(3);
const USUAL: Duration = Duration::from_micros(250);
/// Everything is ready so long before the first notice comes out.
const MARGIN: Duration = Duration::from_millis(300);
/// Unsettled deliveries of a shard; deliveries acked at once, and until others are looked for.
const PREFETCH: u16 = 2_000;
const ACKED_AT_ONCE: usize = 200;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How much more several queues of one timeout carry than one
#[derive(Debug, Parser)]
struct Shards {
    /// Orders due at one instant
    #[arg(long, default_value_t = 20_000)]
    orders: usize,
    /// Numbers of shards, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    shards: Vec<u16>,
    /// Numbers of workers, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    workers: Vec<usize>,
    /// Only the broker with consumers that ack, or only workers
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Way>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Shards>()
}

impl Benchmark for Shards {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        (self.orders, self.shards, self.workers) = (200, vec![1, 2], vec![1, 2]);
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let (orders, rounds) = (self.orders.max(1), self.options.rounds_or(3));
        let programs = self.options.programs();
        let mut closers = Vec::new();
        for way in [Way::Broker, Way::Overdue] {
            for shards in &self.shards {
                for workers in &self.workers {
                    if self.only.is_empty() || self.only.contains(&way) {
                        closers.push(Closer::crew(way, programs[0].0.clone(), *workers, *shards));
                    }
                }
            }
        }
        let publisher = Publisher::connect(&stage.address, "bench: publishing").await?;
        let what = format!(
            "{orders} orders of 2 items, due at one instant; per_s is to the last commit (of the broker alone, the last delivery); \
             medians of {rounds} rounds"
        );
        let mut report = Report::new("shards", what, stage);
        report.show(closers.iter().map(|closer| &closer.name));
        let mut preparation = SOON + USUAL * u32::try_from(orders)?;
        for number in 1..=rounds {
            for step in 0..closers.len() {
                let place = (step + number) % closers.len();
                let closer = &closers[place];
                say(&format!("round {number} of {rounds}: {}", closer.name));
                loop {
                    shop::reset(&stage.store).await?;
                    let delays =
                        "delay.levels = [\"2s\", \"10s\", \"1h\"]\nretry.after = [\"10s\"]\n";
                    let mut running = closer.start(stage, place, delays).await?;
                    let round = Round { stage, publisher: &publisher, closer, preparation };
                    let is_measured = round.measure(orders, &mut running, &mut report).await;
                    running.stop().await?;
                    if is_measured? {
                        break;
                    }
                    preparation = preparation * 3 / 2;
                }
            }
        }
        Ok(report)
    }
}

/// One combination, once.
struct Round<'a> {
    stage: &'a Stage,
    publisher: &'a Publisher,
    closer: &'a Closer,
    /// From the choice of the deadline to the deadline.
    preparation: Duration,
}

impl Round<'_> {
    /// False where the deadline came before everything was ready: then there is to be more time.
    async fn measure(
        &self,
        count: usize,
        running: &mut Running,
        report: &mut Report,
    ) -> Result<bool> {
        let clock = Clock::read(&self.stage.store).await?;
        let due_us = clock.us_in(self.preparation);
        let due = clock.instant(due_us);
        let orders = Generator::new()?.orders("burst", count, |_| due_us)?;
        let route = running.long_route()?;
        let lead = if self.closer.is_worker() { route.early } else { Duration::ZERO };
        let notice = |order| Notice {
            order,
            at: Instant::now(),
            route: route.clone(),
            expires_early: Some(lead),
        };
        let notices = orders.iter().map(notice).collect();
        let publish = shop::publish(self.publisher, clock, notices);
        tokio::try_join!(publish, shop::insert(&self.stage.store, &orders))?;
        let first = due.checked_sub(lead + MARGIN).unwrap_or(due);
        if Instant::now() > first {
            self.settle(&orders, running).await?;
            return Ok(false);
        }
        tokio::time::sleep_until(first.into()).await;
        let before = self.stage.meters.read(&running.process_ids());
        let received = self.settle(&orders, running).await?;
        let after = self.stage.meters.read(&running.process_ids());
        let outcome = if self.closer.is_worker() {
            Outcome::read(self.stage, "burst", count, true).await?
        } else {
            let late = received.iter().map(|at| at.saturating_duration_since(due));
            let late = percentiles(["late_p50_ms", "late_p99_ms", "late_max_ms"], late);
            Outcome { late, ..Outcome::default() }
        };
        let name = &self.closer.name;
        let took_ms = outcome.late.iter().map(|(_, ms)| *ms).fold(0.0, f64::max).max(1.0);
        let took = Duration::from_secs_f64(took_ms / 1_000.0);
        report.add(name, [("per_s", per_second(count, took))]);
        report.add(name, outcome.late);
        report.add(name, before.until(&after));
        report.note(name, &outcome.paths);
        report.wrong(name, outcome.wrong);
        Ok(true)
    }

    /// Waits until all of them are closed, or receives all of their messages; when each of these was received.
    async fn settle(&self, orders: &[Order], running: &mut Running) -> Result<Vec<Instant>> {
        if self.closer.is_worker() {
            running.until_closed(self.stage).await?;
            running.until_idle(self.stage, self.closer).await?;
            return Ok(Vec::new());
        }
        let (seen, all) = (AtomicUsize::new(0), orders.len());
        let consumers = running.queues.iter().flat_map(|queue| {
            let seen = &seen;
            (0..self.closer.workers).map(move |_| self.receive(queue, seen, all))
        });
        Ok(try_join_all(consumers).await?.concat())
    }

    /// One consumer of a shard, on a connection of its own, until all of them together have got everything.
    async fn receive(&self, queue: &str, seen: &AtomicUsize, all: usize) -> Result<Vec<Instant>> {
        let link = Link::open(&self.stage.address, "bench: receiving").await?;
        let mut subscription = Subscription::open(&link, queue, PREFETCH).await?;
        let mut received = Vec::new();
        while seen.load(Ordering::Relaxed) < all {
            let next = tokio::time::timeout(LOOK_EVERY, subscription.next()).await;
            let Ok(next) = next else { continue };
            let (mut last, mut count) = (next?, 1);
            received.push(Instant::now());
            while count < ACKED_AT_ONCE {
                let Some(next) = subscription.next().now_or_never() else { break };
                last = next?;
                count += 1;
                received.push(Instant::now());
            }
            subscription.ack_through(last.tag).await?;
            seen.fetch_add(count, Ordering::Relaxed);
        }
        drop(subscription);
        link.close().await;
        Ok(received)
    }
}
