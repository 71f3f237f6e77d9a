//! Where reading a table begins whose rows go.

use std::time::{Duration, Instant};

use overdue::internals::floor::Floor;

/// Between two looks at everything.
const EVERY: Duration = Duration::from_mins(1); // data: given to the floor

fn looked(floor: &mut Floor, first: Option<i64>, writers: &[&str]) -> i64 {
    floor.looked(first, writers.iter().map(ToString::to_string).collect());
    floor.row()
}

#[test]
fn a_look_at_everything_is_due_at_once_and_then_once_a_minute() {
    let (mut floor, now) = (Floor::default(), Instant::now());
    assert!(floor.is_due(now, EVERY));
    assert!(!floor.is_due(now + EVERY / 2, EVERY));
    assert!(floor.is_due(now + EVERY, EVERY));
    assert!(!floor.is_due(now + EVERY, EVERY));
    floor.look_soon();
    assert!(floor.is_due(now + EVERY, EVERY));
}

#[test]
fn the_floor_is_the_last_row_of_the_look_before() {
    let mut floor = Floor::default();
    floor.saw(500);
    assert_eq!(looked(&mut floor, None, &[]), 0);
    floor.saw(700);
    assert_eq!(looked(&mut floor, None, &[]), 500);
    assert_eq!(looked(&mut floor, Some(800), &[]), 700, "rows up to 800 are seen");
    assert_eq!(looked(&mut floor, Some(800), &[]), 800);
    assert_eq!(looked(&mut floor, Some(1_000), &[]), 800);
}

/// The row of a transaction that was open comes before the events that its order gets later.
#[test]
fn it_rises_after_the_transactions_that_were_open_have_ended_and_everything_was_looked_at_again() {
    let mut floor = Floor::default();
    floor.saw(500);
    looked(&mut floor, None, &["1/7", "2/9"]);
    assert_eq!(looked(&mut floor, None, &["1/7", "3/1"]), 0, "one is still open");
    floor.saw(900);
    assert_eq!(looked(&mut floor, None, &["4/2"]), 0, "it ended after the look, perhaps");
    assert_eq!(looked(&mut floor, None, &["5/1"]), 500, "that look has found what they wrote");
}

/// A failover gives numbers out again.
#[test]
fn a_row_below_the_floor_makes_everything_begin_again() {
    let (mut floor, now) = (Floor::default(), Instant::now());
    assert!(floor.is_due(now, EVERY));
    floor.saw(500);
    looked(&mut floor, Some(500), &[]);
    assert_eq!(looked(&mut floor, None, &[]), 500);
    assert!(!floor.is_due(now, EVERY));
    assert_eq!(looked(&mut floor, Some(400), &[]), 0);
    assert!(floor.is_due(now, EVERY), "and soon");
    assert_eq!(looked(&mut floor, Some(401), &[]), 400);
}

/// They are refused, and stay where they are; the numbers go on from them.
#[test]
fn rows_below_the_floor_that_are_left_do_not_lower_it() {
    let mut floor = Floor::default();
    floor.saw(2_000);
    looked(&mut floor, Some(2_000), &[]);
    for _ in 0..3 {
        assert_eq!(looked(&mut floor, Some(2_000), &[]), 2_000);
    }
}

/// Under a load it does not wait for the next look at everything.
#[test]
fn it_rises_pass_by_pass_where_it_is_far_below() {
    let mut floor = Floor::default();
    floor.saw(1_000);
    assert!(!floor.is_far_below());
    floor.saw(1_001);
    assert!(floor.is_far_below());
    assert_eq!(looked(&mut floor, Some(1_001), &["1/7"]), 0);
    floor.saw(1_800);
    assert_eq!(looked(&mut floor, Some(1_800), &["2/1"]), 0, "it ended after the pass, perhaps");
    assert_eq!(looked(&mut floor, Some(1_900), &[]), 1_001, "that pass has found what it wrote");
    assert!(!floor.is_far_below());
}
