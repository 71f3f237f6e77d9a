//! What database and broker say at one moment.

use std::time::Duration;

use serde::Serialize;

use crate::condition::{Unpublished, obstacle::Obstacle, pause::Pause};

/// Minutes that are looked ahead.
pub const MINUTES: usize = 60;

/// What was asked for, or why it is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known<T> {
    /// The answer.
    Known(T),
    /// Why there is none.
    Unknown(String),
}

impl<T> Known<T> {
    /// The answer, where there is one.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Known(it) => Some(it),
            Self::Unknown(_) => None,
        }
    }
}

/// One reading.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// The topology's name.
    pub topology: String,
    /// Where the database is, and what it says.
    pub database: Known<DatabaseReading>,
    /// What the broker says.
    pub broker: Known<BrokerReading>,
    /// Timeouts whose orders no worker closes, the last one to end first.
    pub pauses: Known<Vec<Pause>>,
    /// What the worker at `worker.listen` fails at, and why; empty where none answers.
    pub failing: Vec<Failing>,
    /// How old the broker's counts are at the most, in seconds.
    pub counts_age_s: u64,
    /// An order that is overdue by more than this is late, in seconds (`worker.sweep_grace`).
    pub late_after_s: u64,
}

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// `closing`, `sweep`, `relay`, `schedule`, `copies`, `broker` or `topology`.
    pub work: String,
    /// Why.
    pub reason: String,
}

impl Reading {
    /// Why this work fails, as the worker says.
    pub(super) fn why(&self, work: &str) -> Option<&str> {
        let failing = self.failing.iter().find(|failing| failing.work == work);
        failing.map(|failing| failing.reason.as_str())
    }
}

/// What the database says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatabaseReading {
    /// Its clock, `HH:MM:SS` in UTC.
    pub clock: String,
    /// What was closed lately.
    pub closings: Closings,
    /// What is and comes due; not known where an effect has no `overdue_sql` that takes a place to begin at.
    pub due: Known<Due>,
    /// What keeps overdue orders from being closed, tried as this user and rolled back.
    pub obstacle: Option<Obstacle>,
    /// Events that wait to be published.
    pub outbox: WaitingEvents,
    /// Notices of `schedule()` that wait to be published; none where it is not in use.
    pub scheduled: Option<WaitingNotices>,
}

/// What was closed lately, as `closures` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Closings {
    /// The time that is looked at, in seconds: five minutes, or less where more was closed than is looked at.
    pub window_s: f64,
    /// Orders closed in it.
    pub closed: u64,
    /// Orders closed per second in the last minute.
    pub closed_per_s: f64,
    /// Orders closed in the last minute that were due in it.
    pub due_last_minute: u64,
    /// Half of them were late by at most so much, in seconds.
    pub p50_s: f64,
    /// 99 of 100 were.
    pub p99_s: f64,
    /// All of them were.
    pub max_s: f64,
    /// Closed because their message came.
    pub by_message: u64,
    /// Closed in a burst, ahead of their message.
    pub by_burst: u64,
    /// Found by the sweep: no message came for them.
    pub by_sweep: u64,
    /// And in the last minute: it goes on.
    pub swept_last_minute: u64,
    /// The most that were closed within one second, among the newest.
    pub best_per_s: u64,
    /// When the last one was, in seconds before now; none where nothing was closed in the window.
    pub last_s: Option<f64>,
}

/// Orders that are open, by deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Due {
    /// Past their deadline.
    pub overdue: u64,
    /// Of these, those whose deadline was in the last minute.
    pub overdue_last_minute: u64,
    /// How long the oldest of them has been overdue, in seconds.
    pub oldest_s: u64,
    /// How many come due in each of the next minutes.
    pub minutes: Vec<u64>,
    /// When the next one comes due, in seconds from now.
    pub next_s: Option<u64>,
    /// Whether there are more than were counted.
    pub more: bool,
}

impl Default for Due {
    fn default() -> Self {
        Self {
            overdue: 0,
            overdue_last_minute: 0,
            oldest_s: 0,
            minutes: vec![0; MINUTES],
            next_s: None,
            more: false,
        }
    }
}

impl Due {
    /// Of several effects together.
    pub fn and(mut self, other: &Self) -> Self {
        self.overdue += other.overdue;
        self.overdue_last_minute += other.overdue_last_minute;
        self.oldest_s = self.oldest_s.max(other.oldest_s);
        for (minute, more) in self.minutes.iter_mut().zip(&other.minutes) {
            *minute += more;
        }
        self.next_s = self.next_s.into_iter().chain(other.next_s).min();
        self.more |= other.more;
        self
    }

    /// Orders that come due within the time that is looked at.
    pub fn coming(&self) -> u64 {
        self.minutes.iter().sum()
    }

    /// The first of the minutes in which most come due, and how many; none where nothing does.
    pub fn busiest(&self) -> Option<(usize, u64)> {
        let minutes = self.minutes.iter().copied().enumerate();
        let busiest = minutes.reduce(|one, other| if other.1 > one.1 { other } else { one });
        busiest.filter(|(_, orders)| *orders > 0)
    }
}

/// The outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitingEvents {
    /// Events that wait, up to 100,000.
    pub events: u64,
    /// Whether more may wait than were counted.
    pub more: bool,
    /// How long the oldest has, in seconds.
    pub oldest_s: u64,
    /// Events that the broker refuses or does not confirm, and those that can never be published.
    pub refused: u64,
}

impl From<WaitingEvents> for Unpublished {
    fn from(WaitingEvents { events, oldest_s, refused, .. }: WaitingEvents) -> Self {
        Self { waiting: events, oldest: Duration::from_secs(oldest_s), refused }
    }
}

/// Notices that order services have written with `schedule()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitingNotices {
    /// Notices that wait, up to 100,000.
    pub notices: u64,
    /// Whether more may wait than were counted.
    pub more: bool,
    /// How long the oldest has, in seconds.
    pub oldest_s: u64,
    /// Notices that were set aside: they cannot be published.
    pub refused: u64,
}

impl From<WaitingNotices> for Unpublished {
    fn from(WaitingNotices { notices, oldest_s, refused, .. }: WaitingNotices) -> Self {
        Self { waiting: notices, oldest: Duration::from_secs(oldest_s), refused }
    }
}

/// What the broker says: counts that are some seconds old.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BrokerReading {
    /// Queues that delay, shortest first.
    pub levels: Vec<Level>,
    /// Queues that workers consume.
    pub business: Vec<BusinessQueue>,
    /// Messages in the parking lot; none where the broker does not say.
    pub parked: Option<u64>,
    /// The worst that `overdue verify` finds.
    pub wrong: Option<Wrong>,
    /// The most frequent reasons, with their messages, where the parking lot was looked into.
    pub parked_reasons: Vec<(String, u64)>,
}

/// What is wrong on the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// It does not work, or messages can be lost, come early, or be stuck.
    pub is_error: bool,
    /// What it is about, and what was found.
    pub reason: String,
    /// What to do.
    pub next: String,
}

/// A queue that delays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// What it is called in a line: its level, or its queue where it is retired.
    pub name: String,
    /// Whether only retries use it, as far as the topology says.
    pub retry: bool,
    /// Messages in it; none where the broker does not say.
    pub waiting: Option<u64>,
}

/// A queue that workers consume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusinessQueue {
    /// The queue.
    pub name: String,
    /// Due, and with no worker yet.
    pub ready: Option<u64>,
    /// With a worker and not acked: being closed, held for a rest, or locked by somebody else.
    pub in_hand: Option<u64>,
    /// Consumers.
    pub consumers: Option<u64>,
}
