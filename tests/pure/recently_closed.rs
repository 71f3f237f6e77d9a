//! A worker remembers the orders that it closed from the table, for their messages, up to a bound.

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
fn an_order_counts_for_messages_that_came_before_or_that_name_its_deadline() {
    let (mut closed, before) = (RecentlyClosed::default(), Instant::now());
    let asked = before + MS;
    assert!(closed.is_empty() && !closed.has(&id(1), before, None));
    assert_eq!(closed.add([(id(1), Some(7)), (id(2), None)], asked), 2);
    assert!(closed.len() == 2 && !closed.is_empty());
    // The answer is true for each of these: the order was closed after them.
    assert!(closed.has(&id(1), before, None) && closed.has(&id(1), before, Some(8)));
    assert!(!closed.has(&id(1), asked, None));
    assert!(!closed.has(&id(1), asked + MS, Some(8)), "it is about another deadline");
    assert!(closed.has(&id(1), asked + MS, Some(7)));
    assert!(!closed.has(&id(2), asked + MS, None), "it may be about another deadline");
    assert!(!closed.has(&id(3), before, None));
    // The order was opened and closed again.
    assert_eq!(closed.add([(id(1), Some(9))], asked + 2 * MS), 1);
    assert!(closed.has(&id(1), asked + MS, None));
    assert!(!closed.has(&id(1), asked + 3 * MS, Some(7)));
    assert!(!closed.has(&id(2), asked + MS, None));
}

#[test]
fn the_oldest_make_room_for_the_newest() {
    let (mut closed, received) = (RecentlyClosed::default(), Instant::now());
    let (asked, page, all) = (received + MS, 2_000, 3 * HALF);
    for first in (0..all).step_by(page) {
        closed.add((first..first + page).map(|n| (id(n), None)), asked);
        assert!(closed.len() < 2 * HALF + page);
    }
    assert!((all - HALF..all).all(|n| closed.has(&id(n), received, None)));
    assert!(!closed.has(&id(0), received, None));
}
