//! Whose fault a missing confirm is: each event name is tried alone, on a connection of its own.
//!
//! On the first message for a quorum queue that does not answer, RabbitMQ's channel waits for 65 s and passes on no confirm of
//! any other; on a channel that has published there before it goes on until 32 of them wait, and then the connection stops.
//! (Seen with 4.3.) So a missing confirm says nothing about the event itself. Nor does a channel that the broker closes with a
//! text that names no event.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    event_fate::{self, Fate, Refused},
    publish_in_order,
};
use crate::{
    broker::{PublishError, Publisher},
    store::outbox::Event,
    text::length,
    worker::{context::Worker, unpublished::Unpublished},
};

/// Why an event is set aside.
pub(super) const NO_CONFIRM: &str =
    "the broker gives no confirm for it: a queue bound for it does not answer";
const BLOCKED: &str = "the broker has blocked the connection (memory or disk alarm)";
/// Names at once: each has a connection. The others are in the outbox as before.
const NAMES: usize = 20;

/// What is left of events that were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Events on a channel that passes on no confirms.
    Unconfirmed,
    /// Events that have waited too long for a broker that confirms what is tried alone: it was only slow.
    Late,
}

/// Decides about the events without a confirm that `publisher` has left.
///
/// # Errors
/// The broker cannot be reached, or blocks the connection: no event is at fault.
pub(super) async fn judge(
    worker: &Worker,
    publisher: &Publisher,
    exchange: &str,
    fates: &mut [(Event, Fate)],
) -> Result<Left, Unpublished> {
    let names = first_of_each(fates);
    if names.is_empty() {
        return Ok(Left::Nothing);
    }
    if publisher.is_blocked() {
        return Err(unknown(&names[0], BLOCKED.to_owned()).into());
    }
    let tried = join_all(names.iter().map(|event| alone(worker, exchange, event))).await;
    let (mut verdicts, mut failure) = (Vec::with_capacity(names.len()), None);
    for (event, tried) in names.into_iter().zip(tried) {
        match tried {
            Ok(verdict) => verdicts.push((event, verdict)),
            // What is known of the others counts all the same.
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    decide(fates, &verdicts);
    failure.map_or_else(|| Ok(left(&verdicts)), Err)
}

/// Whether the channel has ended, and it is not known why.
pub(super) fn is_lost(fates: &[(Event, Fate)]) -> bool {
    fates.iter().any(|(_, fate)| matches!(fate, Fate::Failed(error) if error.says_little()))
}

/// What shared a channel that has ended is judged like what has no confirm.
pub(super) fn try_alone(fates: &mut [(Event, Fate)]) {
    for (_, fate) in fates {
        if matches!(fate, Fate::Failed(error) if error.says_little()) {
            *fate = Fate::Unconfirmed;
        }
    }
}

fn left(verdicts: &[(Event, Option<Fate>)]) -> Left {
    let is_silent = verdicts.iter().any(|(_, verdict)| verdict.is_none());
    if is_silent { Left::Unconfirmed } else { Left::Late }
}

/// Of each event name the oldest without a confirm: nothing that was not published is before it in its order.
fn first_of_each(fates: &[(Event, Fate)]) -> Vec<Event> {
    let mut names: BTreeMap<&str, &Event> = BTreeMap::new();
    for (event, _) in fates.iter().filter(|(_, fate)| matches!(fate, Fate::Unconfirmed)) {
        let first = names.entry(&event.event).or_insert(event);
        if event.id < first.id {
            *first = event;
        }
    }
    let mut first: Vec<Event> = names.into_values().cloned().collect();
    first.sort_by_key(|event| event.id);
    first.truncate(NAMES);
    first
}

fn unknown(event: &Event, reason: String) -> PublishError {
    let message_id = publish_in_order::message("", event).message_id;
    PublishError::Unknown { message_id, reason, channel_ended: false }
}

/// `None`: there was no confirm this time either.
async fn alone(
    worker: &Worker,
    exchange: &str,
    event: &Event,
) -> Result<Option<Fate>, Unpublished> {
    let purpose = "overdue worker: an event without a confirm";
    let within = worker.timing.event_alone_connect;
    let connecting = Publisher::connect(&worker.address, purpose);
    let Ok(connected) = timeout(within, connecting).await else {
        let reason = format!("no confirm, and no new connection within {}", length(within));
        return Err(unknown(event, reason).into());
    };
    let publisher = connected?;
    let publishing = publisher.publish(publish_in_order::message(exchange, event));
    let answer = timeout(worker.timing.event_alone_confirm, publishing).await;
    if answer.is_err() && publisher.is_blocked() {
        return Err(unknown(event, BLOCKED.to_owned()).into());
    }
    Ok(answer.ok().map(|answer| event_fate::fate_alone(event, answer)))
}

/// Those with a name that has no confirm are set aside; others stay in the outbox, and are published on another channel.
fn decide(fates: &mut [(Event, Fate)], verdicts: &[(Event, Option<Fate>)]) {
    let verdicts: BTreeMap<_, _> = verdicts
        .iter()
        .map(|(event, verdict)| (event.event.as_str(), (event.row, verdict)))
        .collect();
    for (event, fate) in fates.iter_mut().filter(|(_, fate)| matches!(fate, Fate::Unconfirmed)) {
        *fate = match verdicts.get(event.event.as_str()) {
            Some((_, None)) => Fate::Refused(Refused {
                event: event.event.clone(),
                reason: NO_CONFIRM.to_owned(),
                forbidden: true,
            }),
            Some((row, Some(verdict))) if *row == event.row => verdict.clone(),
            _ => Fate::Untried,
        };
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn event(id: i64, event: &str) -> Event {
        let (event, order_id) = (event.to_owned(), format!("o-{id}"));
        Event { row: id, id, event, order_id, created_at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn one_event_of_each_name_is_tried_and_only_names_without_a_confirm_are_set_aside() {
        let mut fates: Vec<_> = [(5, "stuck"), (3, "good"), (2, "stuck"), (4, "good"), (6, "full")]
            .into_iter()
            .map(|(id, name)| (event(id, name), Fate::Unconfirmed))
            .collect();
        fates.push((event(1, "stuck"), Fate::Published));
        fates.push((event(7, "stuck"), Fate::Untried));
        let tried = first_of_each(&fates);
        assert_eq!(tried.iter().map(|event| event.id).collect::<Vec<_>>(), [2, 3, 6]);
        let full = PublishError::Refused {
            message_id: "6".to_owned(),
            exchange: String::new(),
            routing_key: String::new(),
        };
        let refused = event_fate::fate(&tried[2], Err(full));
        let verdicts = [None, Some(Fate::Published), Some(refused)];
        let verdicts: Vec<_> = tried.into_iter().zip(verdicts).collect();
        assert_eq!((left(&verdicts), left(&verdicts[1..])), (Left::Unconfirmed, Left::Late));
        decide(&mut fates, &verdicts);
        let now: Vec<_> = fates
            .iter()
            .map(|(event, fate)| match fate {
                Fate::Refused(refused) if refused.forbidden => (event.id, "aside"),
                Fate::Refused(_) => (event.id, "refused"),
                Fate::Published => (event.id, "published"),
                Fate::Untried => (event.id, "untried"),
                _ => (event.id, "?"),
            })
            .collect();
        let wanted = [
            (5, "aside"),
            (3, "published"),
            (2, "aside"),
            (4, "untried"),
            (6, "refused"),
            (1, "published"),
            (7, "untried"),
        ];
        assert_eq!(now, wanted);
    }

    #[test]
    fn names_beyond_those_that_are_tried_stay_in_the_outbox() {
        let mut fates: Vec<_> =
            (0..50).map(|id| (event(id, &format!("e-{id}")), Fate::Unconfirmed)).collect();
        let tried = first_of_each(&fates);
        assert_eq!(tried.len(), NAMES);
        decide(&mut fates, &tried.into_iter().map(|event| (event, None)).collect::<Vec<_>>());
        let aside = |(_, fate): &&(Event, Fate)| matches!(fate, Fate::Refused(_));
        assert_eq!(fates.iter().filter(aside).count(), NAMES);
        assert!(!fates.iter().any(|(_, fate)| matches!(fate, Fate::Unconfirmed)));
    }
}
