//! Reads the state of database and broker regularly for `/metrics` and `/readyz`: a scrape causes no query.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{
    backoff::jitter,
    clock_watch,
    context::Worker,
    health::{ALIVE_WITHIN, Work},
};
use crate::{
    administration::{Management, ManagementError},
    condition::ON_ITS_WAY,
    decisions::readiness::StallCheck,
    diagnostic::{Diagnostic, Severity},
    plan::{
        generation::number_of,
        own_queues::{Kind, named},
        snapshot::QueueStats,
    },
    shutdown::Stop,
    store::{
        StoreError, clock::DatabaseTime, effects::Effect, schedule::ScheduleUse,
        status::MOST_WAITING,
    },
    telemetry::{self, observed},
    text::error_chain,
    topology::{Timeout, Topology},
    verify,
};

/// Interval of the comparison of broker and topology, which lists the whole virtual host.
const COMPARE_EVERY: Duration = Duration::from_mins(5);

/// Reads the state at once and then after every `worker.watch_every`, until a stop is requested.
pub(crate) async fn watch(worker: Arc<Worker>, stop: Stop) {
    let every = worker.settings.watch_every.as_duration();
    let alive = worker.health.task("watch", "", every + ALIVE_WITHIN);
    let mut comparison = Comparison::default();
    while !stop.is_requested() {
        alive.moved();
        let looked = async {
            pauses(&worker).await;
            tokio::join!(database(&worker), scheduled(&worker), broker(&worker, &mut comparison));
        };
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = looked => {}
        }
        stop.pause(jitter(every)).await;
    }
    worker.health.stopping();
}

async fn database(worker: &Worker) {
    let answer = outbox(worker).await;
    // The answer is recorded before the effects are tried, which may take long.
    worker.health.database(answer.as_ref().map(drop).map_err(|error| error_chain(error)));
    if let Ok(now) = &answer {
        // The time in `answer` may be after a leap that no other reading of the clock has shown yet.
        let _unread = clock_watch::read(worker).await;
        for closer in worker.closers.values() {
            let effect = closer.effect();
            if overdue(worker, effect, *now).await.is_err() {
                observed::overdue(&effect.name, None);
                observed::look_failed("database");
            }
        }
    } else {
        observed::look_failed("database");
    }
}

async fn outbox(worker: &Worker) -> Result<DatabaseTime, StoreError> {
    worker.store.ping().await?;
    let state = worker.store.outbox(MOST_WAITING, &worker.passed_over()).await?;
    observed::outbox(&state, now_s());
    worker.store.now().await
}

/// Reads the pauses before the effects are checked: a paused effect is not stuck.
async fn pauses(worker: &Worker) {
    let Ok(pauses) = worker.store.pauses(&worker.topology.name).await else {
        return observed::look_failed("database");
    };
    for Timeout { name, effect, .. } in &worker.topology.timeouts {
        let pause = pauses.iter().find(|it| it.timeout == *name && it.per_second.is_none());
        observed::paused(name, effect, pause.map_or(Duration::ZERO, |pause| pause.age));
    }
    worker.health.pauses(pauses);
}

/// The tables of `schedule()` are optional: orders are closed also if the worker cannot read them.
async fn scheduled(worker: &Worker) {
    let state = worker.store.scheduled(MOST_WAITING, ScheduleUse::Counted).await;
    if state.is_err() {
        observed::look_failed("database");
    }
    let state = state.ok().filter(|state| state.lacks.is_none());
    let oldest = |ms| Duration::from_millis(ms);
    observed::scheduled(state.map(|it| (it.notices, oldest(it.oldest_ms), it.refused)));
}

/// Reads the overdue orders of an effect at `now`, by the database's clock.
async fn overdue(worker: &Worker, effect: &Effect, now: DatabaseTime) -> Result<(), StoreError> {
    let overdue = worker.store.overdue(effect, now).await?;
    let shown = overdue.map(|it| (it.orders, it.oldest));
    let is_paused = worker.is_paused(&effect.name);
    let oldest = overdue.and_then(|it| it.oldest).filter(|_| !is_paused).unwrap_or_default();
    obstacle(worker, effect, oldest).await;
    observed::overdue(&effect.name, shown);
    let bound = worker.settings.stuck_after.as_duration();
    let stuck = match worker.health.progress(&effect.name).suspect(Instant::now(), bound) {
        StallCheck::None => None,
        // Orders that are overdue only by a leap do not show that the worker is stuck.
        _ if is_paused || worker.clock.leap(Instant::now()).is_some() => None,
        StallCheck::All => worker.store.stuck_for(effect, now, None, bound).await?,
        StallCheck::Since(ago) => worker.store.stuck_for(effect, now, Some(ago), bound).await?,
    };
    worker.health.stuck(&effect.name, stuck);
    // `closures` is queried last: a session that rewrites the table locks it, and then no order is closed.
    let accounting = worker.store.accounting(effect, now).await;
    if accounting.is_err() {
        observed::look_failed("database");
    }
    observed::came_due(&effect.name, accounting.ok().flatten());
    Ok(())
}

/// Tries orders that are overdue for longer than a message takes, to find the reason, in a transaction that is rolled back.
async fn obstacle(worker: &Worker, effect: &Effect, oldest: Duration) {
    let found =
        if oldest > ON_ITS_WAY { worker.store.obstacle(effect).await.ok().flatten() } else { None };
    match found {
        Some(found) => worker.health.failed(Work::Closing, &effect.name, &found.reason),
        None => _ = worker.health.works(Work::Closing, &effect.name),
    }
}

/// When the broker was last compared, and the number of errors and warnings.
#[derive(Default)]
struct Comparison {
    at: Option<Instant>,
    wrong: usize,
    /// Requests that the management API did not answer the last time.
    failing: BTreeSet<&'static str>,
}

impl Comparison {
    /// Logs and counts a failed request; `at` is as in [`observed::look_failed`].
    fn answer<T>(&mut self, at: &'static str, answer: Result<T, String>) -> Option<T> {
        match answer {
            Ok(answer) => {
                if self.failing.remove(at) {
                    telemetry::look_works(at);
                }
                Some(answer)
            }
            Err(reason) => {
                observed::look_failed(at);
                if self.failing.insert(at) {
                    telemetry::look_fails(at, &reason);
                }
                None
            }
        }
    }
}

async fn broker(worker: &Worker, comparison: &mut Comparison) {
    // Without the tag `management`, the user may not use the management API.
    let Some(management) = &worker.management else { return };
    let stats = management.queue_stats_of(&worker.topology.name).await;
    let stats = stats.map_err(|error| error_chain(&error));
    if let Some(stats) = comparison.answer("broker", stats) {
        observed::queues(&messages(&worker.topology, &stats), now_s());
    }
    if comparison.at.is_none_or(|at| at.elapsed() >= COMPARE_EVERY) {
        let found = findings(management, &worker.topology).await;
        if let Some(found) = comparison.answer("topology", found) {
            report(&found, comparison);
        }
        comparison.at = Some(Instant::now());
    }
}

/// Messages of the topology's queues, also of retired ones, each with the kind of its queue.
fn messages(
    topology: &Topology,
    stats: &BTreeMap<String, QueueStats>,
) -> Vec<(String, &'static str, u64)> {
    let queues = topology.objects().queues;
    let holds = |name: &str| {
        let base = queues.values().find(|queue| number_of(&queue.name, name).is_some())?;
        Some(match named(topology, base)? {
            Kind::Delay(_) => "level",
            Kind::Business => "due",
            Kind::Parked => "parked",
        })
    };
    let row = |queue: &QueueStats| Some((queue.name.clone(), holds(&queue.name)?, queue.messages?));
    stats.values().filter_map(row).collect()
}

async fn findings(management: &Management, topology: &Topology) -> Result<Vec<Diagnostic>, String> {
    let asked = async {
        let mut observed = management.observe().await?;
        let stats = management.stats_and_policies().await?;
        management.add_foreign_consumers(topology, &mut observed, &stats).await?;
        Ok::<_, ManagementError>((observed, stats))
    };
    let (observed, stats) = asked.await.map_err(|error| error_chain(&error))?;
    let topology = topology.clone();
    computed(move || verify::findings(&topology, &observed, &stats, now())).await
}

/// Computes on a thread of its own, because many bindings take long: closing orders must not wait.
async fn computed<T: Send + 'static>(
    findings: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let computing = tokio::task::spawn_blocking(findings);
    computing.await.map_err(|panic| panic.to_string())
}

fn report(found: &[Diagnostic], comparison: &mut Comparison) {
    let count = |severity: Severity| found.iter().filter(|it| it.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let counts = [("error", errors), ("warning", warnings), ("note", count(Severity::Note))];
    observed::drift(&counts, now_s());
    let wrong = errors + warnings;
    if wrong != comparison.wrong {
        // The worst finding is the first.
        let first = found.first().map(|it| format!("{}: {}", it.subject, it.message));
        telemetry::drift_changed(wrong, first.as_deref().unwrap_or_default());
        comparison.wrong = wrong;
    }
}

#[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// Seconds since 1970 by this machine's clock, for timestamps of Prometheus.
fn now_s() -> f64 {
    now().duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::computed;

    /// An empty list of findings would end an alert.
    #[tokio::test]
    async fn a_comparison_that_panics_has_failed() {
        let found = computed(|| -> Vec<()> { panic!("a defect") }).await;
        assert!(found.is_err_and(|reason| reason.contains("a defect")));
    }
}
