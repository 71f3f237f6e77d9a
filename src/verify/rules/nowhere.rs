//! `routing-nowhere`: messages that come out of a queue and do not get where they should.

use super::{super::dead_letters::dead_letter_keys, examined::Examined};
use crate::{
    diagnostic::{Draft, Fix, Subject},
    objects::{Queue, routing::route},
    plan::{generation::number_of, own_queues::Kind},
};

pub(super) fn dead_letters(examined: &Examined<'_>) -> Vec<Draft> {
    let queues = examined.queues();
    queues
        .filter_map(|(queue, role)| {
            let exchange = queue.dead_letter_exchange()?;
            let draft = missing(examined, queue, exchange)
                .or_else(|| misdirected(examined, queue, role, exchange))?;
            Some(draft.because(reason(queue)))
        })
        .collect()
}

fn reason(queue: &Queue) -> &'static str {
    match queue.kind.as_str() {
        "quorum" => "what comes out of it is stuck or lost, and no worker gets it",
        _ => "what comes out of it is lost",
    }
}

fn missing(examined: &Examined<'_>, queue: &Queue, exchange: &str) -> Option<Draft> {
    if exchange.is_empty() || examined.objects.exchanges.contains_key(exchange) {
        return None;
    }
    let message = format!("it dead-letters to exchange {exchange}, which does not exist");
    let fix = format!(
        "until it is empty: create a fanout exchange {exchange}, and bind exchange {} to it",
        examined.topology.due_exchange()
    );
    Some(Draft::about(Subject::Queue(queue.name.clone()), message).fix(Fix::Text(fix)))
}

/// What comes due in a level belongs into the queue of its timeout; other dead letters into any queue.
fn misdirected(
    examined: &Examined<'_>,
    queue: &Queue,
    role: Kind<'_>,
    exchange: &str,
) -> Option<Draft> {
    // Who listens there is not of this topology; what nobody wants is parked.
    if exchange == examined.topology.compat_due_exchange() {
        return None;
    }
    let keys = dead_letter_keys(examined.topology, examined.objects, queue, role);
    let lost = keys.into_iter().find_map(|key| {
        let routed = route(examined.objects, exchange, &key.text);
        let arrives = routed.queues.iter().any(|target| match &key.queue {
            Some(base) => number_of(base, target).is_some(),
            // A level may set one routing key for all that is due.
            None if role != Kind::Business => examined.role(target) == Some(Kind::Business),
            None => true,
        });
        (!arrives).then_some((key, routed.queues))
    });
    let (key, reached) = lost?;
    let wanted = key.queue.map(|queue| format!(", not to queue {queue}")).unwrap_or_default();
    let to = match reached.into_iter().collect::<Vec<_>>() {
        none if none.is_empty() => "no queue".to_owned(),
        reached => format!("{}{wanted}", reached.join(", ")),
    };
    let message = format!(
        "exchange {exchange} leads what comes out of it with the routing key {} to {to}",
        key.text
    );
    let fix = format!(
        "until it is empty: bind exchange {} to exchange {exchange}",
        examined.topology.due_exchange()
    );
    Some(Draft::about(Subject::Queue(queue.name.clone()), message).fix(Fix::Text(fix)))
}
