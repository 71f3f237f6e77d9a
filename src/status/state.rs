//! The first line: is all well, if not why, and what to type.

use std::time::Duration;

use serde::Serialize;

use super::reading::{BrokerReading, DatabaseReading, Due, Known, Reading};
use crate::{
    condition::{self, Unpublished},
    text::{counted, noun},
};

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
            && let Some(orders) = overdue(due, reading.late_after_s)
        {
            return late(&orders, broker, unattended.as_deref());
        }
        if let Some(unattended) = unattended {
            let reason = format!("{unattended}, and no order is late yet");
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
    let (word, orders) = match overdue(due, late_after_s) {
        Some(orders) => (Word::Late, orders),
        None => (Word::Look, well(database)),
    };
    let reason = format!("{orders}; of the broker nothing is known: {why}");
    State::new(word, reason, "overdue doctor")
}

/// A queue that surely nobody consumes.
fn unattended(broker: &BrokerReading) -> Option<String> {
    let mut queues = broker.business.iter();
    queues.find_map(|queue| condition::unconsumed(&queue.name, queue.consumers?))
}

fn late(orders: &str, broker: &BrokerReading, unattended: Option<&str>) -> State {
    if let Some(unattended) = unattended {
        let reason = format!("{orders}: {unattended}");
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

fn overdue(due: &Due, late_after_s: u64) -> Option<String> {
    let [oldest, late_after] = [due.oldest_s, late_after_s].map(Duration::from_secs);
    condition::overdue(due.overdue, oldest, late_after)
}

fn waits(messages: u64) -> String {
    let wait = if messages == 1 { "waits" } else { "wait" };
    format!("{messages} {} {wait}", noun(messages, "message"))
}

/// What wants to be looked at although no order is late.
fn look(database: &DatabaseReading, broker: &BrokerReading) -> Option<State> {
    let outbox = Unpublished::from(database.outbox).of_outbox();
    let scheduled = database.scheduled.unwrap_or_default();
    let scheduled = Unpublished::from(scheduled).of_schedule();
    let parked = broker.parked.and_then(condition::parked);
    let swept = condition::swept(database.closings.by_sweep);
    let sweep_next = "look at the order service's publish; overdue verify --probe";
    let all = [
        (outbox, "overdue doctor"),
        (scheduled, "overdue doctor"),
        (parked, "overdue parked list"),
        (swept, sweep_next),
    ];
    let found = all.into_iter().find_map(|(wrong, next)| Some((wrong?, next)));
    found.map(|(wrong, next)| State::new(Word::Look, wrong, next))
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
