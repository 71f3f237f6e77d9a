//! What became of an event that was published, and which events wait for it.

use std::collections::BTreeMap;

use crate::{
    broker::PublishError,
    store::outbox::{Event, Refusal, claim::Waiting},
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

/// What becomes of an event behind one that was not published.
pub(super) fn behind(fate: &Fate) -> Fate {
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
