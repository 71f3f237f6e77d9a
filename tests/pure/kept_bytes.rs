//! A consumer's messages in memory are bounded in bytes.

use overdue::internals::worker::kept_bytes::{BOUND, KeptBytes};
use proptest::{collection, prelude::*, sample::Index};

/// The largest body that a consumer keeps.
const LARGEST: usize = 64 * 1024;

#[derive(Clone, Debug)]
enum Step {
    Receive(usize),
    Settle(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..BOUND / 4).prop_map(Step::Receive),
        3 => any::<Index>().prop_map(Step::Settle),
    ];
    collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn exactly_what_is_in_hand_counts(steps in steps()) {
        let kept = KeptBytes::default();
        let mut in_hand = Vec::new();
        for step in steps {
            match step {
                Step::Receive(bytes) => in_hand.push((bytes, kept.keep(bytes))),
                Step::Settle(index) if !in_hand.is_empty() => {
                    drop(in_hand.swap_remove(index.index(in_hand.len())));
                }
                Step::Settle(_) => {}
            }
            let bytes: usize = in_hand.iter().map(|(bytes, _)| bytes).sum();
            prop_assert_eq!(kept.is_full(), bytes >= BOUND);
            prop_assert_eq!(kept.may_wait(), bytes < BOUND / 2);
        }
        drop(in_hand);
        prop_assert!(kept.may_wait() && !kept.is_full());
    }
}

/// Usual due notices never come near the bound, however many wait.
#[test]
fn small_messages_are_bounded_by_their_number_alone() {
    let kept = KeptBytes::default();
    let _all: Vec<_> = (0..16 * 2_000).map(|_| kept.keep(500)).collect();
    assert!(kept.may_wait() && !kept.is_full());
}

#[test]
fn the_largest_that_are_kept_are_received_no_further_than_the_bound() {
    let kept = KeptBytes::default();
    let mut all = Vec::new();
    while !kept.is_full() {
        all.push(kept.keep(LARGEST));
    }
    assert_eq!(all.len() * LARGEST, BOUND);
    all.truncate(all.len() / 2 - 1);
    assert!(kept.may_wait());
}
