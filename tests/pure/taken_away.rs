//! What a file takes away from a topology that is in use: a running worker takes only files that take nothing away.

use overdue::internals::{plan::taken_away::taken_away, topology::Topology};
use proptest::prelude::*;

use crate::{generate, samples::WITHOUT_FINDINGS};

proptest! {
    /// It names something exactly where an object is not there any more as it was.
    #[test]
    fn a_file_takes_something_away_where_an_object_is_gone_or_another(
        one in generate::topology(), other in generate::topology(),
    ) {
        prop_assert_eq!(taken_away(&one, &one), Vec::<String>::new());
        let (before, after) = (one.objects(), other.objects());
        let stays = before.queues.iter().all(|(name, queue)| after.queues.get(name) == Some(queue))
            && before.exchanges.iter().all(|(name, it)| after.exchanges.get(name) == Some(it))
            && before.bindings.is_subset(&after.bindings);
        prop_assert_eq!(taken_away(&one, &other).is_empty(), stays);
    }
}

fn parsed(text: &str) -> Topology {
    Topology::parse(text).expect("a topology")
}

#[test]
fn rules_change_and_levels_are_added_without_taking_anything_away() {
    let topology = parsed(WITHOUT_FINDINGS);
    let mut more = topology.clone();
    more.levels.push("7m".parse().expect("a level"));
    more.timeouts[0].after = "5s".parse().expect("a level");
    more.retry.clear();
    assert_eq!(taken_away(&topology, &more), Vec::<String>::new());
    assert_eq!(
        taken_away(&more, &topology),
        [
            "queue orders.delay.7m",
            "binding orders.in to orders.delay.7m (7m.*)",
            "binding orders.owned to orders.delay.7m (delay/7m)"
        ]
    );
}
