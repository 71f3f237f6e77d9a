//! Who is parked when a message ends every worker that takes it: nobody else.

use std::collections::VecDeque;

use overdue::internals::worker::quarantine::{Quarantine, Step};
use proptest::prelude::*;

#[test]
fn it_begins_with_one_message_and_takes_many_as_soon_as_that_one_is_good() {
    let mut quarantine = Quarantine::new(20, 100);
    assert!(quarantine.is_alone());
    assert_eq!(quarantine.receive(0, true), Step::Widen);
    assert!(!quarantine.is_alone());
    assert_eq!(quarantine.receive(9, true), Step::Take);
}

#[test]
fn suspects_are_taken_one_at_a_time_until_many_good_ones_came_in_a_row() {
    let mut quarantine = Quarantine::new(20, 3);
    assert_eq!(quarantine.receive(10, true), Step::Take, "alone from the start");
    assert_eq!(quarantine.receive(0, true), Step::Widen);
    assert_eq!(quarantine.receive(10, true), Step::Narrow);
    assert!(quarantine.is_alone());
    for deliveries in [0, 0, 19, 0, 0] {
        assert_eq!(quarantine.receive(deliveries, true), Step::Take);
    }
    assert_eq!(quarantine.receive(0, false), Step::Take, "no room for many");
    assert_eq!(quarantine.receive(0, true), Step::Widen);
}

#[test]
fn with_a_low_delivery_limit_suspicion_begins_earlier() {
    for (limit, few) in [(1, 1), (4, 2), (8, 4), (20, 10), (1_000_000, 10), (-1, 1)] {
        let quarantine = Quarantine::new(limit, 1);
        assert!(quarantine.is_suspect(few) && !quarantine.is_suspect(few - 1), "{limit}");
    }
}

/// A quorum queue: what is given back is delivered before what never was.
struct Queue {
    limit: u32,
    returned: VecDeque<(usize, u32)>,
    ready: VecDeque<(usize, u32)>,
    parked: Vec<usize>,
}

impl Queue {
    fn pop(&mut self) -> Option<(usize, u32)> {
        self.returned.pop_front().or_else(|| self.ready.pop_front())
    }

    /// Delivered and not settled, once more.
    fn failed(&mut self, (id, count): (usize, u32)) {
        if count + 1 > self.limit {
            self.parked.push(id);
        } else {
            self.returned.push_back((id, count + 1));
        }
    }
}

/// A worker until it dies; false when there was nothing left to die of.
fn session(queue: &mut Queue, culprits: &[usize], prefetch: usize, give_back_counts: bool) -> bool {
    let mut quarantine = Quarantine::new(i64::from(queue.limit), u32::try_from(prefetch).unwrap());
    loop {
        let mut in_hand = Vec::new();
        let mut kept_alone = quarantine.is_alone();
        while in_hand.len() < if kept_alone { 1 } else { prefetch } {
            let Some(message) = queue.pop() else { break };
            match quarantine.receive(message.1, true) {
                Step::Take => in_hand.push(message),
                Step::Widen => {
                    in_hand.push(message);
                    kept_alone = false;
                }
                Step::Narrow if give_back_counts => {
                    queue.failed(message);
                    break;
                }
                Step::Narrow => {
                    queue.returned.push_back(message);
                    break;
                }
            }
        }
        if in_hand.is_empty() && queue.returned.is_empty() && queue.ready.is_empty() {
            return false;
        }
        if in_hand.iter().any(|(id, _)| culprits.contains(id)) {
            // What the broker has delivered beside it counts as well, seen or not.
            while !quarantine.is_alone() && in_hand.len() < prefetch {
                let Some(message) = queue.pop() else { break };
                in_hand.push(message);
            }
            for message in in_hand {
                queue.failed(message);
            }
            return true;
        }
    }
}

proptest! {
    #[test]
    fn only_culprits_are_parked(
        messages in 1_usize..400,
        prefetch in 1_usize..200,
        culprits in proptest::collection::vec(0_usize..400, 1..4),
        give_back_counts: bool,
        limit in proptest::sample::select(vec![4_u32, 8, 20]),
    ) {
        let ready = (0..messages).map(|id| (id, 0)).collect();
        let mut queue = Queue { limit, returned: VecDeque::new(), ready, parked: Vec::new() };
        let mut deaths = 0;
        while session(&mut queue, &culprits, prefetch, give_back_counts) {
            deaths += 1;
            prop_assert!(deaths <= 200, "it does not end");
        }
        let (mut there, mut parked) = (culprits, queue.parked);
        there.retain(|id| *id < messages);
        there.sort_unstable();
        there.dedup();
        parked.sort_unstable();
        prop_assert_eq!(parked, there);
    }
}
