//! The first line: is all well, if not why, and what to type.

use std::time::Duration;

use serde::Serialize;

use super::reading::{BrokerReading, DatabaseReading, Due, Known, Reading};
use crate::text::{about, counted, noun};

/// Events and notices that wait for longer than this are not being published.
const OUTBOX_S: u64 = 30;

/// How things are, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Orders are closed on time.
    Ok,
    /// They are, and something wants to be looked at.
    Look,
    /// Orders are late.
    Late,
    /// Nobody can say.
    Down,
}

/// How things are, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// In a word.
    pub word: Word,
    /// Why.
    pub reason: String,
    /// What helps; none where all is well.
    pub next: Option<String>,
}

impl State {
    /// Out of one reading.
    #[must_use]
    pub fn of(reading: &Reading) -> Self {
        let (database, broker) = match (&reading.database, &reading.broker) {
            (Known::Unknown(why), _) => {
                return Self::new(Word::Down, why.clone(), "overdue doctor");
            }
            (Known::Known(database), Known::Unknown(why)) => {
                return without_broker(database, reading.late_after_s, why);
            }
            (Known::Known(database), Known::Known(broker)) => (database, broker),
        };
        let unattended = unattended(broker);
        if let Some(due) = database.due.get()
            && due.oldest_s > reading.late_after_s
        {
            return late(due, broker, unattended);
        }
        if let Some(queue) = unattended {
            let reason = format!("no worker consumes {queue}, and no order is late yet");
            return Self::new(Word::Look, reason, "start `overdue run`, or look at its log");
        }
        look(database, broker).unwrap_or_else(|| Self {
            word: Word::Ok,
            reason: well(database),
            next: None,
        })
    }

    fn new(word: Word, reason: String, next: &str) -> Self {
        Self { word, reason, next: Some(next.to_owned()) }
    }
}

/// What the database alone shows: workers need no management API to close orders.
fn without_broker(database: &DatabaseReading, late_after_s: u64, why: &str) -> State {
    let Some(due) = database.due.get() else {
        return State::new(Word::Down, why.to_owned(), "overdue doctor");
    };
    let (word, orders) = if due.oldest_s > late_after_s {
        (Word::Late, overdue(due))
    } else {
        (Word::Look, well(database))
    };
    let reason = format!("{orders}; of the broker nothing is known: {why}");
    State::new(word, reason, "overdue doctor")
}

/// A queue that surely nobody consumes.
fn unattended(broker: &BrokerReading) -> Option<&str> {
    let mut queues = broker.business.iter();
    queues.find(|queue| queue.consumers == Some(0)).map(|queue| queue.name.as_str())
}

fn late(due: &Due, broker: &BrokerReading, unattended: Option<&str>) -> State {
    let orders = overdue(due);
    if let Some(queue) = unattended {
        let reason = format!("{orders}: no worker consumes {queue}");
        return State::new(Word::Late, reason, "start `overdue run`, or look at its log");
    }
    let ready: u64 = broker.business.iter().filter_map(|queue| queue.ready).sum();
    if ready > 0 {
        let reason = format!("{orders}: {} for the worker", waits(ready));
        return State::new(
            Word::Late,
            reason,
            "look at the worker's log: it is behind, or the database closes nothing",
        );
    }
    if broker.parked.is_some_and(|parked| parked > 0) {
        let reason = format!("{orders}: their messages are parked, or never came");
        return State::new(Word::Late, reason, "overdue parked list");
    }
    let tried = tried(broker);
    if tried > 0 {
        let are = if tried == 1 { "is" } else { "are" };
        let messages = counted(tried, "message");
        return State::new(
            Word::Late,
            format!("{orders}: {messages} {are} with the worker, or being retried"),
            "look at the worker's log: their effect fails, or their rows are locked",
        );
    }
    let reason = format!("{orders}: no message came, and the sweep does not close them");
    State::new(Word::Late, reason, "look at the worker's log; overdue verify")
}

/// Messages that a worker has, and those that it has put back for a while.
fn tried(broker: &BrokerReading) -> u64 {
    let in_hand: u64 = broker.business.iter().filter_map(|queue| queue.in_hand).sum();
    let retries = broker.levels.iter().filter(|level| level.retry);
    in_hand + retries.filter_map(|level| level.waiting).sum::<u64>()
}

fn overdue(due: &Due) -> String {
    let (orders, age) = (due.overdue, about(Duration::from_secs(due.oldest_s)));
    let are = if orders == 1 { "is" } else { "are" };
    format!("{} {are} overdue, by up to {age}", counted(orders, "order"))
}

fn waits(messages: u64) -> String {
    let wait = if messages == 1 { "waits" } else { "wait" };
    format!("{messages} {} {wait}", noun(messages, "message"))
}

/// What wants to be looked at although no order is late.
fn look(database: &DatabaseReading, broker: &BrokerReading) -> Option<State> {
    let look = |reason: String, next: &str| Some(State::new(Word::Look, reason, next));
    let outbox = database.outbox;
    if outbox.refused > 0 {
        let events = counted(outbox.refused, "event");
        return look(format!("the broker refuses or does not confirm {events}"), "overdue doctor");
    }
    if outbox.oldest_s > OUTBOX_S {
        let events = counted(outbox.events, "event");
        let age = about(Duration::from_secs(outbox.oldest_s));
        return look(format!("{events} not published, for up to {age}"), "overdue doctor");
    }
    let scheduled = database.scheduled.unwrap_or_default();
    if scheduled.refused > 0 {
        let notices = counted(scheduled.refused, "scheduled notice");
        return look(format!("{notices} cannot be published"), "overdue doctor");
    }
    if scheduled.notices > 0 && scheduled.oldest_s > OUTBOX_S {
        let notices = counted(scheduled.notices, "scheduled notice");
        let age = about(Duration::from_secs(scheduled.oldest_s));
        return look(format!("{notices} not published, for up to {age}"), "overdue doctor");
    }
    if let Some(parked @ 1..) = broker.parked {
        let are = if parked == 1 { "is" } else { "are" };
        let messages = counted(parked, "message");
        return look(format!("{messages} {are} parked"), "overdue parked list");
    }
    let found = database.closings.by_sweep;
    if found > 0 {
        let orders = counted(found, "order");
        return look(
            format!("the sweep found {orders} that no message came for"),
            "look at the order service's publish; overdue verify --probe",
        );
    }
    None
}

fn well(database: &DatabaseReading) -> String {
    match (&database.due, database.closings.closed) {
        (Known::Unknown(why), _) => format!("nothing is known to be late: {why}"),
        (Known::Known(due), 0) if due.coming() == 0 => {
            "nothing is due, and nothing late".to_owned()
        }
        (Known::Known(_), _) => "orders are closed on time".to_owned(),
    }
}
