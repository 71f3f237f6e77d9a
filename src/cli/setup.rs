//! Makes from the settings what the commands work with; and `overdue config`, which shows the settings.

use clap::Args;
use serde::Serialize;

use super::{
    exit::{self, Failure},
    output::{Output, print, print_json},
};
pub(super) use crate::oncall::services::{
    Services, address, broker, effects, management, named_effect, now, store, topology,
    topology_text,
};
use crate::{config::Settings, shutdown::Stop, telemetry};

/// A stop that the first SIGTERM, SIGINT or SIGHUP requests; a second SIGTERM or SIGINT ends the process.
pub(super) fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Stop::new();
    let last = || drop(telemetry::LogEnd);
    stop.on_signals(exit::INTERRUPTED.into(), last)
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    Ok(stop)
}

#[derive(Serialize)]
struct Shown<'a> {
    settings_file: Option<String>,
    #[serde(flatten)]
    settings: &'a Settings,
}

/// Print the settings in effect, without passwords
#[derive(Debug, Args)]
pub(super) struct Config {
    #[command(flatten)]
    output: Output,
}

impl Config {
    pub(super) fn run(&self, settings: &Settings) -> Result<(), Failure> {
        let file = settings.files.settings.as_ref().map(|path| path.display().to_string());
        if self.output.is_json() {
            return print_json(&Shown { settings_file: file, settings });
        }
        match &file {
            Some(file) => print(format!("# settings file: {file}"))?,
            None => print("# no settings file")?,
        }
        let text = toml::to_string(settings).map_err(|error| Failure::failed(error.to_string()))?;
        print(text.trim_end())
    }
}
