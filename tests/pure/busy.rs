//! Who is named in the warning about locked orders, and when.

use std::time::{Duration, Instant};

use overdue::internals::{
    order::{FinalState, OrderId, Outcome},
    worker::row_locks::{BusyOrders, Held, NAMED, REPORT_AFTER},
};
use proptest::prelude::*;

const CLOSED: Outcome = Outcome::Closed { late: Duration::ZERO, state: FinalState::CLOSED };
const SECOND: Duration = Duration::from_secs(1);

fn ids(count: usize) -> Vec<OrderId> {
    (0..count).map(|n| OrderId::parse(&format!("o-{n:02}")).unwrap()).collect()
}

fn busy(orders: &mut BusyOrders, ids: &[OrderId], now: Instant) -> Option<Held> {
    orders.observe(ids, &vec![Outcome::Busy; ids.len()], now)
}

#[test]
fn what_is_locked_for_ten_seconds_is_named_and_named_again_after_ten_more() {
    let (mut orders, ids, began) = (BusyOrders::default(), ids(3), Instant::now());
    let mut reports = Vec::new();
    for second in 0..=30 {
        let now = began + second * SECOND;
        // The last one is locked from the fifth second on.
        let seen = if second < 5 { &ids[..2] } else { &ids[..] };
        reports.extend(busy(&mut orders, seen, now).map(|held| (second, held)));
    }
    let held = |orders: usize, seconds| Held {
        orders,
        named: ids[..orders].to_vec(),
        since: seconds * SECOND,
    };
    assert_eq!(reports, [(10, held(2, 10)), (20, held(3, 20)), (30, held(3, 30))]);
}

#[test]
fn an_order_that_was_free_in_between_begins_anew() {
    let (mut orders, ids, began) = (BusyOrders::default(), ids(1), Instant::now());
    assert_eq!(busy(&mut orders, &ids, began), None);
    assert_eq!(orders.observe(&ids, &[CLOSED], began + 9 * SECOND), None);
    assert_eq!(busy(&mut orders, &ids, began + REPORT_AFTER), None);
    assert_eq!(busy(&mut orders, &ids, began + REPORT_AFTER + 9 * SECOND), None);
    assert!(busy(&mut orders, &ids, began + 2 * REPORT_AFTER).is_some());
}

/// Another worker may have closed it a moment later.
#[test]
fn an_order_that_was_seen_once_is_never_named() {
    let (mut orders, ids, began) = (BusyOrders::default(), ids(2), Instant::now());
    assert_eq!(busy(&mut orders, &ids[..1], began), None);
    for second in 1..100 {
        let held = orders.observe(&ids[1..], &[CLOSED], began + second * SECOND);
        assert_eq!(held, None, "after {second} s");
    }
}

#[test]
fn a_line_names_no_more_than_can_be_read_and_counts_all() {
    let (mut orders, ids, began) = (BusyOrders::default(), ids(3 * NAMED), Instant::now());
    for (n, id) in (0..).zip(&ids) {
        busy(&mut orders, std::slice::from_ref(id), began + n * Duration::from_millis(1));
    }
    let held = busy(&mut orders, &ids, began + 2 * REPORT_AFTER).unwrap();
    assert_eq!((held.orders, held.named), (3 * NAMED, ids[..NAMED].to_vec()));
}

proptest! {
    /// Whatever is asked when: nobody is named who was not locked at both ends of ten seconds, and no two reports are
    /// nearer than that.
    #[test]
    fn a_report_is_never_about_less_than_ten_seconds(
        steps in proptest::collection::vec((0_u64..8_000, 0_usize..6, any::<bool>()), 1..80)
    ) {
        let (mut orders, ids, mut now) = (BusyOrders::default(), ids(6), Instant::now());
        let mut since: [Option<Instant>; 6] = [None; 6];
        let mut reported: Option<Instant> = None;
        for (pause, order, is_busy) in steps {
            now += Duration::from_millis(pause);
            since[order] = if is_busy { since[order].or(Some(now)) } else { None };
            let outcome = if is_busy { Outcome::Busy } else { CLOSED };
            let Some(held) = orders.observe(&ids[order..=order], &[outcome], now) else { continue };
            prop_assert!(reported.is_none_or(|before| now - before >= REPORT_AFTER));
            reported = Some(now);
            prop_assert!(!held.named.is_empty() && held.since >= REPORT_AFTER);
            for id in &held.named {
                let place = ids.iter().position(|known| known == id).unwrap();
                prop_assert!(since[place].is_some_and(|since| now - since >= REPORT_AFTER));
            }
        }
    }
}
