//! Every message of a scenario: when it was published, how often it was received or parked, and what follows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::scenario::MessageRoute;

/// What a message carries: enough to find it in the log, and to know that it is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTag {
    /// Its number, from 0.
    pub number: usize,
    /// When it was published, in microseconds since the log began.
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
    /// The broker has confirmed it.
    confirmed: bool,
    /// It was confirmed before the change began.
    before_change: bool,
    /// Level and timeout stay, so nothing is to park it.
    stays: bool,
}

/// Every message of a scenario. All times count from its beginning, by a monotonic clock.
#[derive(Debug, Default)]
pub struct MessageLog {
    entries: Vec<Entry>,
    confirmed: usize,
    waiting: usize,
    early: usize,
    foreign: usize,
    last_event: Duration,
}

/// What became of the messages, in messages unless it says copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MessageCounts {
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
    /// Of these, messages that should have been received: the change has not removed their level or timeout, or
    /// they were confirmed before it began.
    pub misdirected: usize,
    /// Confirmed, and neither received nor parked.
    pub lost: usize,
    /// Copies received before they were due.
    pub early: usize,
    /// Copies of messages that nobody published.
    pub foreign: usize,
}

impl MessageLog {
    /// A message is about to be published; its time starts now.
    pub fn sent(&mut self, route: &MessageRoute, now: Duration) -> MessageTag {
        let tag = MessageTag { number: self.entries.len(), sent_us: micros(now) };
        self.entries.push(Entry {
            sent_us: tag.sent_us,
            due_us: tag.sent_us.saturating_add(micros(route.ttl.as_duration())),
            received_us: None,
            received: 0,
            parked: 0,
            confirmed: false,
            before_change: false,
            stays: route.stays,
        });
        self.last_event = now;
        tag
    }

    /// The broker has confirmed it. Only these can be lost.
    pub fn confirmed(&mut self, tag: MessageTag) {
        if let Some(entry) = self.entries.get_mut(tag.number).filter(|entry| !entry.confirmed) {
            entry.confirmed = true;
            self.confirmed += 1;
        }
    }

    /// The change begins: what is confirmed by now has to be received as if nothing changed.
    pub fn change_begins(&mut self) {
        for entry in &mut self.entries {
            entry.before_change = entry.confirmed;
            self.waiting += usize::from(entry.confirmed && entry.received + entry.parked == 0);
        }
    }

    /// A copy was received from a business queue.
    pub fn received(&mut self, tag: Option<MessageTag>, now: Duration) {
        self.last_event = now;
        let Some(entry) = self.entry(tag) else { return };
        entry.received = entry.received.saturating_add(1);
        entry.received_us.get_or_insert(micros(now));
        let early = micros(now) < entry.due_us;
        self.early += usize::from(early);
    }

    /// A copy was received from the parking lot.
    pub fn parked(&mut self, tag: Option<MessageTag>, now: Duration) {
        self.last_event = now;
        let Some(entry) = self.entry(tag) else { return };
        entry.parked = entry.parked.saturating_add(1);
    }

    fn entry(&mut self, tag: Option<MessageTag>) -> Option<&mut Entry> {
        let found = tag.and_then(|tag| {
            let entry = self.entries.get_mut(tag.number)?;
            (entry.sent_us == tag.sent_us).then_some(entry)
        });
        self.foreign += usize::from(found.is_none());
        found
    }

    /// Messages confirmed so far.
    #[must_use]
    pub const fn published(&self) -> usize {
        self.confirmed
    }

    /// Messages received or parked so far.
    #[must_use]
    pub fn out(&self) -> usize {
        self.entries.iter().filter(|entry| entry.received + entry.parked > 0).count()
    }

    /// When a message was last published, received or parked.
    #[must_use]
    pub const fn last_event(&self) -> Duration {
        self.last_event
    }

    /// What became of the messages so far.
    #[must_use]
    pub fn counts(&self) -> MessageCounts {
        let mut counts = MessageCounts {
            published: self.confirmed,
            waiting: self.waiting,
            early: self.early,
            foreign: self.foreign,
            ..MessageCounts::default()
        };
        for entry in &self.entries {
            let (received, parked) = (usize::from(entry.received), usize::from(entry.parked));
            let only_parked = received == 0 && parked > 0;
            counts.received += received;
            counts.distinct += usize::from(received > 0);
            counts.duplicates += (received + parked).saturating_sub(1);
            counts.parked += usize::from(only_parked);
            counts.misdirected += usize::from(only_parked && (entry.stays || entry.before_change));
            counts.lost += usize::from(entry.confirmed && received + parked == 0);
        }
        counts
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
