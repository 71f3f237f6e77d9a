//! A day of 17,280,000 orders at 200 per second, compressed to the requested rate: whether workers use more at its end than
//! at its beginning, and are later. Each order is written with `schedule()`, so every part of a worker takes part.

#[allow(unreachable_pub, reason = "it is a module of the faults' tests as well")]
#[path = "../tests/chaos/storm/usage.rs"]
mod growth;
mod support;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use growth::{Usage, grown, quarters};
use overdue::Store;
use support::{
    Benchmark, Result,
    closers::{Closer, Running, Way},
    options::Options,
    report::Report,
    say,
    stage::Stage,
    until,
};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Interval of inserts; each insert has the orders of the rate.
const TICK: Duration = Duration::from_millis(100);
/// Time from the insert to the deadline.
const AFTER_MS: i64 = 2_000;
const PARTS: i64 = 4;
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A day of orders, compressed: whether workers use more at its end, and are later
#[derive(Debug, Parser)]
struct Day {
    /// All of them; a day at 200 per second
    #[arg(long, default_value_t = 17_280_000)]
    orders: i64,
    /// Orders per second
    #[arg(long, default_value_t = 4_000)]
    rate: u32,
    /// Workers
    #[arg(long, default_value_t = 2)]
    workers: usize,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Day>()
}

impl Benchmark for Day {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        (self.orders, self.rate) = (400, 100);
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let what = format!(
            "{} orders without items, {} per second, due {AFTER_MS} ms after they are written; {} workers",
            self.orders, self.rate, self.workers
        );
        let mut report = Report::new("day", what, stage);
        let program = self.options.programs().swap_remove(0).0;
        let closer = Closer::crew(Way::Overdue, program, self.workers);
        let delays = "delay.levels = [\"2s\", \"10s\", \"1h\"]\nretry.after = [\"10s\"]\n";
        let mut running = closer.start(stage, 0, delays).await?;
        running.until_scheduled(stage).await?;
        let processes = running.process_ids();
        let before = stage.meters.read(&processes);
        let mut samples = vec![Vec::new(); self.workers];
        tokio::select! {
            written = self.write(&stage.store) => written?,
            never = sample(&processes, &mut samples) => match never {},
        }
        until_closed(stage, &mut running).await?;
        report.add("all", before.until(&stage.meters.read(&processes)));
        report.add("all", running.peak());
        self.judge(stage, &mut report).await?;
        for (number, samples) in (1..).zip(&samples) {
            if let Some([second, last]) = quarters(samples) {
                let worker = format!("worker {number}");
                report.note(
                    &worker,
                    &format!("at the most: second quarter {second}; last one {last}"),
                );
                report.wrong(&worker, grown([second, last]));
            }
        }
        running.stop().await?;
        Ok(report)
    }
}

impl Day {
    async fn write(&self, store: &Store) -> Result<()> {
        const SQL: &str = "INSERT INTO orders (id, due_at) \
            SELECT id, schedule(id, 'unpaid', $4::bigint * interval '1 ms') \
            FROM (SELECT 'd' || (n - 1) * $3::bigint / $5::bigint || '-' || n AS id FROM generate_series($1::bigint, $2::bigint) AS n) AS it";
        let client = store.client().await?;
        let insert = client.prepare(SQL).await?;
        let mut tick = interval(TICK);
        // After a stall, missed inserts follow at once.
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (mut first, each) = (1_i64, (i64::from(self.rate) / 10).max(1));
        while first <= self.orders {
            tick.tick().await;
            let last = self.orders.min(first + each - 1);
            client.execute(&insert, &[&first, &last, &PARTS, &AFTER_MS, &self.orders]).await?;
            if (first - 1) * 100 / self.orders < last * 100 / self.orders {
                say(&format!("{} of 100", last * 100 / self.orders));
            }
            first = last + 1;
        }
        Ok(())
    }

    async fn judge(&self, stage: &Stage, report: &mut Report) -> Result<()> {
        const SQL: &str = include_str!("sql/day.sql");
        let client = stage.store.client().await?;
        // The query takes longer than the statement time-out of a worker.
        client.batch_execute("SET statement_timeout = 0").await?;
        let mut closures = 0;
        for row in client.query(SQL, &[&stage.server.commit_times]).await? {
            let line = format!("part {} of {PARTS}", row.get::<_, i64>("part") + 1);
            for (number, column) in
                [("late_p50_ms", "p50_ms"), ("late_p99_ms", "p99_ms"), ("late_max_ms", "max_ms")]
            {
                report
                    .add(&line, [(number, row.get::<_, Option<f64>>(column).unwrap_or_default())]);
            }
            let wrong = ["open", "early"].map(|what| (what, row.get::<_, i64>(what)));
            let wrong = wrong.into_iter().filter(|it| it.1 > 0);
            report.wrong(&line, wrong.map(|(what, count)| format!("{count} {what}")));
            closures += row.get::<_, i64>("closures");
        }
        let wrong = format!("{} orders have {closures} closures", self.orders);
        report.wrong("all", (closures != self.orders).then_some(wrong));
        Ok(())
    }
}

/// Samples the usage of each process once a second, into `samples`.
async fn sample(processes: &[u32], samples: &mut [Vec<Usage>]) -> std::convert::Infallible {
    loop {
        for (process, samples) in processes.iter().zip(&mut *samples) {
            samples.extend(Usage::of(*process));
        }
        sleep(SAMPLE_EVERY).await;
    }
}

/// Waits until every order is closed and every event published, after the last insert.
async fn until_closed(stage: &Stage, running: &mut Running) -> Result<()> {
    running.until_closed(stage).await?;
    let client = stage.store.client().await?;
    until("there are still events", LOOK_EVERY, async || {
        let left: bool = client.query_one("SELECT EXISTS (SELECT FROM outbox)", &[]).await?.get(0);
        Ok((!left).then_some(()))
    })
    .await
}
