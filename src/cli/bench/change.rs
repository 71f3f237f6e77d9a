//! `overdue bench change`: a change of the topology while messages wait.

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};

use super::report;
use crate::{
    bench::change::{
        self, ChangeError, ChangeSize,
        kind::{ChangeKind, Levels},
    },
    cli::{
        exit::{self, Failure},
        output::Output,
        setup,
    },
    config::Settings,
    shutdown::Stop,
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
        let management = setup::management(settings)?;
        let kinds = ChangeKind::ALL.into_iter();
        let kinds: Vec<ChangeKind> =
            kinds.filter(|kind| self.kind == "all" || self.kind == kind.name()).collect();
        let messages = usize::try_from(self.messages).unwrap_or(usize::MAX);
        let size = ChangeSize { messages, levels: self.level };
        let stop = Stop::new();
        stop.on_signals(exit::INTERRUPTED.into())
            .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
        let name = format!("overdue-bench-{:08x}", rand::random::<u32>());
        report(&format!("in {}, exchanges and queues called {name}.*", management.address()));
        let report = change::run(&management, &name, &kinds, &size, &stop, report).await?;
        self.output.print(&report)?;
        if report.is_right() {
            Ok(())
        } else {
            Err(Failure::failed("the change was not without harm: see above"))
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Connect(error) => error.into(),
            ChangeError::Management(error) => error.into(),
            ChangeError::Change(error) => error.into(),
            ChangeError::Publish(error) => error.into(),
            ChangeError::Consume(error) => Self::failed(crate::text::error_chain(&error)),
            ChangeError::GaveUp(_)
            | ChangeError::Panicked(_)
            | ChangeError::Stuck { .. }
            | ChangeError::Interrupted => Self::failed(error.to_string()),
        }
    }
}
