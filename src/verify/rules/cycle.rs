//! `dead-letter-cycle`: messages that expire from queue to queue and never get out.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::dead_letters::SLOTS,
    examined::{Examined, expires},
};
use crate::{
    diagnostic::{Draft, Fix, Subject},
    objects::{Objects, Queue, routing::dead_letters},
};

/// Cycles of queues that all have a TTL. A queue without one waits for a consumer, which is a way out, and a
/// rejection there is what RabbitMQ allows a cycle for (<https://www.rabbitmq.com/docs/dlx#dead-letter-cycle>).
pub(super) fn dead_letter(examined: &Examined<'_>) -> Vec<Draft> {
    let mut on_a_cycle: BTreeSet<&str> = BTreeSet::new();
    // One binding that leads back makes a cycle of every level, so those through one exchange are one finding.
    let mut through: BTreeMap<Option<&str>, Vec<Vec<&str>>> = BTreeMap::new();
    for (queue, _) in examined.queues() {
        let Some(cycle) = way_back(examined.objects, queue) else { continue };
        if !cycle.iter().any(|name| on_a_cycle.contains(name)) {
            through.entry(queue.dead_letter_exchange()).or_default().push(cycle.clone());
        }
        on_a_cycle.extend(cycle);
    }
    through.values().filter_map(|cycles| draft(cycles)).collect()
}

fn draft(cycles: &[Vec<&str>]) -> Option<Draft> {
    let (cycle, others) = cycles.split_first()?;
    let start = cycle.first().copied()?;
    let path = [cycle.as_slice(), &[start]].concat().join(" -> ");
    let others: Vec<&str> = others.iter().filter_map(|cycle| cycle.first().copied()).collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; so can those of {}", others.join(", "))
    };
    let message = format!("its messages can go round for ever: {path}{others}");
    let reason = format!(
        "RabbitMQ drops them there, or, with at-least-once, keeps each in one of {SLOTS} slots; when all are taken \
         nothing leaves the queue"
    );
    let fix = "delete the binding, or change the dead letter exchange, that leads back";
    let draft = Draft::about(Subject::Queue(start.to_owned()), message);
    Some(draft.because(reason).fix(Fix::Text(fix.to_owned())))
}

/// The queues that a message passes from `start` until it is there again, `start` first; the shortest way.
fn way_back<'a>(objects: &'a Objects, start: &'a Queue) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = std::collections::VecDeque::from([start]);
    while let Some(queue) = next.pop_front() {
        for target in targets(objects, queue) {
            if target.name == start.name {
                return Some(path(&came_from, &start.name, &queue.name));
            }
            if !came_from.contains_key(target.name.as_str()) {
                came_from.insert(&target.name, &queue.name);
                next.push_back(target);
            }
        }
    }
    None
}

fn path<'a>(came_from: &BTreeMap<&'a str, &'a str>, start: &'a str, last: &'a str) -> Vec<&'a str> {
    let mut names = vec![last];
    let mut at = last;
    while at != start {
        let Some(before) = came_from.get(at) else { break };
        names.push(before);
        at = before;
    }
    names.reverse();
    names
}

/// Queues with a TTL that what expires in `queue` may get to.
fn targets<'a>(objects: &'a Objects, queue: &Queue) -> Vec<&'a Queue> {
    let routed = dead_letters(objects, queue).filter(|_| expires(queue)).unwrap_or_default();
    let queues = routed.queues.iter().filter_map(|name| objects.queues.get(name));
    queues.filter(|queue| expires(queue)).collect()
}
