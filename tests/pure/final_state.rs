//! The words for "done", and what is not one.

use overdue::internals::{order::FinalState, store::orders::Effect, topology::BUILT_IN_EFFECTS};
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

/// What the topology file may name without settings is what the program has SQL for.
#[test]
fn each_built_in_effect_has_its_sql() {
    for name in BUILT_IN_EFFECTS {
        assert_eq!(Effect::built_in(name).unwrap().name, name);
    }
    assert!(Effect::built_in("clos").is_none());
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
