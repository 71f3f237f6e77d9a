//! Removal of a topology: all its objects, no others, marks last, and no waiting message.

use overdue::internals::{
    objects::{Binding, Objects},
    plan::{Change, Refusal, removal},
    topology::Topology,
};
use proptest::prelude::*;

use crate::{
    broker_model::{applied, apply, empty_queues, plan},
    generate,
};

/// A broker with all these objects.
fn together(all: &[&Objects]) -> Objects {
    let mut objects = Objects::default();
    for each in all {
        objects.exchanges.extend(each.exchanges.clone());
        objects.queues.extend(each.queues.clone());
        objects.bindings.extend(each.bindings.clone());
    }
    objects
}

/// The topology under another name.
fn named(written: &generate::Written, name: String) -> Topology {
    generate::Written { name, ..written.clone() }.read()
}

fn binding(source: &str, destination: &str, to_queue: bool) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue,
        routing_key: "#".to_owned(),
        arguments: [].into(),
    }
}

proptest! {
    /// A neighbour whose name begins with ours, and bindings of others to our exchanges.
    #[test]
    fn all_of_it_goes_and_nothing_of_others(written in generate::written_anyhow(), cut in any::<prop::sample::Index>()) {
        let ours = written.read();
        let theirs = named(&written, format!("{}.eu", ours.name));
        let mut alone = empty_queues(theirs.objects());
        let messages = |(nth, queue): (usize, &String)| (queue.clone(), u64::try_from(nth).unwrap_or(1));
        alone.messages = alone.objects.queues.keys().enumerate().map(messages).collect();
        let mut queue = alone.objects.queues.first_key_value().expect("queues").1.clone();
        "theirs".clone_into(&mut queue.name);
        queue.arguments.clear();
        alone.objects.queues.insert("theirs".to_owned(), queue);
        alone.messages.insert("theirs".to_owned(), 5);

        let mut broker = empty_queues(together(&[&ours.objects(), &alone.objects]));
        broker.messages.extend(alone.messages.clone());
        broker.objects.bindings.insert(binding(&ours.events_exchange(), "theirs", true));
        let plan = removal(&ours, &broker, false);
        prop_assert!(plan.refusals.is_empty(), "{plan}");
        prop_assert_eq!(plan.lost(), 0);
        let gone = applied(&broker, &plan);
        prop_assert_eq!(&gone.objects, &alone.objects);
        prop_assert_eq!(&gone.messages, &alone.messages);

        // Stopped after any step, and begun again.
        let done = cut.index(plan.steps.len());
        let mut half = broker.clone();
        plan.changes().take(done).for_each(|change| apply(&mut half, change));
        let rest = removal(&ours, &half, false);
        prop_assert_eq!(rest.steps.len(), plan.steps.len() - done, "{}", rest);
        prop_assert_eq!(applied(&half, &rest).objects, alone.objects);
    }

    /// A waiting message is a refusal, and lost only with consent; a queue without a count is never deleted.
    #[test]
    fn what_waits_is_not_lost(written in generate::written_anyhow(), which in any::<prop::sample::Index>()) {
        let ours = written.read();
        let mut broker = empty_queues(ours.objects());
        let nth = which.index(broker.objects.queues.len());
        let queue = broker.objects.queues.keys().nth(nth).expect("in range").clone();
        broker.messages.insert(queue.clone(), 7);
        let refused = removal(&ours, &broker, false);
        let waiting = |messages| vec![Refusal::Waiting { queue: queue.clone(), messages }];
        prop_assert_eq!(refused.refusals, waiting(Some(7)));
        let lost = removal(&ours, &broker, true);
        prop_assert_eq!((lost.refusals.len(), lost.lost()), (0, 7));
        prop_assert_eq!(applied(&broker, &lost).objects, Objects::default());
        broker.messages.remove(&queue);
        prop_assert_eq!(removal(&ours, &broker, true).refusals, waiting(None));
    }

    /// Retired generations and removed levels have the mark as well.
    #[test]
    fn what_drains_goes_with_it((before, after) in generate::change()) {
        let (before, after) = (before.read(), after.read());
        prop_assume!(before.name == after.name);
        let mut broker = empty_queues(before.objects());
        let change = plan(&after, &broker);
        let is_addition = |change: &&Change| matches!(change, Change::CreateExchange(_) | Change::CreateQueue(_) | Change::Bind(_));
        change.changes().filter(is_addition).for_each(|change| apply(&mut broker, change));
        let removed = removal(&after, &broker, false);
        prop_assert!(removed.refusals.is_empty(), "{removed}");
        prop_assert_eq!(applied(&broker, &removed).objects, Objects::default());
    }
}
