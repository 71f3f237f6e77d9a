//! The product's own time-outs and intervals: tests shorten them, so nothing else would notice a slip.

use std::time::Duration;

use overdue::internals::{
    ladder::{Ladder, LadderSpec, MAX_MS},
    plan::StatisticsInterval,
    timing::Timing,
};

#[test]
fn the_defaults_are_these() {
    insta::assert_debug_snapshot!(Timing::default());
}

/// Before each place of a ladder is touched the counts of the one before have to be new. Removed timeouts are looked at twice
/// more, and so are other queues once.
#[test]
fn who_waits_for_a_lock_waits_for_the_longest_change() {
    let timing = Timing::default();
    let (max, resolution) = (Duration::from_millis(MAX_MS), Duration::from_millis(1));
    let spec = LadderSpec { max, resolution, max_queues: None };
    let places = Ladder::compile("orders", &spec).unwrap().places().len();
    let counts = StatisticsInterval::default().surely_settle(timing.least_statistics_interval);
    let waits = u32::try_from(places).unwrap() + 3;
    assert!(timing.topology_lock > waits * counts, "{places} places, {counts:?} each");
}

/// A slow machine has all the time that it needs, and a test that waits for a time-out waits for a tenth of it.
#[test]
fn tests_wait_for_less_in_one_of_two_ways() {
    let (product, often, tenth) = (Timing::default(), Timing::often(), Timing::tenth());
    assert_eq!(
        (often.topology_lock, often.undeleted_again),
        (product.topology_lock, product.undeleted_again / 10)
    );
    assert_eq!(
        (tenth.confirm, tenth.undeleted_again),
        (product.confirm / 10, often.undeleted_again)
    );
}
