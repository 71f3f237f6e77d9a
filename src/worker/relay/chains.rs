//! Publishing events: those of one order one after the other, those of different orders beside each other.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::future::join_all;

use crate::{
    broker::{PublishError, Publisher},
    store::outbox::Event,
    wire::Message,
};

/// A claim lasts 30 s. An order with hundreds of events goes on in the next one.
const LONGEST: Duration = Duration::from_secs(10);

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
    /// Nobody's fault, or not known whose.
    Failed(PublishError),
}

/// Why an event is to wait.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The event name that the broker refuses.
    pub(super) event: String,
    pub(super) reason: String,
    /// Whether a publish with that name closes the channel.
    pub(super) forbidden: bool,
}

/// Publishes events; in the order of their ids where they are of one order.
pub(super) async fn publish(
    publisher: &Publisher,
    exchange: &str,
    events: Vec<Event>,
) -> Vec<(Event, Fate)> {
    let began = Instant::now();
    let mut orders: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events {
        orders.entry(event.order_id.clone()).or_default().push(event);
    }
    let chains = orders.into_values().map(async |mut events| {
        events.sort_by_key(|event| event.id);
        let mut chain = Vec::with_capacity(events.len());
        let mut blocked = None;
        for event in events {
            let fate = match &blocked {
                Some(fate) => behind(fate),
                None if began.elapsed() > LONGEST => Fate::Untried,
                None => publish_one(publisher, exchange, &event).await,
            };
            if !matches!(fate, Fate::Published | Fate::Never(_)) {
                blocked = Some(fate.clone());
            }
            chain.push((event, fate));
        }
        chain
    });
    join_all(chains).await.into_iter().flatten().collect()
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

async fn publish_one(publisher: &Publisher, exchange: &str, event: &Event) -> Fate {
    let Event { id, event, order_id, created_at, .. } = event;
    let message = Message::event(exchange.to_owned(), event, *id, order_id, *created_at);
    let refused = |forbidden, error: &PublishError| {
        Fate::Refused(Refused { event: event.clone(), reason: error.to_string(), forbidden })
    };
    match publisher.publish(message).await {
        // Nobody has bound a queue for this event: it is delivered to all its subscribers.
        Ok(()) | Err(PublishError::Returned { .. }) => Fate::Published,
        Err(error @ PublishError::Refused { .. }) => refused(false, &error),
        Err(error @ PublishError::RoutingKeyNotPermitted { .. }) => refused(true, &error),
        Err(PublishError::Unencodable { reason, .. }) => Fate::Never(reason),
        Err(error) => Fate::Failed(error),
    }
}
