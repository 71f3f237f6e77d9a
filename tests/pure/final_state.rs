//! The words for "done", and words that are not.

use std::time::Duration;

use overdue::internals::order::{FinalState, FinalStates, Outcome};
use proptest::prelude::*;

#[test]
fn a_word_follows_done() {
    for (outcome, word) in [
        ("closed", "closed"),
        ("done", "done"),
        ("done:cancelled", "cancelled"),
        ("done:paid_2nd_time", "paid_2nd_time"),
    ] {
        assert_eq!(FinalState::of_outcome(outcome).unwrap().as_str(), word);
    }
}

/// An unknown word is refused: a typo must not ack a message.
#[test]
fn what_is_misspelt_is_not_done() {
    let longest = format!("done:{}", "x".repeat(40));
    assert!(FinalState::of_outcome(&longest).is_some());
    let refused = [
        "",
        "cancelled",
        "completed",
        "Closed",
        "closed ",
        "alredy_final",
        "notdue",
        "done ",
        "done:",
        "done: cancelled",
        "done:Cancelled",
        "done:a b",
        "done:über",
        "done:1st",
        "done:_x",
        "done,cancelled",
        &format!("{longest}x"),
    ];
    for outcome in refused {
        assert_eq!(FinalState::of_outcome(outcome), None, "{outcome:?}");
    }
}

#[test]
fn the_states_of_a_batch_are_each_named_once() {
    let state = |word| FinalState::of_outcome(word).unwrap();
    let closed = |word| Outcome::Closed { late: Duration::ZERO, state: state(word) };
    let mut states = FinalStates::default();
    assert_eq!(states.to_string(), "");
    let not_closed =
        [Outcome::AlreadyFinal, Outcome::NotDue { remaining: Duration::ZERO }, Outcome::Busy];
    assert!(not_closed.iter().all(|outcome| outcome.final_state().is_none()));
    for words in [["done:expired", "closed"], ["closed", "done:cancelled"]] {
        let outcomes = words.map(closed);
        states.add(outcomes.iter().filter_map(Outcome::final_state));
    }
    assert_eq!(states.to_string(), "cancelled,closed,expired");
}

/// An order that is not due waits only for its deadline.
#[test]
fn an_order_is_guarded_if_it_stays_open_after_its_deadline() {
    let not_due = |ns| Outcome::NotDue { remaining: Duration::from_nanos(ns) };
    assert!(not_due(0).is_guarded());
    for other in [not_due(1), Outcome::AlreadyFinal, Outcome::Unknown, Outcome::Busy] {
        assert!(!other.is_guarded(), "{other:?}");
    }
}

proptest! {
    #[test]
    fn a_word_is_safe_in_a_log(outcome in "(done:)?[ -~]{0,50}") {
        if let Some(state) = FinalState::of_outcome(&outcome) {
            let word = state.as_str();
            prop_assert!((1..=40).contains(&word.len()));
            prop_assert!(word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
            let with_prefix = format!("done:{word}");
            prop_assert!(outcome == word || outcome == with_prefix);
        }
    }
}
