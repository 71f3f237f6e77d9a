//! `overdue bench`: measurements, in a schema or a topology of their own.

mod change;

use clap::{Args, Subcommand};

use super::{
    exit::{self, Failure},
    output::{self, Output},
};
use crate::{
    bench::{self, Size, close::IN_FLIGHT, report::Report},
    config::Settings,
    shutdown::Stop,
    store::Store,
};

/// Measure
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Closing orders: one by one, in batches, and as plain SQL
    Close(Close),
    /// A change of the topology while messages wait: none is lost, none is early
    Change(change::Change),
}

#[derive(Debug, Args)]
pub(super) struct Close {
    /// Orders closed each way; one by one closes at most 4000
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    orders: u32,
    /// Orders in a batch
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    batch: u32,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

impl Bench {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::Close(close) => close.run(settings).await,
            Self::Change(change) => change.run(settings).await,
        }
    }
}

impl Close {
    async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let schema = format!("overdue_bench_{}", std::process::id());
        let store = Store::new(&settings.database.url, &schema, IN_FLIGHT)?;
        let stop = Stop::new();
        stop.on_signals(exit::INTERRUPTED.into())
            .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
        let measured = tokio::select! {
            measured = self.measure(&store, &schema) => measured,
            () = stop.requested() => Err(Failure::failed("interrupted")),
        };
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        let dropped = store.run_script("drop_schema", &drop).await;
        let report = measured?;
        dropped?;
        self.output.print(&report)?;
        if report.broken.is_empty() {
            Ok(())
        } else {
            Err(Failure::failed("orders were not closed exactly once"))
        }
    }

    async fn measure(&self, store: &Store, schema: &str) -> Result<Report, Failure> {
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let size = Size { orders: of(self.orders), batch: of(self.batch) };
        store.init(schema, true).await?;
        Ok(bench::close(store, size, report).await?)
    }
}

fn report(step: &str) {
    output::report(format!("{step} …"));
}
