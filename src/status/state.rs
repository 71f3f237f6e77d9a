//! The first line of the screen: the state, its reason, and what to type.

use std::time::Duration;

use serde::Serialize;

use super::reading::{BrokerReading, Closings, DatabaseReading, Due, Known, Reading, Wrong};
use crate::{
    condition::{
        self, ON_ITS_WAY, Unpublished,
        obstacle::{Kind, Obstacle},
    },
    text::{about, counted, one_line},
};

/// A reason, and what to do about it.
type Finding = (String, String);

const RUN: &str = "start `overdue run`, or look at its log";

/// The state in a word, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusLevel {
    /// Orders are closed on time.
    Ok,
    /// A person should check something.
    Look,
    /// Orders are late.
    Late,
    /// The state is unknown, or no worker runs.
    Down,
}

/// The state, its reason, and the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// The state in a word.
    pub word: StatusLevel,
    /// The reason.
    pub reason: String,
    /// The next step; `None` if all is well.
    pub next: Option<String>,
}

impl State {
    /// Judges one reading.
    pub fn of(reading: &Reading) -> Self {
        let (database, broker) = match (&reading.database, &reading.broker) {
            (Known::Unknown(why), _) => {
                return Self::new(StatusLevel::Down, why.clone(), "overdue doctor".to_owned());
            }
            (Known::Known(database), Known::Known(broker)) => (database, Ok(broker)),
            (Known::Known(database), Known::Unknown(why)) => (database, Err(why)),
        };
        let waiting = WaitingOrders::of(database, reading.late_after_s);
        let cause = cause(reading, database, broker.ok(), &waiting);
        let not_late = if is_without_worker(reading, broker.ok()) {
            StatusLevel::Down
        } else {
            StatusLevel::Look
        };
        if waiting.is_wrong(cause.is_some()) {
            let word = if waiting.is_late { StatusLevel::Late } else { not_late };
            let (why, next) = match cause {
                Some((cause, next)) => (format!(": {cause}"), next),
                None => beside(database, broker),
            };
            return Self::new(word, format!("{}{why}", waiting.text), next);
        }
        if let (Err(why), Known::Unknown(_), None) = (broker, &database.due, &cause) {
            return Self::new(StatusLevel::Down, why.clone(), doctor());
        }
        let found = cause.or_else(|| match (reading.why("broker"), broker) {
            (Some(away), _) => Some((away.to_owned(), doctor())),
            (None, Ok(broker)) => look(reading, database, broker),
            (None, Err(why)) => {
                Some((format!("{}; {}", well(database), nothing_known(why)), doctor()))
            }
        });
        match found {
            Some((reason, next)) => Self::new(not_late, reason, next),
            None => Self { word: StatusLevel::Ok, reason: well(database), next: None },
        }
    }

    const fn new(word: StatusLevel, reason: String, next: String) -> Self {
        Self { word, reason, next: Some(next) }
    }
}

fn doctor() -> String {
    "overdue doctor".to_owned()
}

fn nothing_known(why: &str) -> String {
    format!("the state of the broker is unknown: {why}")
}

/// Overdue open orders.
struct WaitingOrders {
    text: String,
    /// Overdue for longer than an order normally takes.
    is_long: bool,
    /// Overdue for long, while no other order was closed.
    is_stuck: bool,
    is_late: bool,
}

impl WaitingOrders {
    fn of(database: &DatabaseReading, late_after_s: u64) -> Self {
        let none = Due::default();
        let due = database.due.get().unwrap_or(&none);
        let [oldest, late_after] = [due.oldest_s, late_after_s].map(Duration::from_secs);
        let long = condition::overdue(due.overdue, oldest, ON_ITS_WAY);
        let is_stuck = long.is_some() && is_stuck(due, &database.closings);
        let text = match &long {
            Some(orders) if is_stuck => {
                format!("{orders}, and nothing was closed {}", closed_ago(&database.closings))
            }
            orders => orders.clone().unwrap_or_default(),
        };
        let is_late = condition::overdue(due.overdue, oldest, late_after).is_some();
        Self { text, is_long: long.is_some(), is_stuck, is_late }
    }

    /// While other orders are closed, waiting ones are left to the sweep for a while, unless their cause is known.
    const fn is_wrong(&self, is_known_why: bool) -> bool {
        self.is_late || self.is_stuck || self.is_long && is_known_why
    }
}

/// Whether orders are overdue for longer than normal, and none was closed in the last moments.
pub(super) fn is_stuck(due: &Due, closings: &Closings) -> bool {
    let closed = closings.last_s.is_some_and(|ago| ago <= ON_ITS_WAY.as_secs_f64());
    due.overdue > 0 && due.oldest_s > ON_ITS_WAY.as_secs() && !closed
}

/// `for 12s`, or `in the last 5m`.
pub(super) fn closed_ago(closings: &Closings) -> String {
    let length = |seconds: f64| about(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    match closings.last_s {
        Some(ago) => format!("for {}", length(ago)),
        None => format!("in the last {}", length(closings.window_s)),
    }
}

/// The reason why orders cannot be closed at this moment.
fn cause(
    reading: &Reading,
    database: &DatabaseReading,
    broker: Option<&BrokerReading>,
    waiting: &WaitingOrders,
) -> Option<Finding> {
    let obstacle = database.obstacle.as_ref();
    let tried = |Obstacle { reason, next, .. }: &Obstacle| (one_line(reason), next.clone());
    // The rights of a worker's user are unknown here, so a missing right of this user matters only if no order is closed.
    let is_right = |obstacle: &&Obstacle| obstacle.kind == Kind::Right;
    let error = broker.and_then(|broker| broker.wrong.as_ref()).filter(|wrong| wrong.is_error);
    let found = obstacle.filter(|it| !is_right(it)).map(tried).or_else(|| error.map(said));
    let found = found.or_else(|| {
        let reason = reading.why("closing").or_else(|| reading.why("sweep"))?;
        waiting.is_long.then(|| (format!("the worker reports: {reason}"), doctor()))
    });
    let unattended = || {
        let mut queues = broker.filter(|_| reading.why("broker").is_none())?.business.iter();
        let queue =
            queues.find_map(|queue| condition::unconsumed(&queue.name, queue.consumers?))?;
        Some((queue, RUN.to_owned()))
    };
    let lacks = obstacle.filter(|it| is_right(it) && (waiting.is_stuck || waiting.is_late));
    // A pause may concern other timeouts than the waiting orders have.
    found.or_else(unattended).or_else(|| paused(reading)).or_else(|| lacks.map(tried))
}

/// Whether no worker consumes any queue. A worker that has lost the broker closes orders from the table.
fn is_without_worker(reading: &Reading, broker: Option<&BrokerReading>) -> bool {
    let is_alone = |broker: &BrokerReading| {
        let mut queues = broker.business.iter();
        queues.len() > 0 && queues.all(|queue| queue.consumers == Some(0))
    };
    reading.why("broker").is_none() && broker.is_some_and(is_alone)
}

/// The first pause, or a resumption at a rate.
fn paused(reading: &Reading) -> Option<Finding> {
    let pause = reading.pauses.get()?.first()?;
    let next = match pause.per_second {
        None => format!("overdue resume {}, when that is over", pause.timeout),
        Some(_) => "overdue pauses".to_owned(),
    };
    Some((pause.to_string(), next))
}

fn said(Wrong { reason, next, .. }: &Wrong) -> Finding {
    (reason.clone(), next.clone())
}

/// Facts that may explain late orders, if no cause is known.
fn beside(database: &DatabaseReading, broker: Result<&BrokerReading, &String>) -> Finding {
    let scheduled = database.scheduled.unwrap_or_default();
    if scheduled.notices > 0 && scheduled.oldest_s > ON_ITS_WAY.as_secs() {
        let notices = counted(scheduled.notices, "scheduled notice");
        let age = about(Duration::from_secs(scheduled.oldest_s));
        return (format!("; {notices} not published, for up to {age}"), doctor());
    }
    let broker = match broker {
        Ok(broker) => broker,
        Err(why) => return (format!("; {}", nothing_known(why)), doctor()),
    };
    let ready: u64 = broker.business.iter().filter_map(|queue| queue.ready).sum();
    if ready > 0 {
        let wait = if ready == 1 { "waits" } else { "wait" };
        let messages = counted(ready, "message");
        return (format!("; {messages} {wait} for the workers"), doctor());
    }
    if let Some(parked) = broker.parked.and_then(condition::parked) {
        return (format!("; {parked}"), "overdue parked list".to_owned());
    }
    let in_hand: u64 = broker.business.iter().filter_map(|queue| queue.in_hand).sum();
    let retries = broker.levels.iter().filter(|level| level.retry);
    let tried = in_hand + retries.filter_map(|level| level.waiting).sum::<u64>();
    let mut reason = match tried {
        0 => "; no worker has a message".to_owned(),
        _ => format!("; {} with the workers, or waiting for a retry", counted(tried, "message")),
    };
    if database.obstacle.is_none() {
        reason.push_str(", and the oldest orders could be closed");
    }
    (reason, doctor())
}

/// Findings for a person, although no order waits.
fn look(reading: &Reading, database: &DatabaseReading, broker: &BrokerReading) -> Option<Finding> {
    let because = |wrong: Option<String>, work: &str| {
        let why = reading.why(work).map_or_else(String::new, |why| format!(": {why}"));
        wrong.map(|wrong| format!("{wrong}{why}"))
    };
    let outbox = Unpublished::from(database.outbox).of_outbox(condition::ON_ITS_WAY_OUT);
    let outbox = because(outbox, "relay");
    let scheduled = Unpublished::from(database.scheduled.unwrap_or_default());
    let scheduled = because(scheduled.of_schedule(condition::ON_ITS_WAY_OUT), "schedule");
    let parked = broker.parked.and_then(condition::parked);
    // Only while it continues: after an outage the sweep should close orders, and then stop.
    let swept = condition::swept(database.closings.swept_last_minute);
    let swept = swept.map(|swept| format!("{swept}, in the last minute"));
    let all = [
        (outbox, "overdue doctor"),
        (scheduled, "overdue doctor"),
        (parked, "overdue parked list"),
        (swept, "nothing after an outage, otherwise overdue verify --probe"),
    ];
    let mut found = all.into_iter();
    let found = found.find_map(|(wrong, next)| Some((wrong?, next.to_owned())));
    // A harmless difference waits until harmful ones are repaired.
    found.or_else(|| broker.wrong.as_ref().map(said))
}

fn well(database: &DatabaseReading) -> String {
    match (&database.due, database.closings.closed) {
        (Known::Unknown(why), _) => format!("nothing is known to be late: {why}"),
        (Known::Known(due), 0) if due.overdue == 0 && due.coming() == 0 => {
            "nothing is due, and nothing late".to_owned()
        }
        (Known::Known(due), _) if due.overdue > 0 && due.oldest_s > ON_ITS_WAY.as_secs() => {
            let oldest = about(Duration::from_secs(due.oldest_s));
            let orders = counted(due.overdue, "order");
            format!("orders are being closed; {orders} overdue, by up to {oldest}")
        }
        (Known::Known(_), _) => "orders are closed on time".to_owned(),
    }
}
