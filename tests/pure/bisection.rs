//! A batch with bad rows is split until each is alone; and whether rows or the database cause a failure.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use overdue::internals::{
    order::{FinalState, OrderId, Outcome},
    worker::bisection::{BatchBisector, Failure, FailureScope, MANY, Verdict},
};
use proptest::prelude::*;

const CLOSED: Outcome = Outcome::Closed { late: Duration::ZERO, state: FinalState::CLOSED };

fn failed(cause: &str) -> Outcome {
    Outcome::Failed { cause: cause.to_owned(), reason: "refused".to_owned() }
}

/// Limit of statements for other parts.
const ELSEWHERE: usize = 24;

/// Limit of orders that may fail alone.
fn most_individual_failures(suspect: FailureScope) -> usize {
    if suspect == FailureScope::Slow { 3 } else { MANY }
}

fn suspect() -> impl Strategy<Value = FailureScope> {
    prop_oneof![Just(FailureScope::Slow), Just(FailureScope::Server)]
}

/// A database in which a part with a bad order fails. Returns the outcomes and the number of statements.
fn close(len: usize, bad: &BTreeSet<usize>) -> (Vec<Outcome>, usize) {
    let (outcomes, statements) = close_bearing(len, bad, FailureScope::Order);
    (outcomes.expect("it is borne"), statements)
}

/// Closes as the worker does, with the limit of orders that fail alone. `None` if it has given up.
fn close_bearing(
    len: usize,
    bad: &BTreeSet<usize>,
    suspect: FailureScope,
) -> (Option<Vec<Outcome>>, usize) {
    let mut splitting = BatchBisector::new(len, Outcome::Unknown, ELSEWHERE);
    let mut statements = 0;
    while let Some(part) = splitting.next_part() {
        assert!(!part.is_empty());
        statements += 1;
        if part.clone().any(|order| bad.contains(&order)) {
            if !splitting.failed(part, suspect, failed("57014")) {
                return (None, statements);
            }
        } else {
            let outcomes = vec![CLOSED; part.len()];
            splitting.answered(part, outcomes, true);
        }
    }
    assert_eq!(splitting.failures(), bad.len());
    (Some(splitting.into_outcomes()), statements)
}

fn assert_others_closed(len: usize, bad: &BTreeSet<usize>, suspect: FailureScope) {
    let (outcomes, _) = close_bearing(len, bad, suspect);
    let outcomes = outcomes.unwrap_or_else(|| panic!("given up: {len} {bad:?}"));
    assert_eq!(outcomes.len(), len);
    for (order, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome == &CLOSED, !bad.contains(&order), "{order}");
    }
}

fn depth(len: usize) -> usize {
    usize::try_from(len.max(1).next_power_of_two().ilog2()).unwrap()
}

/// The sequence of parts if all orders fail.
fn asked(len: usize, suspect: FailureScope) -> Vec<Range<usize>> {
    let mut splitting = BatchBisector::new(len, Outcome::Unknown, ELSEWHERE);
    let mut asked = Vec::new();
    while let Some(part) = splitting.next_part() {
        asked.push(part.clone());
        if !splitting.failed(part, suspect, failed("57014")) {
            break;
        }
    }
    asked
}

/// A failing order may be the cause, or only seem so: up to the limit, orders are tried alone, the oldest first. A lock or a failing
/// order proves nothing about the database.
#[test]
fn so_many_fail_alone_before_others_are_looked_for() {
    let halves = [
        (FailureScope::Slow, 3),
        (FailureScope::Server, MANY),
        (FailureScope::Order, 32),
        (FailureScope::Lock, 32),
    ];
    for (suspect, alone) in halves {
        let asked = asked(64, suspect);
        let before = asked.iter().take_while(|part| part.start < 32);
        let singles: Vec<usize> =
            before.filter(|part| part.len() == 1).map(|part| part.start).collect();
        assert!(singles.iter().copied().eq(0..alone), "{suspect:?}: {singles:?}");
    }
}

#[test]
fn elsewhere_is_the_last_part_and_the_largest_in_turn() {
    let slow = asked(32, FailureScope::Slow);
    let alone = [0..32, 0..16, 0..8, 0..4, 0..2, 0..1, 1..2, 2..4, 2..3];
    let elsewhere = [16..32, 24..32, 28..32, 16..24, 30..32, 8..16, 31..32];
    assert_eq!(slow[..alone.len()], alone);
    assert_eq!(slow[alone.len()..][..elsewhere.len()], elsewhere);
}

/// A pause, or a locked table: earlier outcomes are kept.
#[test]
fn what_is_given_up_has_one_outcome() {
    let mut splitting = BatchBisector::new(8, Outcome::Unknown, ELSEWHERE);
    let whole = splitting.next_part().unwrap();
    assert!(splitting.failed(whole, FailureScope::Order, failed("57014")));
    let first = splitting.next_part().unwrap();
    splitting.answered(first, vec![CLOSED; 4], true);
    let other = splitting.next_part().unwrap();
    assert!(splitting.failed(other, FailureScope::Order, failed("57014")));
    let third = splitting.next_part().unwrap();
    splitting.give_up(third, &Outcome::Busy);
    assert_eq!(splitting.next_part(), None);
    assert_eq!(splitting.into_outcomes(), [vec![CLOSED; 4], vec![Outcome::Busy; 4]].concat());
}

/// Failing orders remain the oldest: all but the last are bad, and the last is closed.
#[test]
fn the_last_order_is_closed_however_many_before_it_fail() {
    for len in [4, 5, 22, 23, 500, 4_000] {
        assert_others_closed(len, &(0..len - 1).collect(), FailureScope::Slow);
        assert_others_closed(len, &(0..len - 1).collect(), FailureScope::Server);
    }
}

proptest! {
    #[test]
    fn the_others_are_closed_whatever_stands_before_the_last_order(
        len in 1_usize..600, seed in prop::collection::btree_set(0_usize..600, 0..600), suspect in suspect(),
    ) {
        let bad = seed.into_iter().filter(|order| order + 1 < len).collect();
        assert_others_closed(len, &bad, suspect);
    }

    /// The oldest and the newest, as after a change of the order service.
    #[test]
    fn the_others_are_closed_where_they_are_half_of_the_batch(
        len in 1_usize..600, first in 0.0..0.5, suspect in suspect(),
    ) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of `len`")]
        let first = (first * len as f64) as usize;
        let last = (len / 2 + first).max(first);
        assert_others_closed(len, &(0..first).chain(last..len).collect(), suspect);
    }

    #[test]
    fn a_database_that_closes_nothing_is_not_asked_for_long(len in 1_usize..4_000, suspect in suspect()) {
        let (outcomes, statements) = close_bearing(len, &(0..len).collect(), suspect);
        prop_assert!(statements <= depth(len) + 2 * most_individual_failures(suspect) + ELSEWHERE, "{} statements", statements);
        // A batch that was split to the end has an outcome for each order.
        prop_assert!(outcomes.is_some() || len > most_individual_failures(suspect));
    }

    #[test]
    fn exactly_the_bad_orders_fail(len in 0_usize..300, seed in prop::collection::btree_set(0_usize..300, 0..40)) {
        let bad: BTreeSet<usize> = seed.into_iter().filter(|order| *order < len).collect();
        let (outcomes, statements) = close(len, &bad);
        for (order, outcome) in outcomes.iter().enumerate() {
            prop_assert_eq!(outcome == &CLOSED, !bad.contains(&order));
        }
        prop_assert!(statements <= (1 + 2 * depth(len) * bad.len()).min((2 * len).max(1)), "{} statements", statements);
    }

    /// Failures in any batches: a few are caused by their orders, many are not.
    #[test]
    fn many_orders_that_fail_alike_and_none_that_works_are_not_at_fault(sizes in prop::collection::vec(1_usize..9, 1..12)) {
        let mut verdict = Verdict::default();
        let mut seen = 0;
        for size in sizes {
            let ids: Vec<OrderId> = (seen..seen + size).map(id).collect();
            seen += size;
            let mut outcomes = vec![failed("42P01"); size];
            verdict.judge(&ids, &mut outcomes);
            let postponed = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Postponed { .. }));
            prop_assert_eq!(postponed, seen >= MANY);
        }
    }
}

fn id(n: usize) -> OrderId {
    OrderId::parse(&format!("o-{n}")).unwrap()
}

/// Their batch is still being split, and other batches are judged already.
#[test]
fn orders_that_have_failed_alone_count_as_those_of_a_whole_batch() {
    for (suspect, counts) in [
        (FailureScope::Order, true),
        (FailureScope::Slow, true),
        (FailureScope::Server, false),
        (FailureScope::Lock, false),
    ] {
        let mut verdict = Verdict::default();
        let failure = Failure { suspect, cause: "OS001".to_owned(), reason: "refused".to_owned() };
        for n in 1..MANY {
            verdict.failed(&id(n), &failure);
        }
        let postponed = Outcome::Postponed { reason: "refused".to_owned() };
        let expected = if counts { postponed } else { failed("OS001") };
        assert_eq!(judged(&mut verdict, 0, &[failed("OS001")]), [expected], "{suspect:?}");
    }
}

fn judged(verdict: &mut Verdict, first: usize, outcomes: &[Outcome]) -> Vec<Outcome> {
    let ids: Vec<OrderId> = (first..first + outcomes.len()).map(id).collect();
    let mut outcomes = outcomes.to_vec();
    verdict.judge(&ids, &mut outcomes);
    outcomes
}

#[test]
fn one_that_is_closed_shows_that_the_others_are_at_fault() {
    let mut verdict = Verdict::default();
    let mut batch = vec![failed("OS001"); 3 * MANY];
    batch.push(CLOSED);
    assert_eq!(judged(&mut verdict, 0, &batch), batch);
    // Earlier failures no longer count.
    let few = vec![failed("OS001"); MANY - 1];
    assert_eq!(judged(&mut verdict, 0, &few), few);
    assert_eq!(judged(&mut verdict, 900, &[CLOSED]), [CLOSED]);
    assert_eq!(judged(&mut verdict, 100, &few), few);
}

#[test]
fn one_order_again_and_again_and_orders_that_fail_in_different_ways_are_at_fault() {
    let (mut same, mut different) = (Verdict::default(), Verdict::default());
    for n in 0..3 * MANY {
        assert_eq!(judged(&mut same, 0, &[failed("OS001")]), [failed("OS001")]);
        let cause = if n % 2 == 0 { "OS001" } else { "OS002" };
        assert_eq!(judged(&mut different, n, &[failed(cause)]), [failed(cause)]);
    }
}
