//! Facts about one order at one moment.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    condition::{obstacle::Lock, pause::Pause},
    order::Outcome,
    status::{Known, State},
};

/// Facts about one order. A failed query leaves its reason, and the other facts.
#[derive(Clone, Debug, Serialize)]
pub struct OrderReading {
    /// The order id as it was typed.
    pub order: String,
    /// The database's time; `None` if it did not answer.
    pub now: Option<Timestamp>,
    /// Seconds after its deadline from which an order is late (`worker.sweep_grace`).
    pub late_after_s: u64,
    /// The outcome that each effect would have now.
    pub effects: Vec<Seen>,
    /// Pauses of the topology's timeouts.
    pub pauses: Known<Vec<Pause>>,
    /// Closures of the order, newest first.
    pub closures: Known<Found<Closure>>,
    /// Unpublished notices of `schedule()`.
    pub notices: Known<Found<Notice>>,
    /// Messages about the order in the parking lot.
    pub parked: Known<Vec<Parked>>,
    /// Unpublished events of the order.
    pub events: Known<Found<Event>>,
    /// Actions of people on the order, newest first.
    pub actions: Known<Vec<Action>>,
    /// The overall state; read if the facts of the order do not explain its lateness.
    pub general: Option<State>,
}

/// Rows, and the number of rows that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found<T> {
    /// Rows of the order.
    pub rows: Vec<T>,
    /// The limit of rows that were read, if there are more.
    pub looked_at: Option<u64>,
}

/// The outcome of an effect, tried and rolled back.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// The effect.
    pub effect: String,
    /// Timeouts with this effect.
    pub timeouts: Vec<String>,
    /// `overdue`, `not_due`, `guarded`, `final`, `busy`, `failed` or `unknown`; `None` if the effect could not be tried.
    pub status: Option<&'static str>,
    /// The status in words, or the reason why the effect could not be tried.
    pub means: String,
    /// The deadline in the row.
    pub due_at: Option<Timestamp>,
    /// The lock that the order waits for.
    pub locked: Option<String>,
    /// Process id of the session with the lock.
    pub locked_by_pid: Option<i32>,
    #[serde(skip)]
    pub(super) outcome: Known<Outcome>,
}

/// A row of `closures`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Closure {
    /// The effect.
    pub effect: String,
    /// `message`, `burst` or `sweep`.
    pub path: String,
    /// The effect's word for the final state.
    pub outcome: String,
    /// The deadline; `None` if it is infinite.
    pub due_at: Option<Timestamp>,
    /// The time of the closing.
    pub closed_at: Option<Timestamp>,
    /// Time from the deadline to the closing, in milliseconds.
    pub late_ms: Option<u64>,
}

/// A notice of `schedule()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The timeout.
    pub timeout: Option<String>,
    /// The deadline.
    pub due_at: Option<Timestamp>,
    /// The time since which the notice waits, or was refused.
    pub since: Option<Timestamp>,
    /// The reason why the notice cannot be published; `None` while it waits.
    pub refused: Option<String>,
}

/// A message in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parked {
    /// The timeout.
    pub timeout: Option<String>,
    /// The reason why the message was parked.
    pub reason: String,
    /// The time of parking, if it is known.
    pub since: Option<Timestamp>,
    /// The result of a replay.
    pub on_replay: String,
}

/// An event of the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The event's name.
    pub event: Option<String>,
    /// The time since which the event waits, or was refused.
    pub since: Option<Timestamp>,
    /// The reason why the event is not published; `None` while it waits.
    pub refused: Option<String>,
}

/// An action of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// The time of the action.
    pub at: Option<Timestamp>,
    /// The user of the database.
    pub by: String,
    /// `cli` or `page`.
    pub via: String,
    /// The command, e.g. `parked replay` or `apply`.
    pub action: String,
    /// A filter or a name.
    pub what: String,
    /// Messages, orders or steps.
    pub count: Option<u64>,
    /// The reason that the person gave.
    pub why: Option<String>,
}

impl Seen {
    /// A tried effect; `lock` is the lock that it waits for.
    pub fn new(
        effect: &str,
        timeouts: Vec<String>,
        outcome: Known<Outcome>,
        due_at: Option<Timestamp>,
        lock: Option<&Lock>,
    ) -> Self {
        let (status, means) = match &outcome {
            Known::Unknown(why) => (None, format!("cannot be tried: {why}")),
            Known::Known(outcome) => {
                let (status, means) = meaning(outcome);
                (Some(status), means)
            }
        };
        Self {
            effect: effect.to_owned(),
            timeouts,
            status,
            means,
            due_at,
            locked: lock.map(ToString::to_string),
            locked_by_pid: lock.and_then(|lock| lock.holder.as_ref()).map(|holder| holder.pid),
            outcome,
        }
    }

    /// Importance of the effect: the highest of several effects explains the order.
    pub(super) fn rank(&self) -> u8 {
        match self.outcome.get() {
            Some(Outcome::Closed { .. }) => 6,
            Some(Outcome::Busy) => 5,
            Some(Outcome::Failed { .. } | Outcome::Postponed { .. }) => 4,
            Some(Outcome::NotDue { remaining }) if remaining.is_zero() => 3,
            Some(Outcome::NotDue { .. }) => 2,
            Some(Outcome::AlreadyFinal) => 1,
            Some(Outcome::Unknown) | None => 0,
        }
    }
}

fn meaning(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::NotDue { remaining } if remaining.is_zero() => {
            ("guarded", "a rule of the effect keeps it open".to_owned())
        }
        Outcome::NotDue { .. } => ("not_due", "not due yet".to_owned()),
        Outcome::Closed { state, .. } => {
            ("overdue", format!("overdue: with a notice it is {state} now"))
        }
        Outcome::AlreadyFinal => ("final", "final: a notice changes nothing".to_owned()),
        Outcome::Busy => ("busy", "locked by another session: ask again".to_owned()),
        Outcome::Unknown => ("unknown", "not in the database".to_owned()),
        Outcome::Failed { reason, .. } | Outcome::Postponed { reason } => {
            ("failed", format!("the effect fails: {reason}"))
        }
    }
}

impl OrderReading {
    /// The effect that explains most; `None` if no effect could be tried.
    pub fn leading(&self) -> Option<&Seen> {
        let known = self.effects.iter().filter(|seen| seen.outcome.get().is_some());
        // Of equal effects, the one with the earliest deadline.
        known.min_by_key(|seen| {
            (u8::MAX - seen.rank(), seen.due_at.unwrap_or(Timestamp::MAX), &seen.effect)
        })
    }

    /// Whether the order should have been closed already.
    pub fn is_late(&self) -> bool {
        let Some(seen) = self.leading() else { return false };
        match seen.outcome.get() {
            Some(Outcome::NotDue { remaining }) => remaining.is_zero(),
            Some(Outcome::Busy) => seen.due_at <= self.now,
            Some(Outcome::Closed { .. } | Outcome::Failed { .. } | Outcome::Postponed { .. }) => {
                true
            }
            Some(Outcome::AlreadyFinal | Outcome::Unknown) | None => false,
        }
    }

    /// Whether the order exists or existed, or could not be asked for.
    pub fn is_known(&self) -> bool {
        let is_gone = |seen: &Seen| matches!(seen.outcome, Known::Known(Outcome::Unknown));
        let has_closures = self.closures.get().is_none_or(|found| !found.rows.is_empty());
        !self.effects.iter().all(is_gone) || has_closures
    }

    /// Whether the order should have been closed already, and no fact about it explains why it was not. The overall state is then
    /// the reason.
    pub fn asks_for_general(&self) -> bool {
        let is_overdue = self
            .leading()
            .is_some_and(|seen| matches!(seen.outcome.get(), Some(Outcome::Closed { .. })));
        is_overdue && super::answer::own_cause(self).is_none()
    }

    /// The pause of a timeout with this effect.
    pub(super) fn pause_of(&self, seen: &Seen) -> Option<&Pause> {
        let mut pauses = self.pauses.get()?.iter();
        pauses.find(|pause| seen.timeouts.contains(&pause.timeout))
    }

    /// Time since `since`.
    pub(super) fn ago(&self, since: Option<Timestamp>) -> Option<Duration> {
        Duration::try_from(self.now?.duration_since(since?)).ok()
    }
}
