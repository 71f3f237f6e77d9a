//! A table of many orders, partitioned by the day of their deadline, beside a small one without partitions: what a worker asks of both,
//! in turns. The tables and effects are those of `docs/partitions.md` and `docs/your-own-tables.md`.

mod support;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use jiff::Timestamp;
use overdue::{
    OrderId, Store,
    internals::{
        order::Outcome,
        store::orders::{ClosingPath, Effect},
    },
};
use support::{Benchmark, Result, options::Options, report::Report, say, stage::Stage};
use tokio_postgres::types::Timestamp as Bounded;

/// Of the large table one in ten is open.
const OPEN: i64 = 10;
/// The small one has a hundredth of the rows of 50,000,000, whatever the large one has.
const SMALL_ROWS: i64 = 500_000;
/// Days that are over, and days to come.
const DAYS: [i64; 2] = [50, 10];
/// Orders of a batch of messages or of a page, by what asks for them.
const CLOSED: [(&str, ClosingPath, usize); 4] = [
    ("close 1, message", ClosingPath::Message, 1),
    ("close 50, message", ClosingPath::Message, 50),
    ("close 500, message", ClosingPath::Message, 500),
    ("close 2,000, burst", ClosingPath::Burst, 2_000),
];
/// Orders that are read, and how long before their deadline.
const READ: [(&str, i64, i64); 3] = [
    ("read 500, sweep", 500, 0),
    ("read 2,000, burst", 2_000, 0),
    ("read 2,000, rebuild", 2_000, -100 * 365 * 24 * 3_600_000),
];
/// Blocks that are looked through at once for old rows: `store/history`.
const BLOCKS: i64 = 32;
/// So many rows take longer than a worker's statement may.
const UNLIMITED: &str = "SET statement_timeout = 0";
const KEPT: Duration = Duration::from_hours(24);
/// The number of the first that is closed here: above those of all days.
const FIRST_OVERDUE: i64 = 1_000_000_000_000;

/// What a worker asks of a table with many orders, partitioned by day, and of a small one
#[derive(Debug, Parser)]
struct Database {
    /// Rows of the large table; one in ten is open
    #[arg(long, default_value_t = 50_000_000)]
    rows: i64,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Database>()
}

impl Benchmark for Database {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        self.rows = 20_000;
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let rounds = self.options.rounds_or(15);
        let small = SMALL_ROWS.min(self.rows);
        let what = format!(
            "{} orders, one in ten open, in {} partitions, beside {small} in one table; medians of {rounds} rounds",
            self.rows,
            DAYS[0] + DAYS[1] + 1
        );
        let mut report = Report::new("database", what, stage);
        let tables = [
            Tables::fill(stage, Shape::Small, small, rounds).await?,
            Tables::fill(stage, Shape::Large, self.rows, rounds).await?,
        ];
        for number in 0..=rounds {
            say(&format!("round {number} of {rounds}"));
            for step in 0..tables.len() {
                // The first one plans, and reads what is not in memory.
                let counted = (number > 0).then_some(&mut report);
                tables[(step + number) % tables.len()].round(number, counted).await?;
            }
        }
        let names = CLOSED.iter().map(|it| it.0).chain(READ.iter().map(|it| it.0));
        for name in names.chain([NEXT, HISTORY]) {
            let [small, large] = [Shape::Small, Shape::Large].map(|shape| shape.line(name));
            report.compare("took_ms", &large, &small);
        }
        report.compare("took_ms", &Shape::Large.line(OF_INIT), &Shape::Small.line(CLOSED[2].0));
        Ok(report)
    }
}

const NEXT: &str = "read 500, the next page";
const HISTORY: &str = "delete old closures, 32 blocks";
const OF_INIT: &str = "close 500, the effect of `overdue init`";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Small,
    Large,
}

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }

    fn line(self, what: &str) -> String {
        format!("{what}: {}", self.name())
    }
}

/// One of the two.
struct Tables {
    shape: Shape,
    store: Store,
    effect: Effect,
    /// As it is for a table without partitions.
    of_init: Effect,
}

impl Tables {
    async fn fill(stage: &Stage, shape: Shape, rows: i64, rounds: usize) -> Result<Self> {
        const FILL: &str = include_str!("sql/purchases_fill.sql");
        const OVERDUE: &str = include_str!("sql/purchases_overdue.sql");
        const PAST: &str = include_str!("sql/purchases_history.sql");
        let began = Instant::now();
        // Dropped with the schema of the stage.
        let schema = format!("{}_{}", stage.name, shape.name());
        let store = Store::new(&stage.url, &schema, 4)?;
        store.init(&schema, false).await?;
        let [past, ahead] = DAYS;
        let open = rows / OPEN;
        for script in shape.tables() {
            store.run_script("tables", script).await?;
        }
        store.run_script("fill", FILL).await?;
        let client = store.client().await?;
        client.batch_execute(UNLIMITED).await?;
        let day = "SELECT purchases_fill(current_date + $1::int, $2, $3, $4)";
        let day = client.prepare(day).await?;
        for offset in -past..=ahead {
            // Today has only those that are closed here.
            let (count, is_open) = match offset {
                0 => (1, false),
                1.. => (open / ahead, true),
                _ => ((rows - open) / past, false),
            };
            let first = (offset + past) * rows;
            let offset = i32::try_from(offset)?;
            client.execute(&day, &[&offset, &first, &count.max(1), &is_open]).await?;
        }
        let each: usize = CLOSED.iter().map(|it| it.2).sum::<usize>() + CLOSED[2].2;
        let overdue = (each * (rounds + 1) + 5_000).to_string();
        let first = FIRST_OVERDUE.to_string();
        let sql = format!("{UNLIMITED}; {OVERDUE}")
            .replace("{first}", &first)
            .replace("{count}", &overdue);
        store.run_script("overdue", &sql).await?;
        let closures = (rows / 10).to_string();
        let sql = format!("{UNLIMITED}; {PAST}").replace("{count}", &closures);
        store.run_script("history", &sql).await?;
        client
            .batch_execute("VACUUM (ANALYZE) purchase, purchase_line, article, closures, outbox")
            .await?;
        let _not_permitted = client.batch_execute("CHECKPOINT").await;
        let size: String = client
            .query_one("SELECT pg_size_pretty(sum(pg_total_relation_size(oid))) FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'", &[&schema])
            .await?
            .get(0);
        say(&format!("{}: {rows} rows, {size}, in {} s", shape.name(), began.elapsed().as_secs()));
        let [effect, of_init] = [shape, Shape::Small].map(Shape::effect);
        Ok(Self { shape, store, effect, of_init })
    }

    async fn round(&self, number: usize, report: Option<&mut Report>) -> Result<()> {
        const PAST: &str = include_str!("../sql/history_closures.sql");
        let client = self.store.client().await?;
        let mut took = Vec::new();
        let sql = self.effect.overdue_sql.as_deref().unwrap_or_default();
        let page = client.prepare_cached(sql).await?;
        let first: Bounded<Timestamp> = Bounded::NegInfinity;
        let mut overdue: Vec<OrderId> = Vec::new();
        for (name, limit, grace_ms) in READ {
            let began = Instant::now();
            let rows = client.query(&page, &[&limit, &grace_ms, &first, &""]).await?;
            took.push((name, began.elapsed()));
            if rows.len() != usize::try_from(limit)? {
                return Err(format!("{name}: {} rows", rows.len()).into());
            }
        }
        // In the order of the index, as a worker asks for them.
        let each: usize = CLOSED.iter().map(|it| it.2).sum::<usize>() + CLOSED[2].2;
        let rows = client.query(&page, &[&i64::try_from(each)?, &0_i64, &first, &""]).await?;
        for row in &rows {
            overdue.push(OrderId::parse(row.get(0))?);
        }
        let last = &rows[499];
        let (due_at, id): (Bounded<Timestamp>, &str) = (last.get(1), last.get(0));
        let began = Instant::now();
        client.query(&page, &[&500_i64, &0_i64, &due_at, &id]).await?;
        took.push((NEXT, began.elapsed()));
        for (name, path, count) in CLOSED {
            let ids: Vec<OrderId> = overdue.drain(..count).collect();
            took.push((name, self.close(&self.effect, &ids, path).await?));
        }
        if self.shape == Shape::Large {
            took.push((OF_INIT, self.close(&self.of_init, &overdue, ClosingPath::Message).await?));
        }
        let history = client.prepare_cached(PAST).await?;
        let from = i64::try_from(number)? * BLOCKS;
        let kept = i64::try_from(KEPT.as_millis())?;
        let began = Instant::now();
        client.query_one(&history, &[&from, &BLOCKS, &kept]).await?;
        took.push((HISTORY, began.elapsed()));
        if let Some(report) = report {
            for (name, took) in took {
                report.add(&self.shape.line(name), [("took_ms", took.as_secs_f64() * 1_000.0)]);
            }
        }
        Ok(())
    }

    /// Each of them is closed.
    async fn close(&self, effect: &Effect, ids: &[OrderId], path: ClosingPath) -> Result<Duration> {
        let began = Instant::now();
        let outcomes = self.store.run_effect(effect, ids, path).await?;
        let took = began.elapsed();
        let closed = outcomes.iter().filter(|it| matches!(it, Outcome::Closed { .. })).count();
        if closed != ids.len() {
            return Err(format!("{closed} of {} were closed", ids.len()).into());
        }
        Ok(took)
    }
}

impl Shape {
    const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Small => &[include_str!("../examples/own-tables/tables.sql")],
            Self::Large => &[
                include_str!("../examples/own-tables/partitioned/tables.sql"),
                include_str!("../examples/own-tables/partitioned/function.sql"),
            ],
        }
    }

    fn effect(self) -> Effect {
        let (sql, overdue_sql) = match self {
            Self::Small => (
                include_str!("../examples/own-tables/expire.sql"),
                include_str!("../examples/own-tables/expire_overdue.sql"),
            ),
            Self::Large => (
                include_str!("../examples/own-tables/partitioned/expire.sql"),
                include_str!("../examples/own-tables/partitioned/expire_overdue.sql"),
            ),
        };
        Effect {
            name: "expire".to_owned(),
            sql: sql.to_owned(),
            sql_file: "expire.sql".to_owned(),
            overdue_sql: Some(overdue_sql.to_owned()),
            overdue_file: "expire_overdue.sql".to_owned(),
        }
    }
}
