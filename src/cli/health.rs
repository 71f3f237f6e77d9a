//! `overdue health`: asks a running worker whether it is ready, for checks of containers.

use std::{fmt, time::Duration};

use clap::Args;
use serde::Serialize;

use super::{exit::Failure, output::Output};
use crate::{
    config::{Listen, Settings},
    listen::ask::ask,
};

/// Docker's time-out is 30 s by default; compose files often have less.
const ASK_TIMEOUT: Duration = Duration::from_secs(4);

/// Ask the worker on this machine whether it is ready
///
/// The command prints one line, and exits with 0 if the worker is ready, otherwise with 1.
#[derive(Debug, Args)]
pub(super) struct Health {
    /// Address of the worker's /readyz and /livez, also OVERDUE_WORKER__LISTEN
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<Listen>,
    /// Ask /livez whether the worker's tasks still run, instead of /readyz
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct HealthAnswer {
    version: u32,
    ok: bool,
    text: String,
}

impl fmt::Display for HealthAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
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
        let answer = match ask(address, path, ASK_TIMEOUT).await {
            Ok((status, text)) => HealthAnswer {
                version: 1,
                ok: status == 200,
                text: text.lines().next().unwrap_or_default().to_owned(),
            },
            Err(error) => HealthAnswer { version: 1, ok: false, text: error.to_string() },
        };
        if answer.ok || self.output.is_json() {
            self.output.print(&answer)?;
        }
        if answer.ok { Ok(()) } else { Err(Failure::failed(answer.text)) }
    }
}
