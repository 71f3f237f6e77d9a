//! `overdue health`: asks a running worker whether it is ready, for checks of containers.

use std::time::Duration;

use clap::Args;

use super::{exit::Failure, output::print};
use crate::{
    config::{Listen, Settings},
    listen::ask::ask,
};

/// Docker waits 30 s by default, compose files often less.
const PATIENCE: Duration = Duration::from_secs(4);

/// Ask the worker of this machine whether it is ready: exit code 0, or 1 and one line
#[derive(Debug, Args)]
pub(super) struct Health {
    /// Where it listens, also OVERDUE_WORKER__LISTEN
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<Listen>,
    /// Ask whether its tasks go on, not whether it is ready
    #[arg(long)]
    live: bool,
}

impl Health {
    pub(super) async fn run(&self, settings: &Settings) -> Result<(), Failure> {
        let listen = self.listen.unwrap_or(settings.worker.listen);
        let Some(address) = listen.address() else {
            return Err(Failure::configuration(
                "worker.listen is empty, so the worker cannot be asked: write listen = \"127.0.0.1:9632\" below [worker]",
            ));
        };
        let path = if self.live { "/livez" } else { "/readyz" };
        let answer = ask(address, path, PATIENCE).await;
        let (status, text) = answer.map_err(|error| Failure::failed(error.to_string()))?;
        let first = text.lines().next().unwrap_or_default();
        if status == 200 { print(first) } else { Err(Failure::failed(first)) }
    }
}
