//! The words for "done", and what is not one.

use overdue::internals::order::FinalState;
use proptest::prelude::*;

#[test]
fn a_word_follows_done() {
    for (outcome, word) in [("closed", "closed"), ("done", "done"), ("done:cancelled", "cancelled")]
    {
        assert_eq!(FinalState::of_outcome(outcome).unwrap().as_str(), word);
    }
}

/// A typo must not acknowledge a message: what nobody knows is refused.
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
