//! Time of each statement of the worker before, at the end of and after a transaction that keeps its snapshot. Meanwhile
//! orders are scheduled and closed, and their events published. For comparison: a queue with `SKIP LOCKED` at the same rate.
//! PostgreSQL measures the statements (`pg_stat_statements`), so no other program may use the database.

mod support;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
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

/// Names of the statements, with patterns of their texts.
const STATEMENTS: [(&str, &str); 7] = [
    ("relay: read events", "%WITH earlier AS MATERIALIZED%FROM outbox%"),
    ("relay: delete events", "%DELETE FROM outbox WHERE id = ANY%"),
    ("notices: read", "%FROM scheduled_notices WHERE id > $1 ORDER BY id%"),
    ("notices: delete", "%DELETE FROM scheduled_notices WHERE id = ANY%"),
    ("sweep and burst: read a page", "%SELECT id AS order_id, due_at FROM orders%"),
    ("close a batch", "%orders.ctid = asked.place%"),
    ("SKIP LOCKED: take and delete", "%DELETE FROM jobs%"),
];
/// Interval of inserts; each insert has the orders of the rate.
const TICK: Duration = Duration::from_millis(100);
/// Inserts between two bursts, and orders of a burst, which have one deadline.
const BURST_EVERY: u64 = 200;
const BURST: i64 = 1_000;
const JOBS: i64 = 100;
/// Pause of a queue that found no row.
const IDLE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The effect of an open transaction on a worker, and on a queue with SKIP LOCKED
#[derive(Debug, Parser)]
struct Horizon {
    /// Orders per second
    #[arg(long, default_value_t = 800)]
    rate: u32,
    /// How long the transaction stays open
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Leave out the queue, which takes a core at the end
    #[arg(long)]
    no_queue: bool,
    /// Seconds for which statements are measured before the transaction, at its end, and after a VACUUM
    #[arg(long, default_value_t = 60)]
    window: u64,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Horizon>()
}

impl Benchmark for Horizon {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        (self.rate, self.seconds, self.window) = (50, 4, 2);
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        const JOBS: &str = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public; \
            CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text NOT NULL)";
        let what = format!(
            "{} orders and {} jobs per second, and {BURST} orders due at once every {} s; a transaction keeps its snapshot for {} s; \
             means of {} s before it, at its end, and after a VACUUM",
            self.rate,
            self.rate,
            BURST_EVERY / 10,
            self.seconds,
            self.window
        );
        let mut report = Report::new("horizon", what, stage);
        report.show(self.statements().map(|it| it.0));
        stage.store.run_script("jobs", JOBS).await?;
        let closers = Closer::all(&[Way::Overdue], &[], &self.options)?;
        let delays = "delay.levels = [\"2s\", \"10s\", \"1h\"]\nretry.after = [\"10s\"]\n";
        // Each window then contains several sweeps.
        let sweeps = [("OVERDUE_WORKER__SWEEP_EVERY", "10s".to_owned())];
        let mut running = closers[0].start_with(stage, 0, delays, &sweeps).await?;
        running.until_scheduled(stage).await?;
        let queue = Store::new(&stage.url, &stage.name, 2)?;
        let phases = self.phases(stage, &mut report);
        tokio::select! {
            ended = self.write(&stage.store) => return Err(ended.err().unwrap_or_else(|| "nothing is written".into())),
            ended = work_off(&queue), if !self.no_queue => return Err(ended.err().unwrap_or_else(|| "no job is done".into())),
            measured = phases => measured?,
        }
        let wrong = wrong(stage, &mut running).await?;
        report.wrong("overdue", wrong);
        running.stop().await?;
        Ok(report)
    }
}

/// Calls, milliseconds and rows of each statement.
type Counts = Vec<(i64, f64, i64)>;

impl Horizon {
    /// Inserts orders with notices of `schedule()`, due two seconds later, and the same number of jobs.
    async fn write(&self, store: &Store) -> Result<()> {
        const ORDERS: &str = "INSERT INTO orders (id, due_at) \
            SELECT 'h-' || n, schedule('h-' || n, 'unpaid', $3::bigint * interval '1 ms') FROM generate_series($1::bigint, $2::bigint) AS n";
        const JOBS: &str = "INSERT INTO jobs (order_id) SELECT 'h-' || n FROM generate_series($1::bigint, $2::bigint) AS n";
        let client = store.client().await?;
        let (orders, jobs) = (client.prepare(ORDERS).await?, client.prepare(JOBS).await?);
        let mut tick = interval(TICK);
        // After a stall, missed inserts follow at once.
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (mut first, each) = (1_i64, i64::from(self.rate) / 10);
        for number in 1_u64.. {
            tick.tick().await;
            let last = first + each - 1;
            if !self.no_queue {
                client.execute(&jobs, &[&first, &last]).await?;
            }
            client.execute(&orders, &[&first, &last, &2_000_i64]).await?;
            first = last + 1;
            if number % BURST_EVERY == 0 {
                client.execute(&orders, &[&first, &(first + BURST - 1), &2_000_i64]).await?;
                first += BURST;
            }
        }
        Ok(())
    }

    /// The measured statements; the last one belongs to the queue.
    fn statements(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        STATEMENTS.into_iter().take(STATEMENTS.len() - usize::from(self.no_queue))
    }

    async fn phases(&self, stage: &Stage, report: &mut Report) -> Result<()> {
        let window = Duration::from_secs(self.window);
        let store = &stage.store;
        // Waits until connections are open and statements planned.
        sleep(window / 2).await;
        say("before");
        let before = self.window_of(store, window).await?;
        let mut holder = store.client().await?;
        let held = holder.build_transaction();
        let held =
            held.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).start().await?;
        held.query_one("SELECT count(*) FROM orders WHERE id = ''", &[]).await?;
        let began = Instant::now();
        say("the transaction is open");
        let last_window = Duration::from_secs(self.seconds).saturating_sub(window);
        sleep(last_window).await;
        let at_end = self.window_of(store, window).await?;
        say(&format!("it ends after {} s", began.elapsed().as_secs()));
        let dead = dead_rows(store).await?;
        held.rollback().await?;
        let client = store.client().await?;
        client
            .batch_execute("VACUUM orders, outbox, scheduled_notices, jobs, stock, closures")
            .await?;
        let after = self.window_of(store, window).await?;
        let window_s = window.as_secs_f64();
        for (place, (name, _)) in self.statements().enumerate() {
            let mean = |counts: &Counts| counts[place].1 / f64_of(counts[place].0.max(1));
            let rate = |counts: &Counts| f64_of(counts[place].2) / window_s;
            let calls = |counts: &Counts| f64_of(counts[place].0) / window_s;
            // The text of the statement in sql/ has changed. A short window may have no statement of a sweep.
            if self.window >= 60 && at_end[place].0 == 0 {
                return Err(format!("{name}: no statement is like its pattern").into());
            }
            report.add(
                name,
                [
                    ("held_to_before", mean(&at_end) / mean(&before)),
                    ("before_ms", mean(&before)),
                    ("held_ms", mean(&at_end)),
                    ("after_ms", mean(&after)),
                    ("before_calls_per_s", calls(&before)),
                    ("held_calls_per_s", calls(&at_end)),
                    ("before_rows_per_s", rate(&before)),
                    ("held_rows_per_s", rate(&at_end)),
                    ("after_rows_per_s", rate(&after)),
                ],
            );
        }
        report.note(STATEMENTS[0].0, &format!("dead rows at the end: {dead}"));
        Ok(())
    }

    async fn window_of(&self, store: &Store, window: Duration) -> Result<Counts> {
        const SQL: &str = include_str!("sql/statement_times.sql");
        let client = store.client().await?;
        let read = async || -> Result<Counts> {
            let patterns: Vec<&str> = STATEMENTS.iter().map(|it| it.1).collect();
            let rows = client.query(SQL, &[&patterns]).await?;
            Ok(rows
                .iter()
                .map(|row| (row.get("calls"), row.get("total_ms"), row.get("rows")))
                .collect())
        };
        let from = read().await?;
        sleep(window).await;
        let to = read().await?;
        let both = from.into_iter().zip(to);
        Ok(both.map(|(from, to)| (to.0 - from.0, to.1 - from.1, to.2 - from.2)).collect())
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of minutes")]
const fn f64_of(count: i64) -> f64 {
    count as f64
}

/// The plain queue: takes and deletes jobs in one statement.
async fn work_off(store: &Store) -> Result<()> {
    const TAKE: &str = "DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM jobs ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING order_id";
    let client = store.client().await?;
    let take = client.prepare(TAKE).await?;
    loop {
        if client.query(&take, &[&JOBS]).await?.is_empty() {
            sleep(IDLE).await;
        }
    }
}

/// Reads the dead rows from the server's statistics.
async fn dead_rows(store: &Store) -> Result<String> {
    const SQL: &str = "SELECT string_agg(relname || ' ' || n_dead_tup, ', ' ORDER BY relname) FROM pg_stat_user_tables \
        WHERE schemaname = $1 AND n_dead_tup > 0";
    let client = store.client().await?;
    let schema: String = client.query_one("SELECT current_schema()::text", &[]).await?.get(0);
    Ok(client.query_one(SQL, &[&schema]).await?.get::<_, Option<String>>(0).unwrap_or_default())
}

/// Waits until every order is closed after the last insert. Returns orders that are open, closed twice, or closed early.
async fn wrong(stage: &Stage, running: &mut Running) -> Result<Vec<String>> {
    const SQL: &str = "SELECT count(*) FILTER (WHERE closures.order_id IS NULL) AS open, \
        count(*) - count(DISTINCT orders.id) AS twice, count(*) FILTER (WHERE closures.closed_at < orders.due_at) AS early \
        FROM orders LEFT JOIN closures ON order_id = orders.id";
    running.until_closed(stage).await?;
    let client = stage.store.client().await?;
    until("there are still events", LOOK_EVERY, async || {
        let left: bool = client.query_one("SELECT EXISTS (SELECT FROM outbox)", &[]).await?.get(0);
        Ok((!left).then_some(()))
    })
    .await?;
    let row = client.query_one(SQL, &[]).await?;
    let wrong = ["open", "twice", "early"].map(|what| (what, row.get::<_, i64>(what)));
    Ok(wrong
        .into_iter()
        .filter(|it| it.1 > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect())
}
