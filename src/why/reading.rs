//! What is said of one order at one moment.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    condition::{obstacle::Lock, pause::Pause},
    order::Outcome,
    status::{Known, State},
};

/// One reading. What could not be asked says why, and the rest is there.
#[derive(Clone, Debug, Serialize)]
pub struct OrderReading {
    /// The order, as it was asked for.
    pub order: String,
    /// By the database's clock; none where it did not answer.
    pub now: Option<Timestamp>,
    /// From here on an order is late, in seconds (`worker.sweep_grace`).
    pub late_after_s: u64,
    /// What each effect would do with it now.
    pub effects: Vec<Seen>,
    /// Pauses of the topology's timeouts.
    pub pauses: Known<Vec<Pause>>,
    /// What was done with it, newest first.
    pub closures: Known<Found<Closure>>,
    /// Its notices of `schedule()` that are not published.
    pub notices: Known<Found<Notice>>,
    /// Messages about it in the parking lot.
    pub parked: Known<Vec<Parked>>,
    /// Its events that are not published.
    pub events: Known<Found<Event>>,
    /// What people have done to it, newest first.
    pub actions: Known<Vec<Action>>,
    /// How everything is; asked where nothing of the order itself says why it is late.
    pub general: Option<State>,
}

/// Rows, and how far was looked for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found<T> {
    /// Those of the order.
    pub rows: Vec<T>,
    /// If there are more rows than this, the others were not looked at.
    pub looked_at: Option<u64>,
}

/// What an effect says, tried and rolled back.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// The effect.
    pub effect: String,
    /// The timeouts that have it.
    pub timeouts: Vec<String>,
    /// `overdue`, `not_due`, `guarded`, `final`, `busy`, `failed` or `unknown`; none where it could not be tried.
    pub status: Option<&'static str>,
    /// The same for people; or why it could not be tried.
    pub means: String,
    /// The deadline in the row.
    pub due_at: Option<Timestamp>,
    /// Who holds a lock that it needs.
    pub locked: Option<String>,
    /// The session that holds it.
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
    /// What the effect calls the state.
    pub outcome: String,
    /// The deadline; none where it is infinite.
    pub due_at: Option<Timestamp>,
    /// When.
    pub closed_at: Option<Timestamp>,
    /// From one to the other, in milliseconds.
    pub late_ms: Option<u64>,
}

/// A notice of `schedule()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The timeout.
    pub timeout: Option<String>,
    /// For when.
    pub due_at: Option<Timestamp>,
    /// Since when it waits, or was set aside.
    pub since: Option<Timestamp>,
    /// Why it cannot be published; none while it waits.
    pub refused: Option<String>,
}

/// A message in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parked {
    /// The timeout.
    pub timeout: Option<String>,
    /// Why it is there.
    pub reason: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// What a replay would do with it.
    pub on_replay: String,
}

/// An event of the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its name.
    pub event: Option<String>,
    /// Since when it waits, or was refused.
    pub since: Option<Timestamp>,
    /// Why it is not published; none while it waits.
    pub refused: Option<String>,
}

/// What a person has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// When.
    pub at: Option<Timestamp>,
    /// The user of the database.
    pub by: String,
    /// `cli` or `page`.
    pub via: String,
    /// `parked replay`, `apply`.
    pub action: String,
    /// A filter or a name.
    pub what: String,
    /// Messages, orders or steps.
    pub count: Option<u64>,
    /// What the person said.
    pub why: Option<String>,
}

impl Seen {
    /// What came of trying the effect; `lock` where it waits for one.
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

    /// How much it matters: of several effects the one that has something to do says why.
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
    /// The effect that says most of it; none where none could be tried.
    pub fn leading(&self) -> Option<&Seen> {
        let known = self.effects.iter().filter(|seen| seen.outcome.get().is_some());
        // Of equals the one whose deadline comes first.
        known.min_by_key(|seen| {
            (u8::MAX - seen.rank(), seen.due_at.unwrap_or(Timestamp::MAX), &seen.effect)
        })
    }

    /// Whether it should have been closed by now.
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

    /// Whether anything of it is or was there, or could not be asked.
    pub fn is_known(&self) -> bool {
        let is_gone = |seen: &Seen| matches!(seen.outcome, Known::Known(Outcome::Unknown));
        let has_closures = self.closures.get().is_none_or(|found| !found.rows.is_empty());
        !self.effects.iter().all(is_gone) || has_closures
    }

    /// Whether it should have been closed by now, and nothing that is known of it says why it was not: then it depends on how
    /// everything is.
    pub fn asks_for_general(&self) -> bool {
        let is_overdue = self
            .leading()
            .is_some_and(|seen| matches!(seen.outcome.get(), Some(Outcome::Closed { .. })));
        is_overdue && super::answer::own_cause(self).is_none()
    }

    /// The pause of a timeout of this effect.
    pub(super) fn pause_of(&self, seen: &Seen) -> Option<&Pause> {
        let mut pauses = self.pauses.get()?.iter();
        pauses.find(|pause| seen.timeouts.contains(&pause.timeout))
    }

    /// How long ago that was.
    pub(super) fn ago(&self, since: Option<Timestamp>) -> Option<Duration> {
        Duration::try_from(self.now?.duration_since(since?)).ok()
    }
}
