//! What a worker answers to those who look at it.

use std::time::{Duration, Instant};

use super::running::Current;
use crate::{
    decisions::readiness::Condition,
    listen::page::Page,
    telemetry::{exposition, observed},
    worker::{Worker, health::Health},
};

/// An answer of the database that is missing three times in a row, with time for it to fail.
pub(super) fn silent(worker: &Worker) -> Duration {
    3 * worker.settings.watch_every.as_duration() + Duration::from_secs(45)
}

/// The page of a path.
pub(super) fn pages(current: Current) -> impl Fn(&str) -> Option<Page> + Send + Sync {
    move |path| {
        let worker = current.worker();
        let conditions = || worker.health.conditions(Instant::now(), silent(&worker));
        match path {
            "/metrics" => {
                let conditions = conditions();
                let holds = conditions.iter().map(|it| (it.name, it.failure.is_none()));
                observed::ready(&holds.collect::<Vec<_>>());
                Some(Page::metrics(exposition::text()))
            }
            "/readyz" => Some(ready(&conditions())),
            "/livez" => Some(live(&worker.health, Instant::now())),
            _ => None,
        }
    }
}

/// The first line is for those who read no more.
fn ready(conditions: &[Condition]) -> Page {
    let line =
        |it: &Condition| format!("{:<10} {}\n", it.name, it.failure.as_deref().unwrap_or("ok"));
    let lines: String = conditions.iter().map(line).collect();
    let failed = conditions.iter().find_map(|it| Some((it.name, it.failure.as_ref()?)));
    match failed {
        None => Page::text(200, format!("ready\n{lines}")),
        Some((name, failure)) => Page::text(503, format!("not ready: {name}: {failure}\n{lines}")),
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
        // It goes on, and has ended.
        sweep.moved();
        assert_eq!(live(&health, Instant::now() + minute / 2).status, 200);
        drop((sweep, relay));
        assert_eq!(live(&health, Instant::now() + 60 * minute).status, 200);
    }
}
