//! `at-least-once`: quorum queues that dead-letter at most once, often without anybody knowing.

use super::examined::Examined;
use crate::{
    diagnostic::{Draft, Fix, Subject},
    objects::{Argument, Queue},
};

/// Both are needed; without reject-publish the broker silently falls back to at-most-once
/// (<https://www.rabbitmq.com/docs/quorum-queues#dead-lettering>).
const NEEDED: [(&str, &str); 2] =
    [("x-dead-letter-strategy", "at-least-once"), ("x-overflow", "reject-publish")];

pub(super) fn incomplete(examined: &Examined<'_>) -> Vec<Draft> {
    let quorum = examined.queues().filter(|(queue, _)| queue.kind == "quorum");
    quorum.filter_map(|(queue, _)| draft(queue, queue.dead_letter_exchange()?)).collect()
}

fn draft(queue: &Queue, exchange: &str) -> Option<Draft> {
    let has = |key: &str| queue.arguments.get(key).and_then(Argument::text);
    let lacks = NEEDED.iter().filter(|(key, value)| has(key) != Some(value));
    let lacks: Vec<String> = lacks.map(|(key, value)| format!("{key} = {value}")).collect();
    if lacks.is_empty() {
        return None;
    }
    let message = format!("it dead-letters at most once: it lacks {}", lacks.join(" and "));
    let draft = Draft::about(Subject::Queue(queue.name.clone()), message)
        .because("a message that is due is lost where the queue it goes to is unavailable")
        .fix(Fix::Text(format!(
            "keep exchange {exchange} and its queues as they are until this queue is empty"
        )));
    Some(draft)
}
