//! Health of a worker: whether it is ready, and whether its tasks make progress.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    condition::pause::Pause,
    config::WorkerSettings,
    decisions::readiness::{Answer, Progress, ReadyCondition, Session, WorkerState},
    topology::{Topology, level_routes::LevelRoutes},
};

/// The health of a worker: its tasks write it, `/readyz` and `/livez` read it.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<WorkerState>,
    /// Notified when messages stop arriving.
    pub(super) away: Notify,
    tasks: Arc<Mutex<BTreeMap<String, Moved>>>,
    /// Progress by effect.
    progress: Mutex<BTreeMap<String, Progress>>,
    /// Errors of work that fails at present, each with its time.
    failures: Mutex<BTreeMap<(Work, String), (Instant, String)>>,
    /// Pauses in the database.
    pauses: Mutex<Vec<Pause>>,
    /// Intervals at which sweep and watch are tried again.
    sweep_every: Duration,
    watch_every: Duration,
}

/// Work that fails without ending the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// Closing overdue orders of an effect.
    Closing,
    /// The sweep of an effect.
    Sweep,
    /// Publishing events.
    Relay,
    /// Publishing what `schedule()` wrote.
    Schedule,
    /// Publishing copies of a timeout's messages, also to the parking lot.
    Copies,
    /// Receiving messages.
    Broker,
    /// Declaring missing objects on the broker, if the broker was away at the start.
    Topology,
}

impl Work {
    /// Name in `/readyz`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Closing => "closing",
            Self::Sweep => "sweep",
            Self::Relay => "relay",
            Self::Schedule => "schedule",
            Self::Copies => "copies",
            Self::Broker => "broker",
            Self::Topology => "topology",
        }
    }
}

/// A task without a step for this long is stuck. The longest steps take less than a minute: publishing a page of rows, and
/// requests to a management API that does not answer.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_mins(5);
/// Failed work is tried again within this time, unless a setting defines a longer interval.
const FAILS_WITHIN: Duration = Duration::from_mins(2);

/// The last step of a task, and the time without a step after which it is stuck.
#[derive(Clone, Copy, Debug)]
struct Moved {
    at: Instant,
    within: Duration,
}

/// A task that must make progress; it is forgotten when it is dropped.
#[derive(Debug)]
pub(crate) struct Task {
    name: String,
    tasks: Arc<Mutex<BTreeMap<String, Moved>>>,
}

impl Task {
    /// Records a step.
    pub(crate) fn moved(&self) {
        if let Some(moved) = self.tasks.lock().get_mut(&self.name) {
            moved.at = Instant::now();
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.tasks.lock().remove(&self.name);
    }
}

impl Health {
    pub(super) fn new(settings: &WorkerSettings) -> Self {
        let (sweep_every, watch_every) =
            (settings.sweep_every.as_duration(), settings.watch_every.as_duration());
        Self { sweep_every, watch_every, ..Self::default() }
    }

    /// Registers a task that makes a step at least every `within`.
    pub(crate) fn task(&self, work: &str, on: &str, within: Duration) -> Task {
        let name = format!("{work} {on}").trim_end().to_owned();
        self.tasks.lock().insert(name.clone(), Moved { at: Instant::now(), within });
        Task { name, tasks: Arc::clone(&self.tasks) }
    }

    /// The stuck tasks, each with the time since its last step.
    pub(crate) fn stuck_tasks(&self, now: Instant) -> Vec<(String, Duration)> {
        let tasks = self.tasks.lock();
        let age = |moved: &Moved| now.saturating_duration_since(moved.at);
        let stuck = tasks.iter().filter(|(_, moved)| age(moved) > moved.within);
        stuck.map(|(name, moved)| (name.clone(), age(moved))).collect()
    }

    /// The state of each condition of `/readyz`. `silent` is how long an answer of the database is valid.
    pub(crate) fn conditions(&self, now: Instant, silent: Duration) -> Vec<ReadyCondition> {
        self.state.lock().conditions(now, silent)
    }

    pub(super) fn session_opened(&self) {
        let mut state = self.state.lock();
        state.session = Session::Open;
        state.silent.clear();
    }

    pub(super) fn session_ended(&self, reason: String) {
        let session = &mut self.state.lock().session;
        let since = match session {
            Session::Ended { since, .. } => *since,
            _ => Instant::now(),
        };
        *session = Session::Ended { since, reason };
        self.away.notify_waiters();
    }

    /// Records since when a queue of a timeout does not answer; `None` if it answers, or is not consumed any more.
    pub(super) fn silent(&self, queue: &str, timeout: &str, since: Option<Instant>) {
        let silent = &mut self.state.lock().silent;
        match since {
            Some(since) => _ = silent.insert(queue.to_owned(), (timeout.to_owned(), since)),
            None => _ = silent.remove(queue),
        }
        self.away.notify_waiters();
    }

    pub(super) fn is_away(&self, timeouts: &[&str], opens_for_long: bool) -> bool {
        self.state.lock().is_away(timeouts, opens_for_long)
    }

    /// Records the timeouts without a consumer.
    pub(super) fn unconsumed(&self, timeouts: Vec<String>, listed: bool) {
        let mut state = self.state.lock();
        (state.unconsumed, state.lists_queues) = (timeouts, listed);
    }

    /// Records which levels the broker routes to.
    pub(super) fn levels(&self, routes: &LevelRoutes, topology: &Topology) {
        let mut state = self.state.lock();
        state.unrouted = routes.missing_to_timeouts(topology).into_iter().collect();
        state.other_levels = routes.others().map(str::to_owned).collect();
    }

    /// Records that the effect closed an order.
    pub(super) fn closed(&self, effect: &str) {
        let closed = Progress::Closed(Instant::now());
        let mut progress = self.progress.lock();
        match progress.get_mut(effect) {
            Some(last) => *last = closed,
            None => _ = progress.insert(effect.to_owned(), closed),
        }
    }

    /// When the effect last closed an order; from the first call on, the effect is expected to close orders.
    pub(super) fn progress(&self, effect: &str) -> Progress {
        let begins = || Progress::Expected(Instant::now());
        *self.progress.lock().entry(effect.to_owned()).or_insert_with(begins)
    }

    /// Records how long an order has been overdue while the effect closed no order since its deadline; `None` if there is no such
    /// order.
    pub(super) fn stuck(&self, effect: &str, overdue: Option<Duration>) {
        let mut state = self.state.lock();
        match overdue {
            Some(overdue) => _ = state.stuck.insert(effect.to_owned(), overdue),
            None => _ = state.stuck.remove(effect),
        }
    }

    /// Records that the database answered, or why it did not.
    pub(super) fn database(&self, answer: Result<(), String>) {
        let mut state = self.state.lock();
        state.database = match (answer, &state.database) {
            (Ok(()), _) => Answer::Given(Instant::now()),
            (Err(reason), Answer::Failed { since, .. }) => Answer::Failed { since: *since, reason },
            (Err(reason), _) => Answer::Failed { since: Instant::now(), reason },
        };
    }

    /// Records that the work fails, and why.
    pub(crate) fn failed(&self, work: Work, of: &str, reason: &str) {
        let failure = (Instant::now(), reason.to_owned());
        self.failures.lock().insert((work, of.to_owned()), failure);
    }

    /// Records that the work succeeds; returns whether it failed before.
    pub(crate) fn works(&self, work: Work, of: &str) -> bool {
        let mut failures = self.failures.lock();
        !failures.is_empty() && failures.remove(&(work, of.to_owned())).is_some()
    }

    /// The failing work, with the reasons.
    pub(crate) fn failures(&self, now: Instant) -> Vec<(Work, String)> {
        let failures = self.failures.lock();
        let recent = failures
            .iter()
            .filter(|((work, _), (at, _))| now.saturating_duration_since(*at) < self.lasts(*work));
        let recent = recent.map(|((work, _), (_, reason))| (*work, reason.clone()));
        let away = self.state.lock().away(now).map(|reason| (Work::Broker, reason));
        away.into_iter().chain(recent).collect()
    }

    /// How long a failure counts if neither another failure nor success follows.
    fn lasts(&self, work: Work) -> Duration {
        let every = match work {
            Work::Sweep => self.sweep_every,
            Work::Closing => self.watch_every,
            Work::Relay | Work::Schedule | Work::Copies | Work::Broker | Work::Topology => {
                Duration::ZERO
            }
        };
        // Pauses of tasks are longer than their interval, and failing work may take long.
        FAILS_WITHIN + 2 * every
    }

    /// Records the present pauses.
    pub(super) fn pauses(&self, now: Vec<Pause>) {
        let before = std::mem::replace(&mut *self.pauses.lock(), now);
        let pauses = self.pauses.lock();
        let lasts = |it: &Pause| {
            pauses.iter().any(|pause| pause.timeout == it.timeout && pause.per_second.is_none())
        };
        if before.iter().any(|pause| pause.per_second.is_none() && !lasts(pause)) {
            // Orders that became due during the pause have as much time as any other order.
            self.progress.lock().clear();
        }
    }

    /// The pauses, the last one to end first.
    pub(crate) fn paused(&self) -> Vec<Pause> {
        self.pauses.lock().clone()
    }

    pub(super) fn stopping(&self) {
        self.state.lock().stopping = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_until_it_was_tried_again() {
        let seldom = 5 * FAILS_WITHIN;
        let every = format!("{}s", seldom.as_secs()).parse().unwrap();
        let settings = WorkerSettings { sweep_every: every, ..WorkerSettings::default() };
        let (health, now) = (Health::new(&settings), Instant::now());
        for work in [Work::Sweep, Work::Closing, Work::Relay] {
            health.failed(work, "close", "no");
        }
        let fail =
            |at| -> Vec<Work> { health.failures(at).iter().map(|(work, _)| *work).collect() };
        assert_eq!(fail(now), [Work::Closing, Work::Sweep, Work::Relay]);
        assert_eq!(fail(now + 2 * seldom), [Work::Sweep]);
        assert_eq!(fail(Instant::now() + FAILS_WITHIN + 2 * seldom), []);
    }
}
