//! `overdue bench delay`: what a delay costs on the broker.

use clap::Args;

use super::finished::Finished;
use crate::{
    bench::delay::{self, DelaySize, report::DelayReport},
    broker::{BrokerCpu, Management},
    cli::{
        exit::Failure,
        output::{Output, report_step},
        setup,
    },
    config::Settings,
};

/// Sends messages through our ladder, through the binary ladder of other libraries, and through the delayed message plugin where
/// the broker has it: hops, CPU of the broker, lateness, and how fast one publishes.
///
/// In exchanges and queues of its own, `overdue-bench-…`, in the virtual host of the settings, which are removed at the end.
#[derive(Debug, Args)]
pub(in crate::cli) struct Delay {
    /// Messages of a round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    messages: u32,
    /// Rounds of each way; one more is not counted
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The broker's Prometheus endpoint, for its CPU, e.g. http://127.0.0.1:15692/metrics
    #[arg(long, value_name = "URL")]
    broker_metrics: Option<String>,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

impl Delay {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        finished.print(self.output)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<DelayReport>, Failure> {
        let stop = setup::stop_on_signals()?;
        let management = setup::management(settings)?;
        let name = format!("overdue-bench-{:08x}", rand::random::<u32>());
        report_step(&format!("in {}, exchanges and queues called {name}.*", management.address()));
        let measured = tokio::select! {
            measured = self.measure(&management, &name) => measured,
            () = stop.requested() => Err(Failure::failed("interrupted")),
        };
        let removed = management.remove_topology(&name).await;
        let report = measured?;
        removed?;
        let early = report.ways.iter().map(|way| way.early).sum::<usize>();
        let wrong = (early > 0).then(|| format!("{early} messages came out before they were due"));
        Ok(Finished { report, wrong })
    }

    async fn measure(&self, management: &Management, name: &str) -> Result<DelayReport, Failure> {
        let cpu = match &self.broker_metrics {
            Some(url) => {
                let asked = BrokerCpu::at(url).await;
                Some(asked.map_err(|error| Failure::failed(error.to_string()))?)
            }
            None => None,
        };
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let size = DelaySize { messages: of(self.messages), rounds: of(self.rounds) };
        let measured = delay::run(management, cpu.as_ref(), name, size, report_step).await;
        measured.map_err(|error| Failure::failed(crate::text::error_chain(&error)))
    }
}
