//! Publishing events: those of one order one after the other, those of different orders beside each other.

use std::{collections::BTreeMap, pin::pin};

use futures_util::future::{Either, join_all, select};

use super::confirm_timeout::{Limits, Silence};
use crate::{
    broker::{PublishError, Publisher},
    store::outbox::{Event, Refusal, claim::Waiting},
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

/// What becomes of an event behind one that was not published.
fn behind(fate: &Fate) -> Fate {
    match fate {
        Fate::Refused(Refused { event, .. }) => Fate::Refused(Refused {
            event: event.clone(),
            reason: waits_until(event),
            forbidden: false,
        }),
        _ => Fate::Untried,
    }
}

fn waits_until(event: &str) -> String {
    format!("it waits until `{event}` is published")
}

/// What is to be set aside of the events that wait: behind the first of their order that was refused just now, and not
/// before what may yet be published.
pub(super) fn set_aside(waiting: Vec<Waiting>, fates: &[(Event, Fate)]) -> Vec<Refusal> {
    let mut unpublished: BTreeMap<&str, (i64, &Fate)> = BTreeMap::new();
    let is_left = |fate: &Fate| !matches!(fate, Fate::Published | Fate::Never(_));
    for (event, fate) in fates.iter().filter(|(_, fate)| is_left(fate)) {
        let first = unpublished.entry(&event.order_id).or_insert((event.id, fate));
        if event.id < first.0 {
            *first = (event.id, fate);
        }
    }
    let refusal = |Waiting { row, order_id, waits_for }| {
        let waits_for = match unpublished.get(order_id.as_str()) {
            None => waits_for,
            Some((_, Fate::Refused(refused))) => refused.event.clone(),
            // It stays in the outbox, behind that one.
            Some(_) => return None,
        };
        let reason = waits_until(&waits_for);
        Some(Refusal { row, waits_for: Some(waits_for), reason, forbidden: false })
    };
    waiting.into_iter().filter_map(refusal).collect()
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

/// Of an event that was alone on its channel: nothing else can have made the broker end it.
pub(super) fn fate_alone(event: &Event, answer: Result<(), PublishError>) -> Fate {
    match fate(event, answer) {
        Fate::Failed(error) if error.ended_channel() => {
            let (event, reason) = (event.event.clone(), error.to_string());
            Fate::Refused(Refused { event, reason, forbidden: true })
        }
        fate => fate,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// Before, it was set aside whatever had become of the event before it, and could go out first.
    #[test]
    fn what_waits_stays_behind_the_event_before_it() {
        let event = |id, order_id: &str| {
            let (event, order_id) = ("good".to_owned(), order_id.to_owned());
            Event { row: id, id, event, order_id, created_at: Timestamp::UNIX_EPOCH }
        };
        let full = Refused { event: "full".into(), reason: "nack".into(), forbidden: false };
        let fates = [
            (event(1, "refused"), Fate::Refused(full.clone())),
            (event(2, "refused"), behind(&Fate::Refused(full))),
            (event(3, "untried"), Fate::Untried),
            (event(4, "unconfirmed"), Fate::Unconfirmed),
            (event(5, "published"), Fate::Published),
            (event(6, "never"), Fate::Never("too long".into())),
        ];
        let orders = ["refused", "untried", "unconfirmed", "published", "never", "alone"];
        let waiting = orders.iter().zip(10..).map(|(order_id, row)| {
            let (order_id, waits_for) = ((*order_id).to_owned(), "stuck".to_owned());
            Waiting { row, order_id, waits_for }
        });
        let refusals = set_aside(waiting.collect(), &fates);
        let seen = refusals.iter().map(|refusal| (refusal.row, refusal.waits_for.as_deref()));
        let seen: Vec<_> = seen.collect();
        let stuck = Some("stuck");
        assert_eq!(seen, [(10, Some("full")), (13, stuck), (14, stuck), (15, stuck)]);
    }
}
