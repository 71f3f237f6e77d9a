//! How long a batch waits for what somebody else holds, and when it does not.

use std::time::{Duration, Instant};

use overdue::internals::worker::contention::{Contention, LASTS, LONGEST, Manner, patience};
use proptest::prelude::*;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn after_a_wait_in_vain_nobody_waits_until_one_batch_tries_again() {
    let (mut contention, began) = (Contention::default(), Instant::now());
    assert_eq!(contention.manner(began), Manner::Wait);
    contention.waited_in_vain(began);
    assert_eq!(contention.manner(began), Manner::PassOver);
    assert_eq!(contention.manner(began + LASTS.saturating_sub(MILLI)), Manner::PassOver);
    // Those beside the one that tries do not wait for it.
    assert_eq!(contention.manner(began + LASTS), Manner::Try);
    assert_eq!(contention.manner(began + LASTS + LONGEST), Manner::PassOver);
    contention.got_through(Manner::Try);
    assert_eq!(contention.manner(began + LASTS + LONGEST), Manner::Wait);
}

/// It began before the rows were held.
#[test]
fn a_batch_that_did_not_try_says_nothing() {
    let (mut contention, began) = (Contention::default(), Instant::now());
    contention.waited_in_vain(began);
    contention.got_through(Manner::Wait);
    assert_eq!(contention.manner(began), Manner::PassOver);
}

/// At a few hundred orders per second, batches are small: what they wait in vain is lateness of all orders in them.
#[test]
fn a_few_orders_wait_shortly_and_full_batches_as_long_as_those_before_them_take() {
    assert!(patience(1) < LONGEST / 4);
    assert_eq!(patience(500), LONGEST);
}

proptest! {
    #[test]
    fn more_orders_never_wait_more_shortly_nor_beyond_the_longest(few: usize, more: usize) {
        let (few, more) = (few.min(more), few.max(more));
        prop_assert!(patience(few) <= patience(more) && patience(more) <= LONGEST);
        prop_assert!(patience(few) > Duration::ZERO);
    }
}
