//! What a worker says without being asked.

use std::time::Instant;

use super::{pages, running::Current};
use crate::{
    alerting::facts::Facts,
    cli::exit::Failure,
    config::AlertSettings,
    notify::{alerts::Alerts, deliver},
    shutdown::Stop,
    telemetry::{labels, lately},
    worker::Worker,
};

/// Whether every alert has what it needs: at the start somebody is there to correct it.
pub(super) async fn check(alerts: &[AlertSettings]) -> Result<(), Failure> {
    for alert in alerts {
        deliver::check(alert).await.map_err(|reason| {
            Failure::configuration(format!("alert `{}`: {reason}", alert.name))
        })?;
    }
    Ok(())
}

/// Watches the worker, whichever it is, and sends messages beside everything else.
pub(super) fn start(settings: &[AlertSettings], current: Current, stop: &Stop) -> Alerts {
    let alerts = Alerts::new(&current.worker().topology.name, stop);
    set(&alerts, settings);
    let of_now = current.clone();
    let every = move || of_now.worker().settings.watch_every.as_duration();
    tokio::spawn(alerts.clone().watch(every, move || facts(&current.worker())));
    alerts
}

/// Those that the settings have now.
pub(super) fn set(alerts: &Alerts, settings: &[AlertSettings]) {
    labels::prepare_alerts(settings.iter().map(|alert| alert.name.as_str()));
    alerts.set(settings);
}

fn facts(worker: &Worker) -> Facts {
    let conditions = worker.health.conditions(Instant::now(), pages::silent(worker));
    let failed = conditions.into_iter().filter_map(|it| Some((it.name.to_owned(), it.failure?)));
    lately::take(failed.collect())
}
