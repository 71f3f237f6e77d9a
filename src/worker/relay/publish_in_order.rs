//! Publishing events: those of one order one after the other, those of different orders beside each other.

use std::{collections::BTreeMap, pin::pin};

use futures_util::future::{Either, join_all, select};

use super::{
    confirm_timeout::{Limits, Silence},
    event_fate::{Fate, behind, fate},
};
use crate::{broker::Publisher, store::outbox::Event, wire::Message};

/// Publishes events, in the order of their ids where they are of one order, until nothing was heard of any for as long as
/// `limits` allow.
pub(super) async fn publish(
    publisher: &Publisher,
    exchange: &str,
    events: Vec<Event>,
    limits: Limits,
) -> Vec<(Event, Fate)> {
    let mut orders: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events {
        orders.entry(event.order_id.clone()).or_default().push(event);
    }
    let silence = Silence::new(limits);
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

/// The message of an event.
pub(super) fn message(exchange: &str, event: &Event) -> Message {
    let Event { id, event, order_id, created_at, .. } = event;
    Message::event(exchange.to_owned(), event, *id, order_id, *created_at)
}
