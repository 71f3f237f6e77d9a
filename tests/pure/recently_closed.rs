//! What a burst closed is remembered for the messages that were in hand before, and not without bound.

use std::time::{Duration, Instant};

use overdue::internals::{
    order::OrderId,
    worker::recently_closed::{HALF, RecentlyClosed},
};

const MS: Duration = Duration::from_millis(1);

fn id(n: usize) -> OrderId {
    OrderId::parse(&format!("o-{n}")).unwrap()
}

#[test]
fn an_order_counts_for_the_messages_that_were_received_before_it_was_asked_for() {
    let (mut closed, before) = (RecentlyClosed::default(), Instant::now());
    let asked = before + MS;
    assert!(closed.is_empty() && !closed.has_since(&id(1), before));
    assert_eq!(closed.add([id(1), id(2)], asked), 2);
    assert!(closed.len() == 2 && !closed.is_empty());
    // Each of them: the order was closed after all of these.
    assert!(closed.has_since(&id(1), before) && closed.has_since(&id(1), before));
    assert!(!closed.has_since(&id(1), asked));
    assert!(!closed.has_since(&id(1), asked + MS), "it may be about another deadline");
    assert!(!closed.has_since(&id(3), before));
    // Opened again, and closed again.
    assert_eq!(closed.add([id(1)], asked + 2 * MS), 1);
    assert!(closed.has_since(&id(1), asked + MS));
    assert!(!closed.has_since(&id(2), asked + MS));
}

#[test]
fn the_oldest_make_room_for_the_newest() {
    let (mut closed, received) = (RecentlyClosed::default(), Instant::now());
    let (asked, page, all) = (received + MS, 2_000, 3 * HALF);
    for first in (0..all).step_by(page) {
        closed.add((first..first + page).map(id), asked);
        assert!(closed.len() < 2 * HALF + page);
    }
    assert!((all - HALF..all).all(|n| closed.has_since(&id(n), received)));
    assert!(!closed.has_since(&id(0), received));
}
