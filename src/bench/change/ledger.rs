//! The account of every message: when it was published, how often it came out, and what that makes of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::scenario::Way;

/// What a message carries: enough to find it in the ledger, and to tell it from any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its number, from 0.
    pub number: usize,
    /// When it was published, in microseconds since the ledger was opened.
    pub sent_us: u64,
}

/// One message; small, because there are hundreds of thousands.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sent_us: u64,
    due_us: u64,
    /// When it was received first.
    received_us: Option<u64>,
    /// Copies received.
    received: u16,
    /// Copies in the parking lot.
    parked: u16,
    /// The broker has taken responsibility.
    confirmed: bool,
    /// It was confirmed before the change began.
    before_change: bool,
    /// Level and timeout stay, so nothing is to park it.
    stays: bool,
}

/// Every message of a scenario. All times are since it was opened, by a clock that never goes back.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    confirmed: usize,
    waiting: usize,
    early: usize,
    foreign: usize,
    last_event: Duration,
}

/// What became of the messages, in messages unless it says copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Published and confirmed.
    pub published: usize,
    /// Of these, confirmed and in no consumer's hands when the change began.
    pub waiting: usize,
    /// Copies received from business queues.
    pub received: usize,
    /// Messages received at least once.
    pub distinct: usize,
    /// Copies received or parked beyond the first of each message.
    pub duplicates: usize,
    /// In the parking lot, and not received.
    pub parked: usize,
    /// Of these, such as should have been received: the change has not taken away their level or timeout, or
    /// they were confirmed before it began.
    pub astray: usize,
    /// Confirmed, and neither received nor parked.
    pub lost: usize,
    /// Copies received before they were due.
    pub early: usize,
    /// Copies of messages that nobody published.
    pub foreign: usize,
}

impl Ledger {
    /// A message is about to be published; its time starts now.
    pub fn sent(&mut self, way: &Way, now: Duration) -> Mark {
        let mark = Mark { number: self.entries.len(), sent_us: micros(now) };
        self.entries.push(Entry {
            sent_us: mark.sent_us,
            due_us: mark.sent_us.saturating_add(micros(way.ttl.as_duration())),
            received_us: None,
            received: 0,
            parked: 0,
            confirmed: false,
            before_change: false,
            stays: way.stays,
        });
        self.last_event = now;
        mark
    }

    /// The broker has confirmed it. Only these can be lost.
    pub fn confirmed(&mut self, mark: Mark) {
        if let Some(entry) = self.entries.get_mut(mark.number).filter(|entry| !entry.confirmed) {
            entry.confirmed = true;
            self.confirmed += 1;
        }
    }

    /// The change begins: what is confirmed by now is to come out as if nothing changed.
    pub fn change_begins(&mut self) {
        for entry in &mut self.entries {
            entry.before_change = entry.confirmed;
            self.waiting += usize::from(entry.confirmed && entry.received + entry.parked == 0);
        }
    }

    /// A copy came out of a business queue.
    pub fn received(&mut self, mark: Option<Mark>, now: Duration) {
        self.last_event = now;
        let Some(entry) = self.entry(mark) else { return };
        entry.received = entry.received.saturating_add(1);
        entry.received_us.get_or_insert(micros(now));
        let early = micros(now) < entry.due_us;
        self.early += usize::from(early);
    }

    /// A copy came out of the parking lot.
    pub fn parked(&mut self, mark: Option<Mark>, now: Duration) {
        self.last_event = now;
        let Some(entry) = self.entry(mark) else { return };
        entry.parked = entry.parked.saturating_add(1);
    }

    fn entry(&mut self, mark: Option<Mark>) -> Option<&mut Entry> {
        let found = mark.and_then(|mark| {
            let entry = self.entries.get_mut(mark.number)?;
            (entry.sent_us == mark.sent_us).then_some(entry)
        });
        self.foreign += usize::from(found.is_none());
        found
    }

    /// Messages confirmed so far.
    #[must_use]
    pub const fn published(&self) -> usize {
        self.confirmed
    }

    /// Messages that came out so far, wherever.
    #[must_use]
    pub fn out(&self) -> usize {
        self.entries.iter().filter(|entry| entry.received + entry.parked > 0).count()
    }

    /// When a message was last published, received or parked.
    #[must_use]
    pub const fn last_event(&self) -> Duration {
        self.last_event
    }

    /// The account as it stands.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally {
            published: self.confirmed,
            waiting: self.waiting,
            early: self.early,
            foreign: self.foreign,
            ..Tally::default()
        };
        for entry in &self.entries {
            let (received, parked) = (usize::from(entry.received), usize::from(entry.parked));
            let only_parked = received == 0 && parked > 0;
            tally.received += received;
            tally.distinct += usize::from(received > 0);
            tally.duplicates += (received + parked).saturating_sub(1);
            tally.parked += usize::from(only_parked);
            tally.astray += usize::from(only_parked && (entry.stays || entry.before_change));
            tally.lost += usize::from(entry.confirmed && received + parked == 0);
        }
        tally
    }

    /// Of each message received: how long after it was due, nothing where it came early.
    pub fn lateness(&self) -> impl Iterator<Item = Duration> {
        let late = |entry: &Entry| Some(entry.received_us?.saturating_sub(entry.due_us));
        self.entries.iter().filter_map(late).map(Duration::from_micros)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
