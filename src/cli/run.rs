//! `overdue run`: checks the services once, declares the topology, and works until a signal.

mod prepare;

use std::{
    fmt::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;

use super::{
    exit::{self, Failure},
    setup::{self, Services},
};
use crate::{
    alerting::{self, Alert},
    condition::{self, Facts, Why},
    config::{AlertSettings, Listen, Settings},
    decisions::readiness::ReadyCondition,
    doctor::facts::ExposedFile,
    listen::{self, Page, ask::FAILING},
    telemetry::{self, labels, metrics, observed},
    text::{length, one_line},
    worker::{
        self, Worker,
        health::{Health, Work},
        watch,
    },
};
pub(super) use prepare::{Declaring, prepare};

/// Declare the topology, then close overdue orders until SIGTERM
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Declare nothing: for a worker without that right, where an administrator runs `overdue apply`
    #[arg(long)]
    no_declare: bool,
    /// Address of /metrics, /livez and /readyz, empty for none [default: worker.listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<Listen>,
}

impl Run {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let declaring = if self.no_declare { Declaring::Nothing } else { Declaring::Missing };
        telemetry::starting(settings.files.settings.as_deref());
        for ExposedFile { path, mode, .. } in settings.files.exposed() {
            telemetry::file_exposed(&path, mode);
        }
        let services = Services::open(settings)?;
        let alerts = alerts(&settings.alert, &services.topology.name)?;
        let (worker, missing) = prepare(settings, services, declaring).await?;
        let (worker, stop) = (Arc::new(worker), setup::stop_on_signals()?);
        if let Some(failure) = missing {
            let worker = Arc::clone(&worker);
            tokio::spawn(prepare::declare_later(worker, declaring, failure, stop.clone()));
        }
        // Pages, watch and alerts run until the process ends, so that they report while the worker drains.
        let address = self.listen.unwrap_or(settings.worker.listen).address();
        if let Some(address) = address {
            let request = worker.timing.page_request;
            tokio::spawn(listen::serve(address, request, pages(Arc::clone(&worker))));
        }
        if address.is_some() || !settings.alert.is_empty() {
            worker.prepare_metrics();
            tokio::spawn(watch::watch(Arc::clone(&worker), stop.clone()));
        }
        labels::prepare_alerts(alerts.iter().map(Alert::name));
        let every = worker.settings.watch_every.as_duration();
        let (watched, facts) = (stop.clone(), Arc::clone(&worker));
        tokio::spawn(alerting::watch(alerts, every, move || self::facts(&facts), watched));
        tokio::select! {
            ended = Box::pin(worker::run(&worker, &stop)) => Ok(ended?),
            refused = refused(&worker) => Err(refused),
        }
    }
}

/// Returns when the database has refused every login for `login_refused`, so that a supervisor sees it. Unacked messages return
/// to the broker with the connections.
async fn refused(worker: &Worker) -> Failure {
    while worker.store.refused_for() < worker.timing.login_refused {
        tokio::time::sleep(worker.timing.backoff_longest).await;
    }
    Failure {
        code: exit::NOT_PERMITTED,
        text: format!(
            "PostgreSQL at {} has refused every login for {}: correct user and password in database.url, or in its file \
             (docs/passwords.md)",
            worker.store.address(),
            length(worker.timing.login_refused)
        ),
    }
}

/// The alerts of the settings, checked at the start, when a person is there to correct them.
fn alerts(settings: &[AlertSettings], topology: &str) -> Result<Vec<Alert>, Failure> {
    let alert = |settings: &AlertSettings| {
        Alert::new(settings, topology).map_err(|reason| {
            Failure::configuration(format!("alert `{}`: {reason}", settings.name))
        })
    };
    settings.iter().map(alert).collect()
}

/// Facts that decide which alerts are sent.
fn facts(worker: &Worker) -> Facts {
    let conditions = worker.health.conditions(Instant::now(), silent(worker));
    let failed = conditions.into_iter().filter_map(|it| Some((it.name, it.failure?))).collect();
    let late_after = condition::late_after(worker.settings.sweep_grace.as_duration());
    observed::facts(failed, late_after, why(&worker.health))
}

fn why(health: &Health) -> Why {
    let failures = health.failures(Instant::now());
    let of = |works: &[Work]| {
        let mut failures = failures.iter();
        failures.find(|(work, _)| works.contains(work)).map(|(_, reason)| reason.clone())
    };
    Why {
        late: of(&[Work::Closing, Work::Sweep]),
        outbox: of(&[Work::Relay]),
        scheduled: of(&[Work::Schedule]),
        parked: observed::last_parked(Instant::now()),
    }
}

/// Time without an answer after which the database counts as silent: three polls, with time for the third poll to fail.
fn silent(worker: &Worker) -> Duration {
    3 * worker.settings.watch_every.as_duration() + Duration::from_secs(45)
}

/// The page of a path.
fn pages(worker: Arc<Worker>) -> impl Fn(&str) -> Option<Page> + Send + Sync {
    move |path| {
        let conditions = || worker.health.conditions(Instant::now(), silent(&worker));
        match path {
            "/metrics" => {
                let conditions = conditions();
                let holds = conditions.iter().map(|it| (it.name, it.failure.is_none()));
                observed::ready(&holds.collect::<Vec<_>>());
                Some(Page::metrics(metrics::text()))
            }
            "/readyz" => Some(ready(&conditions(), &worker)),
            "/livez" => Some(live(&worker.health, Instant::now())),
            _ => None,
        }
    }
}

/// The first line is the summary, for clients that read only that line.
fn ready(conditions: &[ReadyCondition], worker: &Worker) -> Page {
    let line = |it: &ReadyCondition| {
        format!("{:<10} {}\n", it.name, it.failure.as_deref().unwrap_or("ok"))
    };
    let mut lines: String = conditions.iter().map(line).collect();
    for (work, reason) in worker.health.failures(Instant::now()) {
        let (topology, work) = (&worker.topology.name, work.name());
        let _written = writeln!(lines, "{FAILING} {topology} {work}: {}", one_line(reason));
    }
    let pauses = worker.health.paused();
    for pause in &pauses {
        let _written = writeln!(lines, "paused     {pause}");
    }
    let failed = conditions.iter().find_map(|it| Some((it.name, it.failure.as_ref()?)));
    match (failed, pauses.first()) {
        (None, None) => Page::text(200, format!("ready\n{lines}")),
        (None, Some(pause)) => Page::text(200, format!("ready; {pause}\n{lines}")),
        (Some((name, failure)), _) => {
            Page::text(503, format!("not ready: {name}: {failure}\n{lines}"))
        }
    }
}

fn live(health: &Health, now: Instant) -> Page {
    let stuck = health.stuck_tasks(now);
    if stuck.is_empty() {
        return Page::text(200, "live\n");
    }
    let each = stuck.iter().map(|(task, age)| format!("{task} for {} s", age.as_secs()));
    let each: Vec<String> = each.collect();
    Page::text(503, format!("not live: these tasks have not moved: {}\n", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_a_task_that_is_stuck_is_not_live() {
        let (health, began) = (Health::default(), Instant::now());
        let minute = Duration::from_mins(1);
        let sweep = health.task("sweep", "close", minute);
        let relay = health.task("relay", "", 10 * minute);
        assert_eq!(live(&health, began + minute / 2).status, 200);
        let page = live(&health, Instant::now() + 2 * minute);
        assert_eq!(page.status, 503);
        assert_eq!(page.body, "not live: these tasks have not moved: sweep close for 120 s\n");
        // The sweep moves again, then both end.
        sweep.moved();
        assert_eq!(live(&health, Instant::now() + minute / 2).status, 200);
        drop((sweep, relay));
        assert_eq!(live(&health, Instant::now() + 60 * minute).status, 200);
    }
}
