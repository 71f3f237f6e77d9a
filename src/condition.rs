//! Conditions that can be wrong while orders are closed, each with its limit and its text. `doctor`, `status` and alerts all use
//! them, so that they never contradict each other.

pub(crate) mod gone;
pub mod obstacle;
pub(crate) mod pause;

use std::{collections::BTreeSet, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gone::GoneNotices;

use crate::text::{about, counted, duration, millis};

/// An alert is sent if an event or a notice waits longer: a worker needs milliseconds. A burst takes seconds, which is worth no
/// alert.
const UNPUBLISHED_AFTER: Duration = Duration::from_mins(1);
/// Factor by which affected orders or messages must grow before an alert is repeated. A single bad order that stays must not hide
/// that later no order is closed.
const MUCH_WORSE: u64 = 10;
/// The shorter limit for people who check `status` or `doctor`.
pub(crate) const ON_ITS_WAY_OUT: Duration = Duration::from_secs(10);

/// An order that is closed this soon after its deadline is not late, even if `sweep_grace` is shorter.
pub(crate) const ON_TIME_WITHIN: Duration = Duration::from_secs(1);

/// An order is closed within milliseconds of its deadline. If it is overdue for longer, something delays it.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// Orders are late after this time: for `sweep_grace` the sweep leaves them to their messages.
pub(crate) fn late_after(sweep_grace: Duration) -> Duration {
    sweep_grace.max(ON_TIME_WITHIN)
}

/// The subject of an alert, in the order of `docs/alerts.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// A condition of `/readyz` does not hold.
    NotReady,
    /// Orders are closed late, or are overdue and open.
    Late,
    /// Messages are in the parking lot.
    Parked,
    /// The rows of most notices were deleted.
    Gone,
    /// Events wait in the outbox for long, or are refused.
    Outbox,
    /// Notices of `schedule()` wait for long, or cannot be published.
    Scheduled,
    /// The sweep closes orders that no message came for.
    Sweep,
    /// The broker differs from the topology file.
    Drift,
    /// The database's clock has leapt forward.
    Clock,
}

impl Condition {
    /// Every condition.
    pub const ALL: [Self; 9] = [
        Self::NotReady,
        Self::Late,
        Self::Parked,
        Self::Gone,
        Self::Outbox,
        Self::Scheduled,
        Self::Sweep,
        Self::Drift,
        Self::Clock,
    ];

    /// The name in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReady => "not-ready",
            Self::Late => "late",
            Self::Parked => "parked",
            Self::Gone => "gone",
            Self::Outbox => "outbox",
            Self::Scheduled => "scheduled",
            Self::Sweep => "sweep",
            Self::Drift => "drift",
            Self::Clock => "clock",
        }
    }

    /// Link to the runbook.
    pub fn runbook(self) -> String {
        let alert = match self {
            Self::NotReady => "OverdueWorkerNotReady",
            Self::Late => "OverdueClosedLate",
            Self::Parked => "OverdueParked",
            Self::Gone => "OverdueGone",
            Self::Outbox => "OverdueOutboxOld",
            Self::Scheduled => "OverdueScheduledOld",
            Self::Sweep => "OverdueSweepFinds",
            Self::Drift => "OverdueDrift",
            Self::Clock => "OverdueDatabaseClockLeapt",
        };
        format!("docs/runbooks.md#{}", alert.to_lowercase())
    }

    /// The limit in words, for the table of `docs/alerts.md`.
    pub fn limit(self) -> String {
        let unpublished = duration_of(UNPUBLISHED_AFTER);
        match self {
            Self::NotReady => {
                "a condition of `/readyz` does not hold, for `not_ready_for`".to_owned()
            }
            Self::Late => format!(
                "an order is closed, or is overdue and open, more than `worker.sweep_grace` (at \
                 least {}) after its deadline",
                duration_of(ON_TIME_WITHIN)
            ),
            Self::Parked => "messages are in the parking lot".to_owned(),
            Self::Gone => gone::limit(),
            Self::Outbox => format!(
                "an event has waited in the outbox for more than {unpublished}, or the broker \
                 refuses or does not confirm some"
            ),
            Self::Scheduled => format!(
                "a notice of `schedule()` has waited for more than {unpublished}, or some cannot \
                 be published"
            ),
            Self::Sweep => "the sweep closes orders before a message came".to_owned(),
            Self::Drift => {
                "the broker differs from the topology file, which is compared every 5m".to_owned()
            }
            Self::Clock => "the database's clock has leapt forward by more than 30s".to_owned(),
        }
    }
}

fn duration_of(limit: Duration) -> String {
    duration(millis(limit))
}

/// Counts of events of the outbox, or of notices of `schedule()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpublished {
    /// Waiting rows.
    pub waiting: u64,
    /// Age of the oldest waiting row.
    pub oldest: Duration,
    /// Rows that the broker refuses or does not confirm, and rows that can never be published.
    pub refused: u64,
}

impl Unpublished {
    /// The fault of the outbox, if there is one, e.g. events that have waited longer than `after`.
    pub fn of_outbox(&self, after: Duration) -> Option<String> {
        let refused =
            || format!("the broker refuses or does not confirm {}", counted(self.refused, "event"));
        (self.refused > 0).then(refused).or_else(|| self.old("event", after))
    }

    /// The fault of the notices of `schedule()`, if there is one.
    pub fn of_schedule(&self, after: Duration) -> Option<String> {
        let refused =
            || format!("{} cannot be published", counted(self.refused, "scheduled notice"));
        (self.refused > 0).then(refused).or_else(|| self.old("scheduled notice", after))
    }

    fn old(&self, what: &str, after: Duration) -> Option<String> {
        let waiting = || {
            format!(
                "{} not published, for up to {}",
                counted(self.waiting, what),
                about(self.oldest)
            )
        };
        (self.waiting > 0 && self.oldest > after).then(waiting)
    }
}

/// Whether an unpublished row has waited too long.
pub(crate) fn is_old(oldest: Duration) -> bool {
    oldest > ON_ITS_WAY_OUT
}

/// The fault for this many messages in the parking lot, if any.
pub(crate) fn parked(messages: u64) -> Option<String> {
    let are = if messages == 1 { "is" } else { "are" };
    (messages > 0).then(|| format!("{} {are} parked", counted(messages, "message")))
}

/// The fault for this many overdue orders, the oldest for `oldest`, if they are late.
pub(crate) fn overdue(orders: u64, oldest: Duration, late_after: Duration) -> Option<String> {
    (orders > 0 && oldest > late_after).then(|| {
        let are = if orders == 1 { "is" } else { "are" };
        format!("{} {are} overdue, by up to {}", counted(orders, "order"), about(oldest))
    })
}

/// The fault if a queue has no consumers.
pub(crate) fn unconsumed(queue: &str, consumers: u64) -> Option<String> {
    (consumers == 0).then(|| format!("no worker consumes {queue}"))
}

/// The fault if the sweep has closed orders.
pub(crate) fn swept(orders: u64) -> Option<String> {
    let found = || format!("the sweep closed {} before a message came", counted(orders, "order"));
    (orders > 0).then(found)
}

/// Reasons for failing work of a worker, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// Why overdue orders are not closed.
    pub late: Option<String>,
    /// Why events are not published.
    pub outbox: Option<String>,
    /// Why notices of `schedule()` are not published.
    pub scheduled: Option<String>,
    /// The message that the worker parked last, with the reason.
    pub parked: Option<String>,
}

/// A fault with its cause, if that is known.
fn because(wrong: String, cause: Option<&String>) -> String {
    match cause {
        Some(cause) => format!("{wrong}: {cause}"),
        None => wrong,
    }
}

/// The facts that a worker has at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Failed conditions of `/readyz`, with their reasons.
    pub not_ready: Vec<(&'static str, String)>,
    /// The highest lateness of the orders closed since the last reading.
    pub closed_late: Duration,
    /// Overdue open orders, and the age of the oldest deadline; `None` if the database cannot be asked.
    pub overdue: Option<(u64, Duration)>,
    /// Orders are late after this time.
    pub late_after: Duration,
    /// Known causes.
    pub why: Why,
    /// Messages in the parking lot; `None` if the management API does not report it.
    pub parked: Option<u64>,
    /// A timeout most of whose notices find no row.
    pub gone: Option<GoneNotices>,
    /// `None` if the database cannot be asked.
    pub outbox: Option<Unpublished>,
    /// `None` if `schedule()` is not in use, or the database cannot be asked.
    pub scheduled: Option<Unpublished>,
    /// Orders that the sweep closed since the last reading, and since the worker started.
    pub swept: (u64, u64),
    /// Errors and warnings of the last comparison with the topology file; `None` before the first.
    pub drift: Option<u64>,
    /// Size of the database clock's leap forward in the last hour.
    pub clock_leap: Duration,
}

/// The result for one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The facts are missing.
    Unknown,
    /// There is no fault.
    Right,
    /// There is a fault.
    Wrong(Wrong),
}

/// A fault, with the parts by which news is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// The fault in one line.
    pub text: String,
    /// Causes of a condition with several: a new one is news.
    pub subjects: BTreeSet<&'static str>,
    /// Affected orders or messages, if they are counted: ten times as many is news.
    pub number: u64,
}

impl Wrong {
    /// Whether this fault must be reported after `before` was reported.
    pub fn is_news_after(&self, before: &Self) -> bool {
        !self.subjects.is_subset(&before.subjects)
            || self.number >= before.number.max(1).saturating_mul(MUCH_WORSE)
    }

    /// Merges a reported fault into the new one, so that known causes stay known.
    pub(crate) fn after(mut self, before: &Self) -> Self {
        self.subjects.extend(&before.subjects);
        self.number = self.number.max(before.number);
        self
    }
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Facts {
    /// Judges one condition.
    pub fn judge(&self, condition: Condition) -> Judgement {
        let judged = |wrong: Option<Wrong>| wrong.map_or(Judgement::Right, Judgement::Wrong);
        let known = |wrong: Option<String>| judged(wrong.map(Wrong::from));
        let asked = |asked: Option<Option<String>>| asked.map_or(Judgement::Unknown, known);
        match condition {
            Condition::NotReady => judged(self.unready()),
            Condition::Late => self.late(),
            Condition::Parked => self.parked.map_or(Judgement::Unknown, |number| {
                let last = self.why.parked.as_ref().map(|last| format!("; {last}"));
                let text = parked(number).map(|parked| parked + &last.unwrap_or_default());
                judged(text.map(|text| Wrong { text, number, ..Wrong::default() }))
            }),
            Condition::Gone => known(self.gone.as_ref().map(ToString::to_string)),
            Condition::Outbox => asked(self.outbox.map(|it| {
                let wrong = it.of_outbox(UNPUBLISHED_AFTER)?;
                Some(because(wrong, self.why.outbox.as_ref()))
            })),
            Condition::Scheduled => asked(self.scheduled.map(|it| {
                let wrong = it.of_schedule(UNPUBLISHED_AFTER)?;
                Some(because(wrong, self.why.scheduled.as_ref()))
            })),
            Condition::Sweep => {
                let (new, all) = self.swept;
                let since_start = |found| format!("{found}, since the worker started");
                known(swept(all).filter(|_| new > 0).map(since_start))
            }
            Condition::Drift => asked(self.drift.map(|findings| {
                let findings = (findings > 0).then(|| counted(findings, "finding"))?;
                Some(format!(
                    "the broker differs from the topology file: {findings} of `overdue verify`"
                ))
            })),
            Condition::Clock => known((!self.clock_leap.is_zero()).then(|| {
                let leap = about(self.clock_leap);
                format!("the database's clock has leapt forward by {leap}: sweep and bursts wait for an hour")
            })),
        }
    }

    fn unready(&self) -> Option<Wrong> {
        let lines = self.not_ready.iter().map(|(name, reason)| format!("{name}: {reason}"));
        let text = lines.collect::<Vec<_>>().join("; ");
        let subjects = self.not_ready.iter().map(|(name, _)| *name).collect();
        (!self.not_ready.is_empty()).then_some(Wrong { text, subjects, number: 0 })
    }

    fn late(&self) -> Judgement {
        let is_late = self.closed_late > self.late_after;
        let closed = is_late.then(|| {
            format!("orders were closed up to {} after their deadline", about(self.closed_late))
        });
        let (number, oldest) = self.overdue.unwrap_or_default();
        // Open orders are named before orders that were closed late.
        let open = overdue(number, oldest, self.late_after)
            .map(|wrong| because(wrong, self.why.late.as_ref()));
        let subjects = [open.as_ref().map(|_| "open"), closed.as_ref().map(|_| "closed")];
        let subjects: BTreeSet<_> = subjects.into_iter().flatten().collect();
        let text = match (open, closed) {
            (Some(open), Some(closed)) => format!("{open}; {closed}"),
            (Some(text), None) | (None, Some(text)) => text,
            (None, None) if self.overdue.is_none() => return Judgement::Unknown,
            (None, None) => return Judgement::Right,
        };
        let number = if subjects.contains("open") { number } else { 0 };
        Judgement::Wrong(Wrong { text, subjects, number })
    }
}
