//! Topic patterns, against a matcher that tries every routing key.

use overdue::internals::objects::overlap;
use proptest::{collection, prelude::*};

/// Matches as RabbitMQ documents it, word by word.
fn matches(pattern: &[&str], key: &[&str]) -> bool {
    match pattern {
        [] => key.is_empty(),
        ["#", rest @ ..] => (0..=key.len()).any(|taken| matches(rest, &key[taken..])),
        [word, rest @ ..] => match key {
            [first, others @ ..] => (*word == "*" || word == first) && matches(rest, others),
            [] => false,
        },
    }
}

fn words(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split('.').collect() }
}

/// Every key of up to `length` words: `a`, `b`, and one that no pattern names.
fn keys(length: usize) -> Vec<Vec<&'static str>> {
    let mut all = vec![Vec::new()];
    let mut last: Vec<Vec<&str>> = all.clone();
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|key| ["a", "b", "z"].map(|word| [key.clone(), vec![word]].concat()))
            .collect();
        all.extend(last.clone());
    }
    all
}

fn pattern() -> impl Strategy<Value = String> {
    let word = prop_oneof![Just("a"), Just("b"), Just("*"), Just("#")];
    collection::vec(word, 0..4).prop_map(|words| words.join("."))
}

proptest! {
    #[test]
    fn patterns_overlap_where_a_key_matches_both(one in pattern(), other in pattern()) {
        // A key that both match has at most the words of both patterns.
        let both = keys(6).iter().any(|key| matches(&words(&one), key) && matches(&words(&other), key));
        prop_assert_eq!(overlap(&one, &other), both, "{:?} and {:?}", one, other);
        prop_assert_eq!(overlap(&other, &one), both);
    }

    #[test]
    fn a_key_overlaps_what_it_matches(one in pattern(), key in "[ab](\\.[ab]){0,4}") {
        prop_assert_eq!(overlap(&one, &key), matches(&words(&one), &words(&key)));
    }
}

#[test]
fn the_patterns_of_a_topology() {
    assert!(overlap("30m.*", "30m.unpaid") && overlap("#.unpaid", "30m.unpaid"));
    assert!(overlap("30m.*", "#.unpaid"));
    assert!(!overlap("30m.*", "5m.*") && !overlap("#.unpaid", "#.unshipped"));
    assert!(overlap("#", "") && !overlap("*", ""));
}

/// Bindings of others can have any pattern: the time must not exceed their length.
#[test]
fn many_wildcards_cost_nothing() {
    let hashes = vec!["#"; 127].join(".");
    assert!(!overlap(&format!("{hashes}.a"), &format!("{hashes}.b")));
}
