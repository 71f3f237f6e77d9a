//! Facts about database and broker at one moment.

use std::time::Duration;

use serde::Serialize;

use crate::condition::{Unpublished, obstacle::Obstacle, pause::Pause};

/// Minutes of the forecast.
pub const MINUTES: usize = 60;

/// An answer, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known<T> {
    /// The answer.
    Known(T),
    /// The reason why there is no answer.
    Unknown(String),
}

impl<T> Known<T> {
    /// The answer, if there is one.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Known(it) => Some(it),
            Self::Unknown(_) => None,
        }
    }
}

/// Facts at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// The topology's name.
    pub topology: String,
    /// Facts about the database.
    pub database: Known<DatabaseReading>,
    /// Facts about the broker.
    pub broker: Known<BrokerReading>,
    /// Paused timeouts, the last one to end first.
    pub pauses: Known<Vec<Pause>>,
    /// Failing work of the worker at `worker.listen`; empty if no worker answers.
    pub failing: Vec<Failing>,
    /// Limit of the age of the broker's counts, in seconds.
    pub counts_age_s: u64,
    /// Seconds after its deadline from which an open order is late (`worker.sweep_grace`).
    pub late_after_s: u64,
}

/// A failing part of a worker, as the worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// `closing`, `sweep`, `relay`, `schedule`, `copies`, `broker` or `topology`.
    pub work: String,
    /// The reason.
    pub reason: String,
}

impl Reading {
    /// The reason that the worker reports for the failure of this work.
    pub(super) fn why(&self, work: &str) -> Option<&str> {
        let failing = self.failing.iter().find(|failing| failing.work == work);
        failing.map(|failing| failing.reason.as_str())
    }
}

/// Facts about the database.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatabaseReading {
    /// The database's clock, `HH:MM:SS` in UTC.
    pub clock: String,
    /// Orders closed lately.
    pub closings: Closings,
    /// Orders that are due or come due; unknown if an effect has no `overdue_sql` with pages.
    pub due: Known<Due>,
    /// The obstacle that keeps overdue orders from being closed, from an attempt as this user that was rolled back.
    pub obstacle: Option<Obstacle>,
    /// Unpublished events.
    pub outbox: WaitingEvents,
    /// Unpublished notices of `schedule()`; `None` if it is not in use.
    pub scheduled: Option<WaitingNotices>,
}

/// Orders closed lately, from `closures`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Closings {
    /// The time window, in seconds: five minutes, or less if it has more closures than are read.
    pub window_s: f64,
    /// Orders closed in the window.
    pub closed: u64,
    /// Orders closed per second in the last minute.
    pub closed_per_s: f64,
    /// Orders closed in the last minute that were due in it.
    pub due_last_minute: u64,
    /// Median lateness, in seconds.
    pub p50_s: f64,
    /// 99th percentile of the lateness.
    pub p99_s: f64,
    /// Maximum of the lateness.
    pub max_s: f64,
    /// Orders closed by their message.
    pub by_message: u64,
    /// Orders closed in a burst, before their message.
    pub by_burst: u64,
    /// Orders that the sweep closed without a message.
    pub by_sweep: u64,
    /// Orders that the sweep closed in the last minute: the cause persists.
    pub swept_last_minute: u64,
    /// The highest number of orders closed in one second, among the newest.
    pub best_per_s: u64,
    /// Seconds since the last closing; `None` if the window has none.
    pub last_s: Option<f64>,
}

/// Open orders by deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Due {
    /// Orders whose deadline has passed.
    pub overdue: u64,
    /// Overdue orders whose deadline was in the last minute.
    pub overdue_last_minute: u64,
    /// Age of the oldest passed deadline, in seconds.
    pub oldest_s: u64,
    /// Orders that come due in each of the next minutes.
    pub minutes: Vec<u64>,
    /// Seconds until the next order comes due.
    pub next_s: Option<u64>,
    /// Whether there are more orders than were counted.
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
    /// Adds the orders of another effect.
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

    /// Orders that come due within the next [`MINUTES`].
    pub fn coming(&self) -> u64 {
        self.minutes.iter().sum()
    }

    /// The first of the busiest minutes, and its orders; `None` if no order comes due.
    pub fn busiest(&self) -> Option<(usize, u64)> {
        let minutes = self.minutes.iter().copied().enumerate();
        let busiest = minutes.reduce(|one, other| if other.1 > one.1 { other } else { one });
        busiest.filter(|(_, orders)| *orders > 0)
    }
}

/// Counts of the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitingEvents {
    /// Waiting events, counted up to 100,000.
    pub events: u64,
    /// Whether more may wait than were counted.
    pub more: bool,
    /// Age of the oldest waiting event, in seconds.
    pub oldest_s: u64,
    /// Events that the broker refuses or does not confirm, and events that can never be published.
    pub refused: u64,
}

impl From<WaitingEvents> for Unpublished {
    fn from(WaitingEvents { events, oldest_s, refused, .. }: WaitingEvents) -> Self {
        Self { waiting: events, oldest: Duration::from_secs(oldest_s), refused }
    }
}

/// Counts of the notices that order services wrote with `schedule()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitingNotices {
    /// Waiting notices, counted up to 100,000.
    pub notices: u64,
    /// Whether more may wait than were counted.
    pub more: bool,
    /// Age of the oldest waiting notice, in seconds.
    pub oldest_s: u64,
    /// Notices that cannot be published.
    pub refused: u64,
}

impl From<WaitingNotices> for Unpublished {
    fn from(WaitingNotices { notices, oldest_s, refused, .. }: WaitingNotices) -> Self {
        Self { waiting: notices, oldest: Duration::from_secs(oldest_s), refused }
    }
}

/// Facts about the broker; the counts are some seconds old.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BrokerReading {
    /// Delay queues, shortest delay first.
    pub levels: Vec<Level>,
    /// Queues that workers consume.
    pub business: Vec<BusinessQueue>,
    /// Messages in the parking lot; `None` if the broker does not report it.
    pub parked: Option<u64>,
    /// The worst finding of `overdue verify`.
    pub wrong: Option<Wrong>,
    /// The most frequent reasons with their messages, if the parking lot was read.
    pub parked_reasons: Vec<(String, u64)>,
}

/// A finding about the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// Whether the topology does not work, or messages can be lost, be early, or be stuck.
    pub is_error: bool,
    /// The subject and the finding.
    pub reason: String,
    /// The next step.
    pub next: String,
}

/// A delay queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// The name for a line: the level, or the queue if it is retired.
    pub name: String,
    /// Whether only retries use the level, according to the topology.
    pub retry: bool,
    /// Messages in the queue; `None` if the broker does not report it.
    pub waiting: Option<u64>,
}

/// A queue that workers consume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusinessQueue {
    /// The queue's name.
    pub name: String,
    /// Due messages that are not delivered yet.
    pub ready: Option<u64>,
    /// Unacked messages at workers: in a batch, waiting for their deadline, or with an order that another session has locked.
    pub in_hand: Option<u64>,
    /// Number of consumers.
    pub consumers: Option<u64>,
}
