//! The product's own time-outs and intervals: tests shorten them, so nothing else would notice a slip.

use overdue::internals::{plan::StatisticsInterval, timing::Timing};

#[test]
fn the_defaults_are_these() {
    insta::assert_debug_snapshot!(Timing::default());
}

/// The queues that are deleted are counted together, once.
#[test]
fn who_waits_for_a_lock_waits_for_the_longest_change() {
    let timing = Timing::default();
    let counts = StatisticsInterval::default();
    assert!(timing.topology_lock > 2 * counts.uncounted_at_most());
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
