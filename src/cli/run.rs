//! `overdue run`: check everything once, declare the topology, then work until a signal; SIGHUP or a changed file does the same
//! anew.

mod alerts;
mod files;
mod pages;
mod prepare;
mod reload;
mod running;
mod source;
mod still;

use std::sync::Arc;

use clap::Args;

use super::{exit::Failure, global::Global, setup};
use crate::{
    config::{Listen, Settings},
    listen, telemetry,
};
pub(super) use prepare::{Declaring, Effects, Inputs, prepare};
use reload::Fixed;
use running::{Current, Running};
use source::Source;

/// Declare the topology, then close overdue orders until SIGTERM; SIGHUP reads the files again
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Declare nothing: for a worker without the right to, where operations run `overdue apply`
    #[arg(long)]
    no_declare: bool,
    /// Where to serve /metrics, /livez and /readyz [default: worker.listen]; empty: nowhere
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<Listen>,
}

impl Run {
    /// `global` reads the settings again, when SIGHUP or a changed file asks for it.
    pub(super) async fn run(self, settings: &Settings, global: Global) -> Result<(), Failure> {
        let mut hangups = setup::hangups()?;
        let mut source = Source::new(global, settings).await;
        let declaring = if self.no_declare { Declaring::Nothing } else { Declaring::Missing };
        alerts::check(&settings.alert).await?;
        let inputs = Inputs::read(settings)?;
        let worker = Arc::new(prepare(settings, inputs, declaring, Effects::SomeRight).await?);
        let stop = setup::stop_on_signals()?;
        let listen = self.listen.unwrap_or(settings.worker.listen);
        let fixed = Fixed { flag: self.listen, listen, log: settings.log.clone(), declaring };
        let current = Current::new(&worker);
        let is_watched =
            |settings: &Settings| listen.address().is_some() || !settings.alert.is_empty();
        // They end with the process: while it drains, it says so.
        if let Some(address) = listen.address() {
            tokio::spawn(listen::serve(address, pages::pages(current.clone())));
        }
        let alerts = alerts::start(&settings.alert, current.clone(), &stop);
        let mut running = Running::start(worker, &stop, is_watched(settings));
        loop {
            let every = running.worker.settings.reload_on_change.as_duration();
            tokio::select! {
                biased;
                ended = running.ended() => return ended,
                () = hangups.received() => source.answers_anew(),
                () = source.changed(every) => {}
            }
            let renewed = tokio::select! {
                biased;
                () = stop.requested() => continue,
                renewed = fixed.renewed(&mut source, &running.worker.topology) => renewed,
            };
            let taken = match renewed {
                Ok((worker, settings)) => {
                    let watched = is_watched(&settings);
                    let replaced = running.replace(worker, &stop, watched, &current).await;
                    replaced.map(|()| settings).map_err(Failure::failed)
                }
                Err(failure) => Err(failure),
            };
            match taken {
                Ok(settings) => {
                    alerts::set(&alerts, &settings.alert);
                    source.answers_anew();
                    telemetry::reload::reloaded();
                }
                Err(failure) => source.refused(&failure),
            }
        }
    }
}
