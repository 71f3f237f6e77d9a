//! Messages of the parking lots, kept for a while and shown page by page, because each reading hides the messages from others for
//! a moment.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;

use super::{
    super::{failure::Failure, services::now},
    Batch, Entry, Lots, Reader,
    listing::Full,
};
use crate::{
    parking::{Filter, ParkedMessage, Totals},
    shutdown::Stop,
    text::{error_chain, one_line},
    wire::Received,
};

/// Messages that are kept: more than a person looks at one by one.
const MESSAGES: usize = 20_000;
/// Bytes of the kept messages in memory. Most bodies are an order id.
const BYTES: usize = 64 * 1024 * 1024;

/// A message that was read and requeued.
pub(crate) struct Kept {
    queue: Arc<str>,
    pub(crate) message: ParkedMessage,
    received: Received,
}

pub(crate) struct Gathered {
    pub(crate) kept: Vec<Kept>,
    /// Whether these are all messages of the parking lots.
    pub(crate) is_all: bool,
    pub(crate) at: Instant,
    /// Wall-clock time of `at`, for ages of messages.
    pub(crate) now: Timestamp,
}

struct Gathering<'a> {
    kept: Vec<Kept>,
    bytes: usize,
    stop: &'a Stop,
}

impl Reader for Gathering<'_> {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        let queue: Arc<str> = batch.queue.into();
        for found in batch.found {
            self.bytes += found.received.bytes();
            if self.kept.len() == MESSAGES || self.bytes > BYTES {
                self.stop.request();
                break;
            }
            let (message, received) = (found.message, found.received);
            self.kept.push(Kept { queue: Arc::clone(&queue), message, received });
        }
        Ok(())
    }
}

impl Lots {
    /// Reads the present messages, up to the limits. Does not ask the database.
    pub(crate) async fn gather(&self) -> Result<Gathered, Failure> {
        self.undisturbed()?;
        let (stop, now) = (Stop::new(), now());
        let mut gathering = Gathering { kept: Vec::new(), bytes: 0, stop: &stop };
        let seen = self.read(&Filter::default(), &stop, &mut gathering).await?;
        let is_all = seen.is_whole() && !stop.is_requested();
        Ok(Gathered { kept: gathering.kept, is_all, at: Instant::now(), now })
    }

    /// The messages for people, with the present states of their orders, or the reason why those are unknown.
    pub(crate) async fn entries(&self, kept: &[&Kept], full: bool) -> (Vec<Entry>, Option<String>) {
        let (outcomes, unknown) = match self.outcomes(&messages(kept)).await {
            Ok(outcomes) => (outcomes, None),
            Err(error) => (vec![None; kept.len()], Some(one_line(error_chain(&error)))),
        };
        let entries = kept.iter().zip(&outcomes).map(|(kept, now)| {
            let Kept { queue, message, received } = kept;
            let mut entry = Entry::new(queue, message, now.as_ref());
            entry.full = full.then(|| Full::new(self, message, received, now.as_ref()));
            entry
        });
        (entries.collect(), unknown)
    }

    /// Counts what a replay would do with the messages.
    pub(crate) async fn totals_of(&self, kept: &[&Kept]) -> Result<Totals, Failure> {
        let mut totals = Totals::default();
        self.fates(&messages(kept)).await?.iter().for_each(|fate| totals.add(fate));
        Ok(totals)
    }
}

fn messages<'k>(kept: &[&'k Kept]) -> Vec<&'k ParkedMessage> {
    kept.iter().map(|kept| &kept.message).collect()
}
