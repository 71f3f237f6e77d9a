//! A change that is cut off after its first, its second, … step: the topology works, and another apply converges.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use lapin::BasicProperties;
use overdue::internals::{
    broker::{ChangeError, TopologyChange},
    plan::{Snapshot, diff},
    topology::Topology,
};

use crate::support::{Wire, World, until};

/// The smallest topology in which everything changes.
const BEFORE: &str = r#"
name = "orders"
delay.levels = ["100ms", "1s"]
queues.type = "classic"
timeout = [{ name = "unpaid", after = "1s" }]
"#;

/// Another queue type, 1 s is gone, 500 ms is new.
fn after() -> String {
    BEFORE
        .replace("classic", "quorum")
        .replace("\"1s\"]", "\"500ms\"]")
        .replace("\"1s\" }", "\"500ms\" }")
}

/// A topology whose change is cut off after `steps`; all are in one virtual host.
struct Cut {
    steps: usize,
    before: Topology,
    after: Topology,
    wire: Wire,
    sent: BTreeSet<String>,
}

impl Cut {
    async fn new(world: &World, steps: usize) -> Self {
        let named = |text: &str| {
            Topology::parse(&text.replace("\"orders\"", &format!("\"cut{steps}\""))).unwrap()
        };
        let (before, after) = (named(BEFORE), named(&after()));
        TopologyChange::new(&world.management(), &before).apply().await.unwrap();
        Self { steps, before, after, wire: world.wire().await, sent: BTreeSet::new() }
    }

    /// Publishes a message with the key of each level, old and new: services are switched later.
    async fn publish(&mut self, when: &str) {
        let levels = self.before.levels.iter().chain(&self.after.levels);
        let keys: BTreeSet<String> =
            levels.map(|level| Topology::routing_key(level, &self.before.timeouts[0])).collect();
        for key in keys {
            let body = format!("{key}, {when}");
            let properties = BasicProperties::default().with_delivery_mode(2);
            let exchange = self.before.entry_exchange();
            let confirmed = self.wire.publish(&exchange, &key, properties, body.as_bytes()).await;
            assert!(confirmed.is_ack());
            self.sent.insert(body);
        }
    }

    /// Carries out the first steps of the change, as before a SIGKILL.
    async fn cut_off(&mut self, world: &World) {
        let management = world.management();
        let after = self.after.clone();
        let change = TopologyChange::new(&management, &after);
        let (mut plan, _) = change.plan().await.unwrap();
        assert_eq!(plan.refusals, [], "{plan}");
        // Published after the plan, which would delete a queue that is no longer empty if `apply` did not check again.
        self.publish("after the plan").await;
        plan.steps.truncate(self.steps);
        change.make::<ChangeError>(|_| Ok(plan), |_| {}).await.unwrap();
        self.publish("after the cut").await;
    }

    /// Applies until no step is left, and consumes the messages of all queues.
    async fn converge(&mut self, world: &World) {
        // A set: between binding the new queue and unbinding the old one, both get a copy.
        let mut found = BTreeSet::new();
        let work = async || {
            let management = world.management();
            let change = TopologyChange::new(&management, &self.after);
            let (mut plan, _) = change.plan().await.unwrap();
            // Without a change no client takes the lock: about twenty run at once.
            if !plan.is_empty() {
                plan = change.apply().await.unwrap();
            }
            let seen = world.management().observe().await.unwrap();
            let stops =
                [self.before.business_queue(&self.before.timeouts[0]), self.before.parked_queue()];
            let stops = seen.objects.queues.into_keys().filter(|name| {
                stops.iter().any(|stop| name == stop || *name == format!("{stop}.2"))
            });
            for stop in stops {
                while let Some(message) = self.wire.take(&stop).await {
                    found.insert(message.text());
                }
            }
            (found.len(), plan.steps.len(), plan.draining.len())
        };
        let all = (self.sent.len(), 0, 0);
        let what = format!("all is done, cut off after {}", self.steps);
        until(&what, work, |seen| *seen == all).await;
        assert_eq!(found, self.sent, "cut off after {}", self.steps);
    }
}

#[apply(world_test)]
async fn a_change_that_was_cut_off_after_any_step_loses_nothing_and_converges() {
    let world = World::empty().await;
    let [before, to] = [BEFORE.to_owned(), after()].map(|text| Topology::parse(&text).unwrap());
    let steps = diff(&to, &Snapshot::of(&before), &BTreeSet::new()).steps.len();
    assert!(steps > 15, "{steps}");
    let mut cuts = join_all((0..=steps).map(|steps| Cut::new(&world, steps))).await;
    let counted = async || {
        let seen = world.management().observe().await.unwrap();
        seen.objects.queues.keys().filter(|queue| seen.messages_in(queue).is_none()).count()
    };
    until("every queue counted", counted, |missing| *missing == 0).await;
    join_all(cuts.iter_mut().map(|cut| cut.cut_off(&world))).await;
    join_all(cuts.iter_mut().map(|cut| cut.converge(&world))).await;
}
