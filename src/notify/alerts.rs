//! The tasks: one looks, and each alert has one that speaks.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{backoff::pause, deliver::deliver, files::Files};
use crate::{
    alerting::{facts::Facts, watcher::Watcher},
    config::AlertSettings,
    shutdown::Stop,
    telemetry,
};

/// How often the facts are looked at. They change with `worker.watch_every`, and what is counted at any time.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// An alert, and what it knows. With it its task ends.
struct Alert {
    settings: AlertSettings,
    files: Files,
    watcher: Mutex<Watcher>,
    /// There may be something to say.
    looked: Notify,
    stop: Stop,
}

impl Alert {
    fn watcher(&self) -> MutexGuard<'_, Watcher> {
        lock(&self.watcher)
    }
}

/// The alerts of a process: those that the settings have now.
#[derive(Clone)]
pub(crate) struct Alerts {
    topology: Arc<str>,
    stop: Stop,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    alerts: Vec<Arc<Alert>>,
    facts: Facts,
}

impl Alerts {
    /// None yet. They send messages until `stop` is requested: a worker that stops has nothing more to say.
    pub(crate) fn new(topology: &str, stop: &Stop) -> Self {
        Self { topology: topology.into(), stop: stop.clone(), known: Arc::default() }
    }

    /// These and no others. One that has not changed goes on; another one begins with what is so now.
    pub(crate) fn set(&self, settings: &[AlertSettings]) {
        let mut known = lock(&self.known);
        let last = std::mem::take(&mut known.alerts);
        for settings in settings {
            let same = last.iter().find(|alert| alert.settings == *settings).cloned();
            let alert = same.unwrap_or_else(|| self.begin(settings, &known.facts));
            known.alerts.push(alert);
        }
        for alert in last.iter().filter(|it| !known.alerts.iter().any(|kept| Arc::ptr_eq(kept, it)))
        {
            alert.stop.request();
        }
    }

    fn begin(&self, settings: &AlertSettings, facts: &Facts) -> Arc<Alert> {
        let alert = Arc::new(Alert {
            settings: settings.clone(),
            files: Files::default(),
            watcher: Mutex::new(Watcher::beginning(settings.rule(), Instant::now(), facts)),
            looked: Notify::new(),
            stop: self.stop.child(),
        });
        tokio::spawn(speak(Arc::clone(&alert), Arc::clone(&self.topology)));
        alert
    }

    /// Watches `facts`, which are looked at at least every `look_every`, until a stop is asked for.
    pub(crate) async fn watch(self, look_every: impl Fn() -> Duration, facts: impl Fn() -> Facts) {
        while !self.stop.is_requested() {
            self.look(facts());
            tokio::select! {
                biased;
                () = self.stop.requested() => return,
                () = tokio::time::sleep(look_every().min(LOOK_EVERY)) => {}
            }
        }
    }
}

impl Alerts {
    fn look(&self, facts: Facts) {
        let mut known = lock(&self.known);
        for alert in &known.alerts {
            alert.watcher().observe(Instant::now(), &facts);
            alert.looked.notify_one();
        }
        known.facts = facts;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One message at a time; what is not taken is made anew after a pause.
async fn speak(alert: Arc<Alert>, topology: Arc<str>) {
    let (stop, mut failures) = (&alert.stop, 0);
    while !stop.is_requested() {
        tokio::select! {
            biased;
            () = stop.requested() => return,
            () = alert.looked.notified() => {}
        }
        let Some(pause) = say(&alert, &topology, &mut failures).await else { continue };
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Sends what is due; after a failure the pause until the next attempt.
async fn say(alert: &Alert, topology: &str, failures: &mut u32) -> Option<Duration> {
    let notice = alert.watcher().due(Instant::now())?;
    let name = &alert.settings.name;
    match deliver(&alert.settings, &alert.files, topology, &notice).await {
        Ok(answer) => {
            alert.watcher().sent(Instant::now(), &notice);
            let kinds: Vec<&str> = notice.items.iter().map(|item| item.kind.name()).collect();
            telemetry::alerts::sent(name, &kinds.join(","), &answer);
            *failures = 0;
            None
        }
        Err(refused) => {
            *failures = failures.saturating_add(1);
            let pause = pause(*failures, &refused, alert.settings.at_most_every.as_duration());
            telemetry::alerts::failed(name, *failures == 1, &refused.reason, pause);
            Some(pause)
        }
    }
}
