//! Rules about `[queues]`: what its type and its delivery limit mean.

use super::{surroundings::Surroundings, version::BrokerVersion};
use crate::{
    diagnostic::Draft,
    topology::file::{QueueType, TopologyFile},
};

/// Every lost connection counts as a delivery of each message the worker held, processed or not
/// (<https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling>): below this, a worker that is killed
/// a few times in a row, by a bad roll-out for example, parks orders that nothing is wrong with.
const LOWEST_SANE_LIMIT: i64 = 5;

pub(super) fn at_most_once(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let Some(queue_type) = &file.queues.queue_type else { return Vec::new() };
    if *queue_type.get_ref() != QueueType::Classic {
        return Vec::new();
    }
    // Mirroring by policy went with 4.0 (https://www.rabbitmq.com/docs/3.13/ha).
    let mirrored = surroundings.broker.is_some_and(|broker| broker < BrokerVersion::new(4, 0));
    let replicated = if mirrored { "replicated only by a policy" } else { "not replicated" };
    let message = format!(
        "classic queues dead-letter at most once and are {replicated}: a due message is lost when the broker \
         stops before its next queue has it, and what waits is lost with its node's disk"
    );
    let help =
        "use type = \"quorum\"; with classic, the sweep is what finds the orders of lost messages";
    vec![Draft::in_file(queue_type.span(), message, help)]
}

pub(super) fn delivery_limit(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(limit) = &file.queues.delivery_limit else { return Vec::new() };
    if (1..=1_000_000).contains(limit.get_ref()) {
        return Vec::new();
    }
    let message = format!("a delivery limit of {} is not between 1 and 1000000", limit.get_ref());
    vec![Draft::in_file(limit.span(), message, "leave it out for 20, RabbitMQ's own default")]
}

pub(super) fn delivery_limit_low(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(limit) = &file.queues.delivery_limit else { return Vec::new() };
    if !(1..LOWEST_SANE_LIMIT).contains(limit.get_ref()) || is_classic(file) {
        return Vec::new();
    }
    let message = format!(
        "a delivery limit of {} parks good orders: each lost connection counts as a delivery of every message \
         the worker held",
        limit.get_ref()
    );
    vec![Draft::in_file(limit.span(), message, "leave it out for 20, RabbitMQ's own default")]
}

pub(super) fn delivery_limit_unused(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(limit) = &file.queues.delivery_limit else { return Vec::new() };
    if !is_classic(file) {
        return Vec::new();
    }
    let message = "classic queues have no delivery limit: a message that kills its worker comes back for ever";
    vec![Draft::in_file(
        limit.span(),
        message.to_owned(),
        "use type = \"quorum\", or take the limit out",
    )]
}

fn is_classic(file: &TopologyFile) -> bool {
    file.queues.queue_type() == QueueType::Classic
}
