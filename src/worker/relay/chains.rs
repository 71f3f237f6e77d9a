//! Publishing events: those of one order one after the other, those of different orders beside each other.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures_util::future::{Either, join_all, select};

use super::silence::Silence;
use crate::{
    broker::{PublishError, Publisher},
    store::outbox::Event,
    wire::Message,
};

/// What became of an event.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    Published,
    /// Not now; nor what follows it in its order.
    Refused(Refused),
    /// No client can send it.
    Never(String),
    /// Something before it in its order failed, or took too long.
    Untried,
    /// Nothing came back for it. It may have arrived.
    Unconfirmed,
    /// Nobody's fault, or not known whose.
    Failed(PublishError),
}

/// Why an event is to wait.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The event name that the broker refuses.
    pub(super) event: String,
    pub(super) reason: String,
    /// Whether a publish with that name harms others on its channel: it closes it, or keeps back their confirms.
    pub(super) forbidden: bool,
}

/// Publishes events, in the order of their ids where they are of one order, until nothing was heard of any for as long as
/// `patience`.
pub(super) async fn publish(
    publisher: &Publisher,
    exchange: &str,
    events: Vec<Event>,
    patience: Duration,
) -> Vec<(Event, Fate)> {
    let mut orders: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events {
        orders.entry(event.order_id.clone()).or_default().push(event);
    }
    let silence = Silence::new(patience);
    let way = Way { publisher, exchange, silence: &silence };
    let chains = pin!(join_all(orders.into_values().map(|events| way.chain(events))));
    let fates = match select(chains, pin!(silence.watch(|| publisher.is_blocked()))).await {
        Either::Left((fates, _)) => fates,
        Either::Right(((), chains)) => chains.await,
    };
    fates.into_iter().flatten().collect()
}

/// Where events go.
struct Way<'a> {
    publisher: &'a Publisher,
    exchange: &'a str,
    silence: &'a Silence,
}

impl Way<'_> {
    /// The events of one order.
    async fn chain(&self, mut events: Vec<Event>) -> Vec<(Event, Fate)> {
        events.sort_by_key(|event| event.id);
        let mut chain = Vec::with_capacity(events.len());
        let mut blocked = None;
        for event in events {
            let fate = match &blocked {
                Some(fate) => behind(fate),
                None if self.silence.is_there() => Fate::Untried,
                None => self.publish_one(&event).await,
            };
            if !matches!(fate, Fate::Published | Fate::Never(_)) {
                blocked = Some(fate.clone());
            }
            chain.push((event, fate));
        }
        chain
    }

    async fn publish_one(&self, event: &Event) -> Fate {
        let publishing = self.publisher.publish(message(self.exchange, event));
        match select(pin!(publishing), pin!(self.silence.comes())).await {
            Either::Left((answer, _)) => {
                self.silence.heard();
                fate(event, answer)
            }
            Either::Right(_) => Fate::Unconfirmed,
        }
    }
}

/// What becomes of an event behind one that was not published.
fn behind(fate: &Fate) -> Fate {
    match fate {
        Fate::Refused(Refused { event, .. }) => Fate::Refused(Refused {
            event: event.clone(),
            reason: format!("it waits until `{event}` is published"),
            forbidden: false,
        }),
        _ => Fate::Untried,
    }
}

/// The message of an event.
pub(super) fn message(exchange: &str, event: &Event) -> Message {
    let Event { id, event, order_id, created_at, .. } = event;
    Message::event(exchange.to_owned(), event, *id, order_id, *created_at)
}

/// What the broker's answer means for an event.
pub(super) fn fate(event: &Event, answer: Result<(), PublishError>) -> Fate {
    let refused = |forbidden, error: &PublishError| {
        Fate::Refused(Refused { event: event.event.clone(), reason: error.to_string(), forbidden })
    };
    match answer {
        Ok(()) => Fate::Published,
        Err(error @ PublishError::Refused { .. }) => refused(false, &error),
        Err(error @ PublishError::RoutingKeyNotPermitted { .. }) => refused(true, &error),
        Err(PublishError::Unencodable { reason, .. }) => Fate::Never(reason),
        Err(error) => Fate::Failed(error),
    }
}
