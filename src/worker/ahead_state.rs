//! What the sweep-ahead of an effect and the consumers of its queues share.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};

use crate::{
    decisions::recent_orders::Remembered,
    order::{OrderId, Outcome},
};

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody would do it.
    Off,
    /// It can be asked for, from an instant on.
    Idle(Option<Instant>),
    /// It was asked for, or runs.
    Runs(Running),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    /// When it was asked for.
    began: Instant,
    /// When it has closed something last; at first when it was asked for.
    moved: Instant,
}

/// A sweep-ahead that closes nothing for so long is not waited for.
const LONGEST: Duration = Duration::from_millis(500);

impl State {
    fn begin(now: Instant) -> Self {
        Self::Runs(Running { began: now, moved: now })
    }

    /// Whether it runs, and has closed something of late.
    pub(super) fn closes(self, now: Instant) -> bool {
        matches!(self, Self::Runs(running) if now.saturating_duration_since(running.moved) < LONGEST)
    }

    /// When it will be waited for no longer, if it closes nothing until then.
    pub(super) fn given_up_at(self) -> Option<Instant> {
        let Self::Runs(running) = self else { return None };
        Some(running.moved + LONGEST)
    }
}

/// The sweep-ahead of one effect, as its task and the consumers share it.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(super) wanted: Notify,
    pub(super) state: watch::Sender<State>,
    /// Times that what had become due was closed, or left to its message.
    laps: AtomicU64,
    closed: Mutex<Remembered>,
    /// What could not be closed is left to its message.
    left: Mutex<Remembered>,
}

impl Default for Ahead {
    fn default() -> Self {
        let (wanted, state) = (Notify::new(), watch::Sender::new(State::Off));
        let laps = AtomicU64::default();
        Self { wanted, state, laps, closed: Mutex::default(), left: Mutex::default() }
    }
}

impl Ahead {
    /// More is due than a batch holds.
    pub(super) fn want(&self) {
        let now = Instant::now();
        let begins = self.state.send_if_modified(|state| {
            let begins = matches!(*state, State::Idle(from) if from <= Some(now));
            if begins {
                *state = State::begin(now);
            }
            begins
        });
        if begins {
            self.wanted.notify_one();
        }
    }

    /// Everything that was due when its lap began is closed, or left to its message.
    pub(super) fn lap_ended(&self) {
        self.laps.fetch_add(1, Ordering::Relaxed);
        // Who waits is woken.
        self.state.send_modify(|_| {});
    }

    /// Another worker closes ahead: who waits goes on waiting.
    pub(super) fn another_closes(&self) {
        self.moved(Instant::now());
    }

    /// Nobody is woken: what is closed is acked many at a time.
    fn moved(&self, now: Instant) {
        self.state.send_if_modified(|state| {
            if let State::Runs(running) = state {
                running.moved = now;
            }
            false
        });
    }

    /// How many laps have ended.
    pub(super) fn laps(&self) -> u64 {
        self.laps.load(Ordering::Relaxed)
    }

    /// Changes when it begins, with each of its laps, and when it is over.
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Whether it runs, and has closed something of late.
    pub(super) fn closes(&self, now: Instant) -> bool {
        self.state.borrow().closes(now)
    }

    /// Whether it has done so for no longer than `span`: one that goes on and on is a steady load.
    pub(super) fn closes_since(&self, span: Duration, now: Instant) -> bool {
        let state = *self.state.borrow();
        let is_young = |running: Running| now.saturating_duration_since(running.began) < span;
        state.closes(now) && matches!(state, State::Runs(running) if is_young(running))
    }

    /// Forgets what is too old to matter, and gives the memory back. True where nothing is left.
    pub(super) fn forget_old(&self, now: Instant) -> bool {
        let [closed, left] = [&self.closed, &self.left].map(|remembered| {
            let mut remembered = lock(remembered);
            remembered.forget_old(now);
            remembered.is_empty()
        });
        closed && left
    }

    /// Whether it was closed ahead of its message, this one.
    pub(super) fn take(&self, id: &OrderId, now: Instant) -> bool {
        lock(&self.closed).take(id, now)
    }

    pub(super) fn is_left(&self, id: &OrderId, now: Instant) -> bool {
        lock(&self.left).has(id, now)
    }

    /// How many were closed.
    pub(super) fn answered(&self, ids: &[OrderId], outcomes: &[Outcome]) -> usize {
        let (mut closed, mut left) = (Vec::new(), Vec::new());
        for (id, outcome) in ids.iter().zip(outcomes) {
            match outcome {
                Outcome::Closed { .. } => closed.push(id),
                // Its message finds out.
                Outcome::AlreadyFinal => {}
                Outcome::Busy
                | Outcome::NotDue { .. }
                | Outcome::Unknown
                | Outcome::Failed { .. }
                | Outcome::Postponed { .. } => left.push(id),
            }
        }
        let (count, now) = (closed.len(), Instant::now());
        lock(&self.closed).add(closed, now);
        lock(&self.left).add(left, now);
        if count > 0 {
            self.moved(now);
        }
        count
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
