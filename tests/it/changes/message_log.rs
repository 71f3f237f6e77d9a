//! Accounts for every message: the time of its publish, how often it was received or parked, and the resulting counts.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::scenario::MessageRoute;

/// The body of a message: its number, and the time of its publish in microseconds since the log was opened. A message with
/// another body is from another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub number: usize,
    sent_us: u128,
}

/// The account of one message.
#[derive(Default)]
struct Entry {
    sent_us: u128,
    due_us: u128,
    received: usize,
    parked: usize,
    late: Option<Duration>,
    confirmed: bool,
    /// The broker confirmed the message before the change began.
    before_change: bool,
    /// Level and timeout remain, so the message must not be parked.
    stays: bool,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    early: usize,
    foreign: usize,
    waiting: usize,
}

/// Every message of a scenario, by one monotonic clock.
pub struct MessageLog {
    opened: Instant,
    state: Mutex<State>,
    /// Time of the last publish, receipt or parking.
    last_event: Mutex<Instant>,
}

/// Counts of messages, or of copies if stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Published and confirmed.
    pub published: usize,
    /// Confirmed, and not delivered to a consumer, when the change began.
    pub waiting: usize,
    /// Received at least once.
    pub received: usize,
    /// Copies received or parked beyond the first of each message.
    pub duplicates: usize,
    /// In the parking lot, and not received.
    pub parked: usize,
    /// Parked messages that should have been received: the change keeps their level and timeout, or they were confirmed
    /// before it began.
    pub misdirected: usize,
    /// Confirmed, and neither received nor parked.
    pub lost: usize,
    /// Copies received before they were due.
    pub early: usize,
    /// Copies of messages that the test has not published.
    pub foreign: usize,
    /// The largest delay of a received message after it was due.
    pub latest: Duration,
}

impl MessageLog {
    pub fn open() -> Self {
        let opened = Instant::now();
        Self { opened, state: Mutex::default(), last_event: Mutex::new(opened) }
    }

    fn now_us(&self) -> u128 {
        self.opened.elapsed().as_micros()
    }

    fn event(&self) {
        *self.last_event.lock().unwrap() = Instant::now();
    }

    /// Adds a message before its publish; its time starts now.
    pub fn sent(&self, route: &MessageRoute) -> Tag {
        self.event();
        let mut state = self.state.lock().unwrap();
        let tag = Tag { number: state.entries.len(), sent_us: self.now_us() };
        let due_us = tag.sent_us + route.ttl.as_duration().as_micros();
        let stays = route.stays;
        state.entries.push(Entry { sent_us: tag.sent_us, due_us, stays, ..Entry::default() });
        tag
    }

    /// Notes that the broker has confirmed the message. Only confirmed messages can be lost.
    pub fn confirmed(&self, tag: Tag) {
        self.state.lock().unwrap().entries[tag.number].confirmed = true;
    }

    /// Notes the beginning of the change: messages that are confirmed already must be received as without a change.
    pub fn change_begins(&self) {
        let mut state = self.state.lock().unwrap();
        for entry in &mut state.entries {
            entry.before_change = entry.confirmed;
        }
        let waits = |entry: &&Entry| entry.confirmed && entry.received + entry.parked == 0;
        state.waiting = state.entries.iter().filter(waits).count();
    }

    /// Notes a copy from a business queue, or from the parking lot.
    pub fn received(&self, body: &[u8], parked: bool) {
        self.event();
        let now_us = self.now_us();
        let mut state = self.state.lock().unwrap();
        let tag: Option<Tag> = serde_json::from_slice(body).ok();
        let entry = tag.and_then(|tag| {
            state.entries.get_mut(tag.number).filter(|entry| entry.sent_us == tag.sent_us)
        });
        let Some(entry) = entry else {
            state.foreign += 1;
            return;
        };
        if parked {
            entry.parked += 1;
            return;
        }
        entry.received += 1;
        let late = u64::try_from(now_us.saturating_sub(entry.due_us)).unwrap();
        entry.late.get_or_insert(Duration::from_micros(late));
        state.early += usize::from(now_us < entry.due_us);
    }

    /// Returns the time since the last publish, receipt or parking.
    pub fn quiet(&self) -> Duration {
        self.last_event.lock().unwrap().elapsed()
    }

    pub fn counts(&self) -> Counts {
        let state = self.state.lock().unwrap();
        let (waiting, early, foreign) = (state.waiting, state.early, state.foreign);
        let mut counts = Counts { waiting, early, foreign, ..Counts::default() };
        for entry in &state.entries {
            let only_parked = entry.received == 0 && entry.parked > 0;
            let copies = entry.received + entry.parked;
            counts.published += usize::from(entry.confirmed);
            counts.received += usize::from(entry.received > 0);
            counts.duplicates += copies.saturating_sub(1);
            counts.parked += usize::from(only_parked);
            counts.misdirected += usize::from(only_parked && (entry.stays || entry.before_change));
            counts.lost += usize::from(entry.confirmed && copies == 0);
            counts.latest = counts.latest.max(entry.late.unwrap_or_default());
        }
        counts
    }
}
