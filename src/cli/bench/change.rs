//! `overdue bench change`: a change of the topology while messages wait.

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};

use super::finished::Finished;
use crate::{
    bench::change::{
        self, MeasureError,
        kind::ChangeKind,
        report::ChangeReport,
        size::{ChangeSize, Levels},
    },
    cli::{
        exit::Failure,
        output::{Output, report_step},
        setup,
    },
    config::Settings,
};

/// Publishes messages into a delay level, applies another topology while they wait and more are published, and
/// accounts for every one of them.
///
/// In a topology of its own, `overdue-bench-…`, in the virtual host of the settings; it is removed at the end.
/// Needs the rights of a topology administrator on it, and to read and write all of it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Change {
    /// Messages that wait when the change begins; with `--change all`, for each change
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    messages: u32,
    /// The level they wait in, from 1s to 24h; the rest takes about twice as long
    #[arg(long, default_value = "1m")]
    level: Levels,
    /// What changes
    #[arg(long = "change", default_value = "combined", value_name = "KIND", value_parser = kinds())]
    kind: String,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

fn kinds() -> PossibleValuesParser {
    let kinds = ChangeKind::ALL.map(|kind| PossibleValue::new(kind.name()));
    let all = PossibleValue::new("all").help("every one of them, one after the other");
    kinds.into_iter().chain([all]).collect::<Vec<_>>().into()
}

impl Change {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        finished.print(self.output)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<ChangeReport>, Failure> {
        let management = setup::management(settings)?;
        let kinds = ChangeKind::ALL.into_iter();
        let kinds: Vec<ChangeKind> =
            kinds.filter(|kind| self.kind == "all" || self.kind == kind.name()).collect();
        let messages = usize::try_from(self.messages).unwrap_or(usize::MAX);
        let size = ChangeSize { messages, levels: self.level.clone() };
        let stop = setup::stop_on_signals()?;
        let name = format!("overdue-bench-{:08x}", rand::random::<u32>());
        report_step(&format!("in {}, exchanges and queues called {name}.*", management.address()));
        let report = change::run(&management, &name, &kinds, &size, &stop, report_step).await?;
        let wrong = (!report.is_right())
            .then(|| "something went wrong with the messages: see above".to_owned());
        Ok(Finished { report, wrong })
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        match error {
            MeasureError::Connect(error) => error.into(),
            MeasureError::Management(error) => error.into(),
            MeasureError::Change(error) => error.into(),
            MeasureError::Publish(error) => error.into(),
            MeasureError::Consume(error) => Self::failed(crate::text::error_chain(&error)),
            MeasureError::GaveUp(_)
            | MeasureError::Panicked(_)
            | MeasureError::Stuck { .. }
            | MeasureError::Interrupted => Self::failed(error.to_string()),
        }
    }
}
