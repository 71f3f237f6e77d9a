//! The cost of closing orders: one by one, in batches, and by plain SQL. Each way begins with fresh tables.

mod support;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream, try_join};
use overdue::{Effect, OrderId, Store, internals::store::orders::ClosingPath};
use support::{
    Benchmark, Result,
    options::Options,
    report::Report,
    say,
    shop::{self, Clock, Generator, Outcome, per_second},
    stage::Stage,
};
use tokio_postgres::types::ToSql;

/// An order per transaction takes about a hundred times longer than the others: a sample is enough.
const ONE_BY_ONE_AT_MOST: usize = 4_000;
/// Concurrent batches, as in a worker.
const IN_FLIGHT: usize = 4;

/// The cost of closing orders
#[derive(Debug, Parser)]
struct Close {
    /// Orders closed each way; one by one closes at most 4,000
    #[arg(long, default_value_t = 20_000)]
    orders: usize,
    /// Orders in a batch
    #[arg(long, default_value_t = 500)]
    batch: usize,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Close>()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    OneByOne,
    Batches,
    InFlight,
    /// The statements of a batch, sent without this library, without reading the answer.
    SqlBatches,
    /// A single statement for the whole table.
    SqlWhole,
}

impl Way {
    const ALL: [Self; 5] =
        [Self::OneByOne, Self::Batches, Self::InFlight, Self::SqlBatches, Self::SqlWhole];

    fn title(self, batch: usize) -> String {
        match self {
            Self::OneByOne => "one order per transaction".to_owned(),
            Self::Batches => format!("batches of {batch}"),
            Self::InFlight => format!("batches of {batch}, {IN_FLIGHT} at once"),
            Self::SqlBatches => format!("plain SQL, batches of {batch}"),
            Self::SqlWhole => "plain SQL, the whole table at once".to_owned(),
        }
    }

    async fn close(
        self,
        store: &Store,
        effect: &Effect,
        ids: &[OrderId],
        batch: usize,
    ) -> Result<()> {
        const WHOLE: &str = include_str!("sql/whole.sql");
        let (batch, at_once) = match self {
            Self::OneByOne => (1, 1),
            Self::InFlight => (batch, IN_FLIGHT),
            _ => (batch, 1),
        };
        match self {
            Self::SqlWhole => drop(store.client().await?.execute(WHOLE, &[]).await?),
            Self::SqlBatches => {
                let client = store.client().await?;
                let statements = store.statements(effect).await?;
                let lock = client.prepare(statements.lock.as_deref().unwrap_or_default()).await?;
                let close = client.prepare(&statements.close).await?;
                for ids in ids.chunks(batch) {
                    let ids: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
                    let locked: [&(dyn ToSql + Sync); 1] = [&ids];
                    let closed: [&(dyn ToSql + Sync); 3] =
                        [&ids, &"bench", &None::<serde_json::Value>];
                    // Joined futures are polled, and so sent, one after the other in one piece, as in the library.
                    try_join!(
                        client.batch_execute("BEGIN"),
                        client.query(&lock, &locked),
                        client.query(&close, &closed),
                        client.batch_execute("COMMIT"),
                    )?;
                }
            }
            _ => {
                let close = async |ids: &[OrderId]| {
                    store.run_effect(effect, ids, ClosingPath::Message).await
                };
                let closing = stream::iter(ids.chunks(batch).map(close)).buffer_unordered(at_once);
                closing.try_for_each(async |_| Ok(())).await?;
            }
        }
        Ok(())
    }
}

impl Benchmark for Close {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        (self.orders, self.batch) = (200, 100);
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let (rounds, batch) = (self.options.rounds_or(1), self.batch.max(1));
        let what = format!("closing overdue orders of 2 items; medians of {rounds} rounds");
        let mut report = Report::new("close", what, stage);
        report.show(Way::ALL.map(|way| way.title(batch)));
        let effect = Effect::close();
        for number in 1..=rounds {
            for step in 0..Way::ALL.len() {
                let way = Way::ALL[(step + number) % Way::ALL.len()];
                let name = way.title(batch);
                say(&format!("round {number} of {rounds}: {name}"));
                let is_sample = way == Way::OneByOne && self.orders > ONE_BY_ONE_AT_MOST;
                let count = if is_sample { ONE_BY_ONE_AT_MOST } else { self.orders.max(1) };
                let due_us = Clock::read(&stage.store).await?.us_in(Duration::ZERO);
                let orders = Generator::new()?.orders("close", count, |_| due_us)?;
                shop::reset(&stage.store).await?;
                shop::insert(&stage.store, &orders).await?;
                let ids: Vec<OrderId> = orders.into_iter().map(|order| order.id).collect();
                // Connections are open and statements prepared, as in a worker that has run for a while.
                let nobody = [OrderId::parse("nobody")?];
                let prepare = || stage.store.run_effect(&effect, &nobody, ClosingPath::Message);
                try_join_all((0..IN_FLIGHT).map(|_| prepare())).await?;
                let before = stage.meters.read(&[]);
                let began = Instant::now();
                way.close(&stage.store, &effect, &ids, batch).await?;
                let took = began.elapsed();
                let cpu = before.until(&stage.meters.read(&[]));
                let outcome = Outcome::read(stage, "close", count, true).await?;
                let rate = ("orders_per_s", per_second(count, took));
                report.add(&name, [rate, ("took_s", took.as_secs_f64())]);
                report.add(&name, cpu);
                if is_sample {
                    report.note(&name, &format!("a sample of {count}"));
                }
                report.wrong(&name, outcome.wrong);
            }
        }
        let batches = Way::Batches.title(batch);
        for other in [Way::OneByOne, Way::SqlBatches] {
            report.compare("orders_per_s", &batches, &other.title(batch));
        }
        Ok(report)
    }
}
