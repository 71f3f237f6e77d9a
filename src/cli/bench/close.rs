//! `overdue bench close`: what closing orders costs.

use clap::Args;

use super::finished::Finished;
use crate::{
    bench::close::{self, CloseSize, ONE_BY_ONE_AT_MOST, method::IN_FLIGHT, report::CloseReport},
    cli::{
        exit::Failure,
        output::{Output, report_step},
        setup,
    },
    config::Settings,
    store::Store,
};

#[derive(Debug, Args)]
pub(in crate::cli) struct Close {
    #[arg(
        long,
        help = format!("Orders closed each way; one by one closes at most {ONE_BY_ONE_AT_MOST}"),
        default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    orders: u32,
    /// Orders in a batch
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    batch: u32,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

impl Close {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        finished.print(self.output)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<CloseReport>, Failure> {
        let schema = format!("overdue_bench_{}", std::process::id());
        let store = Store::new(settings.database.url.expose(), &schema, IN_FLIGHT)?;
        let stop = setup::stop_on_signals()?;
        let measured = tokio::select! {
            measured = self.measure(&store, &schema) => measured,
            () = stop.requested() => Err(Failure::failed("interrupted")),
        };
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        let dropped = store.run_script("drop_schema", &drop).await;
        let report = measured?;
        dropped?;
        let is_right = report.broken.is_empty();
        Ok(Finished::of(report, is_right))
    }

    async fn measure(&self, store: &Store, schema: &str) -> Result<CloseReport, Failure> {
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let size = CloseSize { orders: of(self.orders), batch: of(self.batch) };
        store.init(schema, true).await?;
        Ok(close::run(store, size, report_step).await?)
    }
}
