//! What was closed ahead of its message is remembered: once, for a while, and not without bound.

use std::time::{Duration, Instant};

use overdue::internals::{
    order::OrderId,
    worker::remembered::{BOUND, REMEMBERED_FOR, Remembered},
};
use proptest::prelude::*;

/// A millisecond before they are forgotten.
const NEARLY: Duration = Duration::from_millis(29_999);

fn id(n: usize) -> OrderId {
    OrderId::parse(&format!("o-{n}")).unwrap()
}

fn ids(range: std::ops::Range<usize>) -> Vec<OrderId> {
    range.map(id).collect()
}

#[test]
fn an_order_counts_for_one_message() {
    let (mut orders, now) = (Remembered::default(), Instant::now());
    assert!(!orders.take(&id(1), now));
    orders.add(&ids(0..3), now);
    assert!(orders.has(&id(1), now) && orders.take(&id(1), now));
    assert!(!orders.has(&id(1), now) && !orders.take(&id(1), now));
    assert_eq!(orders.len(), 2);
    // Closed again, after somebody has opened it again.
    orders.add(&ids(1..2), now);
    assert!(orders.take(&id(1), now));
}

#[test]
fn an_order_is_forgotten_after_a_while() {
    let (mut orders, now) = (Remembered::default(), Instant::now());
    assert_eq!(REMEMBERED_FOR, NEARLY + Duration::from_millis(1));
    orders.add(&ids(0..2), now);
    assert!(orders.take(&id(0), now + NEARLY));
    assert!(!orders.has(&id(1), now + REMEMBERED_FOR));
    assert!(!orders.take(&id(1), now + REMEMBERED_FOR));
}

/// What is too old takes no room as soon as something else comes.
#[test]
fn an_order_that_came_again_lasts_as_long_as_a_new_one() {
    let (mut orders, now) = (Remembered::default(), Instant::now());
    orders.add(&ids(0..2), now);
    orders.add(&ids(1..2), now + REMEMBERED_FOR / 2);
    orders.add(&ids(9..10), now + REMEMBERED_FOR);
    assert_eq!(orders.len(), 2);
    assert!(!orders.take(&id(0), now + REMEMBERED_FOR));
    assert!(orders.take(&id(1), now + REMEMBERED_FOR));
}

#[test]
fn the_oldest_make_room_for_the_newest() {
    let (mut orders, now) = (Remembered::default(), Instant::now());
    let page = 10_000;
    for first in (0..2 * BOUND).step_by(page) {
        orders.add(&ids(first..first + page), now);
        assert!(orders.len() <= BOUND);
    }
    assert_eq!(orders.len(), BOUND);
    assert!(!orders.has(&id(BOUND - 1), now));
    assert!(orders.has(&id(BOUND), now) && orders.has(&id(2 * BOUND - 1), now));
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<usize>),
    Take(usize),
    Wait(Duration),
}

fn step() -> impl Strategy<Value = Step> {
    let few = prop::collection::vec(0..20_usize, 0..6);
    prop_oneof![
        few.prop_map(Step::Add),
        (0..20_usize).prop_map(Step::Take),
        (0..30_000_u64).prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
    ]
}

proptest! {
    /// As a list of everything that was added, with its time, would answer.
    #[test]
    fn it_answers_as_a_list_would(steps in prop::collection::vec(step(), 0..60)) {
        let (mut orders, mut now) = (Remembered::default(), Instant::now());
        let mut list: Vec<Option<Instant>> = vec![None; 20];
        for step in steps {
            match step {
                Step::Add(added) => {
                    orders.add(&added.iter().copied().map(id).collect::<Vec<_>>(), now);
                    for n in added {
                        list[n] = Some(now);
                    }
                }
                Step::Take(n) => {
                    let expected = list[n].take().is_some_and(|at| now - at < REMEMBERED_FOR);
                    prop_assert_eq!(orders.take(&id(n), now), expected);
                }
                Step::Wait(pause) => now += pause,
            }
        }
        let left = list.iter().flatten().filter(|at| now - **at < REMEMBERED_FOR).count();
        prop_assert!(orders.len() >= left);
        prop_assert_eq!((0..20).filter(|n| orders.has(&id(*n), now)).count(), left);
    }
}
