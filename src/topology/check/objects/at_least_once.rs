//! `at-least-once`: quorum queues that dead-letter at most once, often without anybody knowing.

use super::{Fault, text};
use crate::objects::{Objects, Queue};

/// All three arguments are needed; without reject-publish the broker silently falls back to at-most-once
/// (<https://www.rabbitmq.com/docs/quorum-queues#dead-lettering>).
const NEEDED: [(&str, &str); 2] =
    [("x-dead-letter-strategy", "at-least-once"), ("x-overflow", "reject-publish")];

pub(super) fn incomplete(objects: &Objects) -> Vec<Fault> {
    let queues = objects.queues.values();
    queues
        .filter(|queue| queue.kind == "quorum" && queue.dead_letter_exchange().is_some())
        .filter_map(fault)
        .collect()
}

fn fault(queue: &Queue) -> Option<Fault> {
    let lacks = NEEDED.iter().filter(|(key, value)| text(&queue.arguments, key) != Some(value));
    let lacks: Vec<String> = lacks.map(|(key, value)| format!("{key} = {value}")).collect();
    if lacks.is_empty() {
        return None;
    }
    let message = format!(
        "queue {} dead-letters at most once, so a message is lost when its target is not there: it lacks {}",
        queue.name,
        lacks.join(" and ")
    );
    let help = "run `overdue plan`: a queue with the arguments takes its place".to_owned();
    Some(Fault { object: queue.name.clone(), message, help })
}
