//! How long a batch waits for what somebody else holds, and when it does not.

use std::time::{Duration, Instant};

use overdue::internals::worker::row_locks::{
    Contention, LONG_LOCK_LASTS, LONGEST_WAIT, Manner, SUSPICION, patience,
};
use proptest::prelude::*;

const MILLI: Duration = Duration::from_millis(1);
/// The ids of the oldest writer and of one that began later.
const OLD: i64 = 740;
const NEW: i64 = 741;

/// A batch has waited in vain, and the look afterwards has found the same writer.
fn held(now: Instant) -> Contention {
    let mut contention = Contention::default();
    contention.waited_in_vain(now, Manner::Wait, Some(OLD));
    assert_eq!(contention.manner(now + SUSPICION), Manner::Look);
    assert_eq!(contention.looked(now + SUSPICION, Some(OLD)), Manner::PassOver);
    contention
}

#[test]
fn after_a_wait_in_vain_one_batch_looks_and_the_others_pass_over() {
    let (mut contention, began) = (Contention::default(), Instant::now());
    assert_eq!(contention.manner(began), Manner::Wait);
    contention.waited_in_vain(began, Manner::Wait, Some(OLD));
    assert_eq!(contention.manner(began + SUSPICION.saturating_sub(MILLI)), Manner::PassOver);
    assert_eq!(contention.manner(began + SUSPICION), Manner::Look);
    assert_eq!(contention.manner(began + SUSPICION), Manner::PassOver);
}

/// Before, all passed over for five seconds what many held for an instant each, and an order that comes back after
/// 10, 20, 40 … ms found its stock locked each time.
#[test]
fn rows_that_one_after_the_other_holds_for_an_instant_are_waited_for() {
    let (mut contention, began) = (Contention::default(), Instant::now());
    contention.waited_in_vain(began, Manner::Wait, Some(OLD));
    assert_eq!(contention.manner(began + SUSPICION), Manner::Look);
    assert_eq!(contention.looked(began + SUSPICION, Some(NEW)), Manner::Wait);
    assert_eq!(contention.manner(began + SUSPICION), Manner::Wait);
}

#[test]
fn rows_that_one_transaction_holds_for_long_are_passed_over_until_one_batch_tries_again() {
    let began = Instant::now();
    let (mut contention, known) = (held(began), began + SUSPICION);
    assert_eq!(contention.manner(known + LONG_LOCK_LASTS.saturating_sub(MILLI)), Manner::PassOver);
    // Those beside the one that tries do not wait for it.
    assert_eq!(contention.manner(known + LONG_LOCK_LASTS), Manner::Try);
    assert_eq!(contention.manner(known + LONG_LOCK_LASTS + LONGEST_WAIT), Manner::PassOver);
    contention.got_through(Manner::Try);
    assert_eq!(contention.manner(known + LONG_LOCK_LASTS + LONGEST_WAIT), Manner::Wait);
}

#[test]
fn one_that_tries_in_vain_says_that_the_rows_are_held_still() {
    let began = Instant::now();
    let mut contention = held(began);
    let tried = began + SUSPICION + LONG_LOCK_LASTS;
    assert_eq!(contention.manner(tried), Manner::Try);
    contention.waited_in_vain(tried, Manner::Try, Some(OLD));
    assert_eq!(contention.manner(tried + SUSPICION), Manner::Look);
    assert_eq!(contention.looked(tried + SUSPICION, Some(OLD)), Manner::PassOver);
    assert_eq!(contention.manner(tried + LONG_LOCK_LASTS), Manner::PassOver);
}

/// A database that does not say who writes is asked for nothing more.
#[test]
fn where_the_oldest_writer_is_unknown_the_rows_are_passed_over() {
    let (mut contention, began) = (Contention::default(), Instant::now());
    contention.waited_in_vain(began, Manner::Wait, None);
    assert_eq!(contention.manner(began + LONG_LOCK_LASTS.saturating_sub(MILLI)), Manner::PassOver);
    let mut contention = Contention::default();
    contention.waited_in_vain(began, Manner::Wait, Some(OLD));
    assert_eq!(contention.looked(began + SUSPICION, None), Manner::PassOver);
    assert_eq!(contention.manner(began + LONG_LOCK_LASTS), Manner::PassOver);
}

/// It began before the rows were held.
#[test]
fn a_batch_that_did_not_try_says_nothing() {
    let began = Instant::now();
    let (mut contention, known) = (held(began), began + SUSPICION);
    contention.got_through(Manner::Wait);
    contention.waited_in_vain(known, Manner::Wait, Some(NEW));
    assert_eq!(contention.manner(known + LONG_LOCK_LASTS.saturating_sub(MILLI)), Manner::PassOver);
}

/// At a few hundred orders per second, batches are small: what they wait in vain is lateness of all orders in them.
#[test]
fn a_few_orders_wait_shortly_and_full_batches_as_long_as_those_before_them_take() {
    assert!(patience(1) < LONGEST_WAIT / 4);
    assert_eq!(patience(500), LONGEST_WAIT);
}

proptest! {
    #[test]
    fn more_orders_never_wait_more_shortly_nor_beyond_the_longest(few: usize, more: usize) {
        let (few, more) = (few.min(more), few.max(more));
        prop_assert!(patience(few) <= patience(more) && patience(more) <= LONGEST_WAIT);
        prop_assert!(patience(few) > Duration::ZERO);
    }
}
