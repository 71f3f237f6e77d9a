//! Another set of settings, topology and SQL for a worker that works: checked as at its start, and taken only where it adds.

use super::{
    alerts,
    prepare::{Declaring, Effects, prepare},
    source::Source,
};
use crate::{
    cli::exit::Failure,
    config::{Listen, LogSettings, Settings},
    plan::taken_away::taken_away,
    text::counted,
    topology::Topology,
    worker::Worker,
};

/// Things that a refusal names at the most.
const NAMED: usize = 5;

/// What cannot be changed while the process runs.
pub(super) struct Fixed {
    /// `--listen`
    pub(super) flag: Option<Listen>,
    pub(super) listen: Listen,
    pub(super) log: LogSettings,
    pub(super) declaring: Declaring,
}

impl Fixed {
    /// The worker that takes the place of the one with `topology`, as the files want it now.
    ///
    /// # Errors
    /// Why it does not; nothing has changed but what was added to the broker.
    pub(super) async fn renewed(
        &self,
        source: &mut Source,
        topology: &Topology,
    ) -> Result<(Worker, Settings), Failure> {
        let (settings, inputs) = source.read().await?;
        if self.flag.unwrap_or(settings.worker.listen) != self.listen {
            return Err(restart("worker.listen"));
        }
        if settings.log != self.log {
            return Err(restart("[log]"));
        }
        alerts::check(&settings.alert).await?;
        only_adds(&settings, topology, &inputs.topology)?;
        let worker = prepare(&settings, inputs, self.declaring, Effects::AllRight).await?;
        Ok((worker, settings))
    }
}

fn restart(key: &str) -> Failure {
    Failure::configuration(format!("{key} has changed, which takes a restart of the worker"))
}

fn only_adds(settings: &Settings, topology: &Topology, file: &Topology) -> Result<(), Failure> {
    let taken = taken_away(topology, file);
    if taken.is_empty() {
        return Ok(());
    }
    let first = taken.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match taken.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Err(Failure::configuration(format!(
        "{} would take away or change {} that are in use: {first}{more}. A running worker only takes what is added: look at \
         `overdue plan`, run `overdue apply`, and restart the workers",
        settings.topology.display(),
        counted(taken.len(), "object"),
    )))
}
