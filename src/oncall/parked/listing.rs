//! Lists the messages of the parking lots; changes nothing.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{super::failure::Failure, Batch, Found, Lots, Reader};
use crate::{
    order::Outcome,
    parking::{Fate, Filter, ParkedMessage, Reasons, fate, state, state_word},
    shutdown::Stop,
    text::{error_chain, one_line},
    wire::Received,
};

#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) filter: Filter,
    /// Messages in the answer; all are counted.
    pub(crate) limit: u64,
    /// Whether each entry has [`Full`].
    pub(crate) full: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) queue: String,
    pub(crate) order: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) reason: String,
    pub(crate) parked_at: Option<Timestamp>,
    pub(crate) attempts: u32,
    /// `overdue`, `not_due`, `final`, `guarded`, `locked`, `unknown` or `effect_fails`.
    pub(crate) order_now: Option<&'static str>,
    pub(crate) routing_key: String,
    pub(crate) message_id: Option<String>,
    pub(crate) body_bytes: usize,
    #[serde(flatten)]
    pub(crate) full: Option<Full>,
    /// Label of the message in a line.
    #[serde(skip)]
    pub(crate) label: String,
    /// [`Self::order_now`] for people; empty without an order.
    #[serde(skip)]
    pub(crate) state: String,
}

/// Details of a message, on demand.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Full {
    /// The database's answer about the order; for a failing effect, with its error.
    pub(crate) order_now_text: String,
    /// Result of a replay of the message.
    pub(crate) on_replay: String,
    pub(crate) headers: Vec<(String, Value)>,
    /// None above 64 KiB.
    pub(crate) body: Option<String>,
}

/// The end of a list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListEnd {
    pub(crate) queues: Vec<String>,
    pub(crate) read: u64,
    /// Messages that the broker counted some seconds ago.
    pub(crate) waiting: u64,
    pub(crate) matching: u64,
    /// Most frequent first.
    pub(crate) reasons: Vec<ReasonCount>,
    pub(crate) other_reasons: u64,
    #[serde(skip)]
    pub(crate) shown: u64,
    /// A stop was requested: there may be more messages.
    #[serde(skip)]
    pub(crate) stopped: bool,
    /// The reason why the orders were not looked up, if so.
    #[serde(skip)]
    pub(crate) not_looked_up: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReasonCount {
    pub(crate) reason: String,
    pub(crate) messages: u64,
}

struct Listing<'a, E> {
    lots: &'a Lots,
    listed: &'a Listed,
    each: E,
    reasons: Reasons,
    shown: u64,
    not_looked_up: Option<String>,
}

impl Lots {
    /// Reads all present messages, and gives the listed ones to `each`. If the database does not answer, the list has no states
    /// of orders.
    pub(crate) async fn list(
        &self,
        listed: &Listed,
        stop: &Stop,
        each: impl FnMut(Entry) -> Result<(), Failure> + Send,
    ) -> Result<ListEnd, Failure> {
        let reasons = Reasons::default();
        let mut listing =
            Listing { lots: self, listed, each, reasons, shown: 0, not_looked_up: None };
        let read = self.read(&listed.filter, stop, &mut listing).await?.read;
        let Listing { reasons, shown, not_looked_up, .. } = listing;
        let (each, other_reasons) = reasons.most_frequent(usize::MAX);
        let each = each.into_iter();
        let each =
            each.map(|(reason, messages)| ReasonCount { reason: reason.to_owned(), messages });
        Ok(ListEnd {
            queues: self.queues.clone(),
            read,
            waiting: self.waiting,
            matching: reasons.total(),
            reasons: each.collect(),
            other_reasons,
            shown,
            stopped: stop.is_requested(),
            not_looked_up,
        })
    }
}

impl<E: FnMut(Entry) -> Result<(), Failure> + Send> Reader for Listing<'_, E> {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        batch.found.iter().for_each(|found| self.reasons.add(&found.message.cause));
        let room = usize::try_from(self.listed.limit - self.shown).unwrap_or(usize::MAX);
        let some = &batch.found[..batch.found.len().min(room)];
        let outcomes = self.outcomes(some).await;
        for (found, now) in some.iter().zip(&outcomes) {
            let mut entry = Entry::new(batch.queue, &found.message, now.as_ref());
            entry.full = self
                .listed
                .full
                .then(|| Full::new(self.lots, &found.message, &found.received, now.as_ref()));
            (self.each)(entry)?;
            self.shown += 1;
        }
        Ok(())
    }
}

impl<E> Listing<'_, E> {
    async fn outcomes(&mut self, found: &[Found]) -> Vec<Option<Outcome>> {
        if self.not_looked_up.is_none() && !found.is_empty() {
            let messages: Vec<_> = found.iter().map(|found| &found.message).collect();
            match self.lots.outcomes(&messages).await {
                Ok(outcomes) => return outcomes,
                Err(error) => self.not_looked_up = Some(one_line(error_chain(&error))),
            }
        }
        vec![None; found.len()]
    }
}

impl Entry {
    pub(super) fn new(queue: &str, message: &ParkedMessage, now: Option<&Outcome>) -> Self {
        Self {
            queue: queue.to_owned(),
            order: message.order.as_ref().map(ToString::to_string),
            timeout: message.timeout.clone(),
            reason: message.cause.to_string(),
            parked_at: message.parked_at,
            attempts: message.attempts,
            order_now: now.map(state_word),
            routing_key: message.routing_key.clone(),
            message_id: message.message_id.clone(),
            body_bytes: message.body_bytes,
            full: None,
            label: message.label().to_owned(),
            state: if message.order.is_some() { state(now) } else { String::new() },
        }
    }
}

impl Full {
    pub(super) fn new(
        lots: &Lots,
        message: &ParkedMessage,
        received: &Received,
        now: Option<&Outcome>,
    ) -> Self {
        let left_out = received.body_left_out().is_some();
        Self {
            order_now_text: match now {
                Some(Outcome::Failed { reason, .. }) => format!("{}: {reason}", state(now)),
                _ => state(now),
            },
            on_replay: match fate(&lots.services.topology, &lots.routes, message, now) {
                Fate::Replay(route) => format!(
                    "is published to {} with the routing key `{}`",
                    route.exchange, route.routing_key
                ),
                Fate::Settle => "is taken out, as its order is final".to_owned(),
                Fate::Stay(why) => format!("stays: {why}"),
            },
            headers: received.shown_headers(),
            body: (!left_out).then(|| String::from_utf8_lossy(&received.body).into_owned()),
        }
    }
}
