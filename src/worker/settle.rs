//! What follows a commit: put back, park, and then ack with `multiple`. The only place that settles.

use futures_util::future::join_all;
use lapin::{
    message::Delivery,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};

use super::{
    context::ConsumerContext,
    counters::count,
    disposition::{Disposition, Levels, decide},
    session_end::SessionEnd,
};
use crate::{
    broker::{Message, consume::Subscription},
    order::{DueNotice, OrderId, Outcome, Unreadable},
    telemetry,
    topology::{Topology, level::Level},
    verify::probe::CANARY,
};

/// How often a message was tried again, as an integer.
const ATTEMPT: &str = "x-attempt";
/// Why a message is in the parking lot.
const PARK_REASON: &str = "x-park-reason";
/// A trigger can say as much as it likes, and the headers have to fit into one frame.
const MAX_REASON_CHARS: usize = 1_000;
/// Which timeout it came from.
const PARK_TIMEOUT: &str = "x-park-timeout";
/// More attempts than any retry list has: a forged header is no way to wait for ever.
const MAX_ATTEMPT: u32 = 1_000_000;

/// A delivery and what was read in it. It has to be settled, which only [`settle`] does.
#[must_use]
pub(super) struct Due {
    delivery: Delivery,
    notice: Result<DueNotice, Unreadable>,
    /// A message of `overdue verify --probe`: it is about no order.
    canary: bool,
}

impl Due {
    pub(super) fn read(delivery: Delivery) -> Self {
        let notice = DueNotice::decode(&delivery.data);
        let headers = delivery.properties.headers().as_ref().map(FieldTable::inner);
        let canary = headers.is_some_and(|headers| headers.contains_key(CANARY));
        Self { delivery, notice, canary }
    }

    /// Which order to look up; none where the body is unreadable, and for a canary.
    pub(super) fn order_id(&self) -> Option<&OrderId> {
        self.notice.as_ref().ok().map(|notice| &notice.order_id).filter(|_| !self.canary)
    }

    /// What a log line calls it.
    fn label(&self) -> String {
        self.order_id().map_or_else(|| "unreadable message".to_owned(), ToString::to_string)
    }

    fn headers(&self) -> impl Iterator<Item = (&ShortString, &AMQPValue)> {
        self.delivery.properties.headers().iter().flat_map(FieldTable::inner)
    }

    /// Anything that is no count of ours is none: headers can be forged.
    fn attempt(&self) -> u32 {
        let value = self.headers().find(|(key, _)| key.as_str() == ATTEMPT).map(|(_, value)| value);
        let attempt = match value {
            Some(AMQPValue::LongInt(n)) => u32::try_from(*n).ok(),
            Some(AMQPValue::LongLongInt(n)) => u32::try_from(*n).ok(),
            Some(AMQPValue::LongUInt(n)) => Some(*n),
            _ => None,
        };
        attempt.filter(|attempt| *attempt <= MAX_ATTEMPT).unwrap_or(0)
    }

    fn disposition(&self, outcome: Option<&Outcome>, topology: &Topology) -> Disposition {
        if self.canary {
            return Disposition::Ack;
        }
        let levels = Levels { all: &topology.levels, retry: &topology.retry };
        match (&self.notice, outcome) {
            (Err(unreadable), _) => Disposition::Park { reason: unreadable.to_string() },
            (Ok(_), Some(outcome)) => decide(outcome, self.attempt(), levels),
            (Ok(_), None) => decide(&Outcome::Unknown, self.attempt(), levels),
        }
    }

    /// A copy to publish, without the broker's own bookkeeping: with `x-death` in it the broker would see a cycle.
    fn copy(&self, exchange: String, routing_key: String) -> Message {
        let properties = &self.delivery.properties;
        let mut headers = FieldTable::default();
        for (key, value) in self.headers().filter(|(key, _)| !is_brokers(key.as_str())) {
            headers.insert(key.clone(), value.clone());
        }
        // A tutorial's publisher sets none; the tag tells the copies of one channel apart.
        let message_id = properties.message_id().as_ref().map_or_else(
            || format!("{}#{}", self.label(), self.delivery.delivery_tag),
            ToString::to_string,
        );
        Message {
            exchange,
            routing_key,
            message_id,
            content_type: properties.content_type().as_ref().map(ToString::to_string),
            headers,
            body: self.delivery.data.clone(),
        }
    }

    fn put_back(&self, context: &ConsumerContext, level: &Level, attempt: u32) -> Message {
        let topology = &context.worker.topology;
        let key = Topology::routing_key(level, &context.timeout);
        let mut copy = self.copy(topology.entry_exchange(), key);
        copy.headers.insert(ATTEMPT.into(), AMQPValue::LongLongInt(i64::from(attempt)));
        copy
    }

    fn park(&self, context: &ConsumerContext, reason: &str) -> Message {
        let mut copy = self
            .copy(context.worker.topology.park_exchange(), self.delivery.routing_key.to_string());
        let text = |text: &str| AMQPValue::LongString(LongString::from(text.as_bytes().to_vec()));
        let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();
        copy.headers.insert(PARK_REASON.into(), text(&reason));
        copy.headers.insert(PARK_TIMEOUT.into(), text(&context.timeout.name));
        copy
    }
}

/// Headers that dead-lettering and delivery add, and those by which the broker would route a copy to more queues
/// than its routing key says (<https://www.rabbitmq.com/docs/sender-selected>).
fn is_brokers(header: &str) -> bool {
    const PREFIXES: [&str; 4] = ["x-death", "x-first-death-", "x-last-death-", "x-delivery-count"];
    PREFIXES.iter().any(|prefix| header.starts_with(prefix))
        || matches!(header, "x-acquired-count" | "CC" | "BCC" | PARK_REASON | PARK_TIMEOUT)
}

/// Settles a committed batch. `None` as outcome is a body that could not be read.
///
/// # Errors
/// A copy was not confirmed: that delivery is given back, the others are acked, and the session is to end.
/// Or the channel is gone: then all of them come again, and find their orders final.
pub(super) async fn settle(
    context: &ConsumerContext,
    subscription: &Subscription,
    batch: Vec<(Due, Option<Outcome>)>,
) -> Result<(), SessionEnd> {
    let settled = join_all(batch.iter().map(|(due, outcome)| async move {
        let disposition = due.disposition(outcome.as_ref(), &context.worker.topology);
        let result = carry_out(context, due, outcome.as_ref(), &disposition).await;
        (due, disposition, result)
    }))
    .await;
    tell_parked(context, &settled);
    let mut last_done = None;
    let mut failure = None;
    for (due, _, result) in settled {
        let tag = due.delivery.delivery_tag;
        match result {
            Ok(()) => last_done = last_done.max(Some(tag)),
            Err(error) => {
                // Before the ack, which would cover it.
                subscription.give_back(tag).await?;
                failure = Some(error);
            }
        }
    }
    if let Some(tag) = last_done {
        subscription.ack_through(tag).await?;
    }
    failure.map_or(Ok(()), Err)
}

/// One line for all that this batch has parked.
fn tell_parked(context: &ConsumerContext, settled: &[(&Due, Disposition, Result<(), SessionEnd>)]) {
    let mut parked = settled.iter().filter_map(|settled| match settled {
        (due, Disposition::Park { reason }, Ok(())) => Some((due, reason)),
        _ => None,
    });
    if let Some((first, reason)) = parked.next() {
        let messages = 1 + parked.count();
        telemetry::batch_parked(&context.timeout.name, messages, &first.label(), reason);
    }
}

async fn carry_out(
    context: &ConsumerContext,
    due: &Due,
    outcome: Option<&Outcome>,
    disposition: &Disposition,
) -> Result<(), SessionEnd> {
    let counters = &context.worker.counters;
    match disposition {
        Disposition::Ack => {
            if outcome == Some(&Outcome::AlreadyFinal) {
                count(&counters.already_final, 1);
            }
        }
        Disposition::Delay { level, attempt } => {
            context.publisher.publish(due.put_back(context, level, *attempt)).await?;
            telemetry::delayed(&due.label(), level.name(), *attempt);
            let waits = matches!(outcome, Some(Outcome::NotDue { .. }));
            count(if waits { &counters.put_back } else { &counters.retried }, 1);
        }
        Disposition::Park { reason } => {
            context.publisher.publish(due.park(context, reason)).await?;
            telemetry::parked(&due.label(), reason);
            count(&counters.parked, 1);
        }
    }
    Ok(())
}
