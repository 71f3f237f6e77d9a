//! The lines of a ladder, which has dozens of queues that differ only in their TTL.

use std::fmt;

use super::{
    draining::{DrainStatus, Draining},
    step::{Change, Reason, Replaced, Step},
};
use crate::{objects::mark::mark, topology::level::Level};

/// Prints steps that differ only in the queue of a ladder as one line, at the position of the first step.
pub(super) fn steps<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<String> {
    lines(steps.cloned(), |step| {
        let hold = match &mut step.change {
            Change::CreateQueue(queue) => {
                queue.arguments.remove("x-message-ttl");
                cut_hold(&mut queue.name)
            }
            Change::DeleteQueue { queue, lost: 0 } => cut_hold(queue),
            Change::Bind(binding) | Change::Unbind(binding) if binding.to_queue => {
                let owner = binding.mark_of().map(str::to_owned);
                let hold = cut_hold(&mut binding.destination);
                let mark = owner.and_then(|owner| mark(&owner, &binding.destination));
                binding.routing_key = mark.map_or_else(String::new, |mark| mark.routing_key);
                hold
            }
            _ => None,
        }?;
        match &mut step.reason {
            Reason::Replaces(Replaced { queue: other, .. })
            | Reason::Succeeded { successor: other, .. } => drop(cut_hold(other)),
            _ => {}
        }
        Some(hold)
    })
}

/// Prints empty queues of a ladder as one line, if they are kept for messages that may still arrive.
pub(super) fn draining(all: &[Draining]) -> Vec<String> {
    let within = |it: &Draining| match it.drains {
        DrainStatus::AlongTheLadder { within } if it.messages == Some(0) => Some(within),
        _ => None,
    };
    let longest = all.iter().filter_map(within).max();
    lines(all.iter().cloned(), |it| {
        let within = within(it).and(longest)?;
        it.drains = DrainStatus::AlongTheLadder { within };
        cut_hold(&mut it.queue)
    })
}

/// Prints equal items as one line. `cut` removes and returns the TTL of an item's queue; items are compared without it.
fn lines<T: Clone + PartialEq + fmt::Display>(
    all: impl Iterator<Item = T>,
    cut: impl Fn(&mut T) -> Option<Level>,
) -> Vec<String> {
    let mut runs: Vec<(T, T, Vec<Level>)> = Vec::new();
    for one in all {
        let mut rest = one.clone();
        let hold = cut(&mut rest);
        match runs.iter_mut().find(|(_, equal, _)| hold.is_some() && *equal == rest) {
            Some((.., holds)) => holds.extend(hold),
            None => runs.push((one, rest, hold.into_iter().collect())),
        }
    }
    let line = |(one, rest, mut holds): (T, T, Vec<Level>)| {
        holds.sort_by_key(Level::ttl);
        let ([first, .., last], text) = (holds.as_slice(), rest.to_string()) else {
            return one.to_string();
        };
        let (line, reason) = text.split_at(text.find('\n').unwrap_or(text.len()));
        format!("{line}: {} of them, {first} to {last}{reason}", holds.len())
    };
    runs.into_iter().map(line).collect()
}

/// Removes the TTL from the name of a ladder's queue and returns it: `30m` of `orders.ladder.delay.30m.2`, which becomes
/// `orders.ladder.delay.*.2`.
fn cut_hold(name: &mut String) -> Option<Level> {
    let (ladder, rest) = name.rsplit_once(".delay.")?;
    (ladder.ends_with(".ladder") || ladder.contains(".ladder.")).then_some(())?;
    let (hold, generation) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let hold = hold.parse().ok()?;
    *name = format!("{ladder}.delay.*{generation}");
    Some(hold)
}
