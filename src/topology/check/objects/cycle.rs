//! `dead-letter-cycle`: messages that expire from queue to queue and never get out.

use super::{Fault, keys_from, reached};
use crate::objects::{Objects, Queue};

/// Cycles of queues that all have a TTL. A queue without one waits for a consumer, which is a way out, and a
/// rejection there is what RabbitMQ allows a cycle for (<https://www.rabbitmq.com/docs/dlx#dead-letter-cycle>).
pub(super) fn dead_letter(objects: &Objects) -> Vec<Fault> {
    let mut told: Vec<String> = Vec::new();
    let mut faults = Vec::new();
    for queue in objects.queues.values().filter(|queue| queue.expires()) {
        let Some(cycle) = way_back(objects, queue) else { continue };
        if cycle.iter().any(|name| told.iter().any(|told| told == name)) {
            continue;
        }
        let path = cycle.iter().chain([&queue.name]).map(String::as_str).collect::<Vec<_>>();
        let message = format!(
            "messages can go round for ever: {}; at-most-once drops them there, at-least-once keeps them in one of \
             the 32 places for messages on their way, and 32 of them stop the queue",
            path.join(" -> ")
        );
        let help = "take the binding away that leads back".to_owned();
        faults.push(Fault { object: queue.name.clone(), message, help });
        told.extend(cycle);
    }
    faults
}

/// The queues a message passes from `start` until it is there again, `start` first.
fn way_back(objects: &Objects, start: &Queue) -> Option<Vec<String>> {
    // Breadth first, so the shortest way; each entry knows where it came from.
    let mut seen: Vec<(&Queue, usize)> = vec![(start, 0)];
    let mut next = 0;
    while let Some((queue, _)) = seen.get(next).copied() {
        for target in targets(objects, queue) {
            if target.name == start.name {
                return Some(path(&seen, next));
            }
            if !seen.iter().any(|(seen, _)| seen.name == target.name) {
                seen.push((target, next));
            }
        }
        next += 1;
    }
    None
}

fn path(seen: &[(&Queue, usize)], last: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = last;
    while let Some((queue, from)) = seen.get(at) {
        names.push(queue.name.clone());
        if at == 0 {
            break;
        }
        at = *from;
    }
    names.reverse();
    names
}

/// Queues with a TTL that what expires in `queue` may get to, over the alternate exchange too.
fn targets<'a>(objects: &'a Objects, queue: &'a Queue) -> Vec<&'a Queue> {
    let Some(exchange) = queue.dead_letter_exchange().filter(|_| queue.expires()) else {
        return Vec::new();
    };
    let keys = keys_from(objects, queue);
    let mut found = Vec::new();
    let mut ways = vec![exchange];
    let mut next = 0;
    while let Some(way) = ways.get(next).copied() {
        next += 1;
        found.extend(reached(objects, way, &keys));
        let alternate = objects.exchanges.get(way).and_then(|exchange| exchange.alternate());
        ways.extend(alternate.filter(|alternate| !ways.contains(alternate)));
    }
    found.retain(|queue| queue.expires());
    found
}
