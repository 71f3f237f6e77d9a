//! Messages that wait while the strategy changes, again and again, stopped anywhere, with counts that are late: each
//! finds its way out at every moment, and everything that was retired is gone in the end.

use std::collections::{BTreeMap, BTreeSet};

use overdue::internals::{
    objects::Objects,
    plan::{Change, Clock, KeptQueues, Plan, Snapshot, is_needed, is_of},
    topology::{Topology, level_routes::LevelRoutes, route::Delay},
};
use proptest::{collection, prelude::*, sample::Index};

use crate::broker_model::{DELAYED, apply, dead_letter_exchange, plan, route};

/// What waits, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    /// A queue, or an exchange of the plugin.
    at: String,
    key: String,
    timeout: String,
}

/// A broker with its messages.
struct Broker {
    now: Snapshot,
    waiting: Vec<Waiting>,
    /// The counts before the last message moved.
    late: BTreeMap<String, u64>,
    /// Timeouts that every topology so far has had.
    kept: BTreeSet<String>,
}

/// One change of the topology, and what happens during and after it.
#[derive(Clone, Debug)]
struct Round {
    topology: usize,
    /// Where it is stopped.
    stop: Option<Index>,
    counts_are_late: bool,
    /// Milliseconds, by the topology before.
    published: Vec<u64>,
    moved: Vec<Index>,
}

fn topology(delay: &str, queue_type: &str, shards: u16) -> Topology {
    let shards = if shards > 1 { format!("shards = {shards}\n") } else { String::new() };
    let unpaid = format!("[[timeout]]\nname = \"unpaid\"\nafter = \"5s\"\n{shards}");
    let unshipped = "[[timeout]]\nname = \"unshipped\"\nafter = \"3s\"\n";
    let text = format!(
        "name = \"orders\"\n[queues]\ntype = \"{queue_type}\"\n[delay]\n{delay}\n{unpaid}{unshipped}[retry]\nafter = [\"1s\"]\n"
    );
    Topology::parse(&text).unwrap_or_else(|findings| panic!("{text}: {findings:?}"))
}

/// Every strategy, with ladders that share places, and some that share nothing; with one queue for a timeout, and several.
fn topologies() -> Vec<Topology> {
    let delays = [
        "levels = [\"1s\", \"3s\", \"5s\"]",
        "levels = [\"1s\", \"3s\", \"5s\", \"7s\"]",
        "strategy = \"delayed-exchange\"",
        "strategy = \"ladder\"\nladder = { max = \"5s\" }",
        "strategy = \"ladder\"\nladder = { max = \"25s\" }",
        "strategy = \"ladder\"\nladder = { max = \"130s\" }",
        "strategy = \"ladder\"\nladder = { max = \"130s\", queues = 22 }",
        "strategy = \"ladder\"\nlevels = [\"3s\"]\nladder = { max = \"60s\", queues = 15 }",
    ];
    let both = ["quorum", "classic"].into_iter();
    let plain = both.flat_map(|kind| delays.iter().map(move |delay| topology(delay, kind, 1)));
    let sharded = [(0, 2), (0, 12), (4, 3)];
    let sharded = sharded.map(|(delay, shards)| topology(delays[delay], "quorum", shards));
    plain.chain(sharded).collect()
}

fn round(topologies: usize) -> impl Strategy<Value = Round> {
    let published = collection::vec(1_u64..140_000, 0..4);
    let moved = collection::vec(any::<Index>(), 0..8);
    let stop = proptest::option::of(any::<Index>());
    (0..topologies, stop, any::<bool>(), published, moved).prop_map(
        |(topology, stop, counts_are_late, published, moved)| Round {
            topology,
            stop,
            counts_are_late,
            published,
            moved,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_waits_comes_out_whatever_becomes_of_the_strategy(
        rounds in collection::vec(round(topologies().len()), 2..6),
    ) {
        let topologies = topologies();
        let first = &topologies[rounds[0].topology];
        let mut broker = Broker {
            now: Snapshot::of(first),
            waiting: Vec::new(),
            late: BTreeMap::new(),
            kept: ["unpaid", "unshipped"].map(str::to_owned).into(),
        };
        let mut topology = first;
        for round in &rounds {
            broker.publish(topology, &round.published);
            topology = &topologies[round.topology];
            broker.change(topology, round.stop, round.counts_are_late)?;
            broker.publish(topology, &round.published);
            for index in &round.moved {
                broker.moves(*index)?;
            }
        }
        broker.comes_to_rest(topology)?;
    }
}

/// An exchange of the plugin is deleted only if every node that answers says that it holds nothing.
#[test]
fn what_the_plugin_holds_keeps_its_exchange() {
    let topologies = topologies();
    let (levels, delayed) = (&topologies[0], &topologies[2]);
    for (held, needed) in [(Some(0), false), (Some(1), true), (None, true)] {
        let mut broker = Snapshot::of(delayed);
        broker.delayed.clear();
        broker.delayed.extend(held.map(|held| ("orders.delayed".to_owned(), held)));
        assert_eq!(is_needed(levels, &broker, "orders.delayed"), needed);
        assert!(!is_needed(levels, &broker, "orders.nowhere"));
    }
}

impl Broker {
    /// As a worker does that puts something back: what leads to nothing is returned. The plugin's exchange does not say so.
    fn publish(&mut self, topology: &Topology, delays_ms: &[u64]) {
        let routes = LevelRoutes::of_objects(topology, &self.now.objects);
        for (ms, timeout) in delays_ms.iter().zip(topology.timeouts.iter().cycle()) {
            let delay = Delay::Exactly(std::time::Duration::from_millis(*ms));
            let Ok(sent) = topology.route(&timeout.name, &delay) else { continue };
            let sent = topology.again(sent);
            let Some(exchange) = self.now.objects.exchanges.get(&sent.exchange) else { continue };
            let to = if exchange.kind == DELAYED {
                [sent.exchange.clone()].into()
            } else {
                route(&self.now.objects, &sent.exchange, &sent.routing_key).expect("it is there")
            };
            if exchange.kind != DELAYED || routes.leads(&sent) {
                self.arrives(to, &sent.routing_key, &timeout.name);
            }
        }
        self.late = self.now.messages.clone();
    }

    fn arrives(&mut self, to: BTreeSet<String>, key: &str, timeout: &str) {
        let here = to.into_iter().filter(|to| waits(&self.now.objects, to));
        let here: Vec<String> = here.collect();
        for at in here {
            self.waiting.push(Waiting { at, key: key.to_owned(), timeout: timeout.to_owned() });
        }
        self.count();
    }

    /// The counts are those of what waits; workers take what is due at once.
    fn count(&mut self) {
        self.now.messages.values_mut().for_each(|count| *count = 0);
        self.now.delayed.values_mut().for_each(|count| *count = 0);
        for Waiting { at, .. } in &self.waiting {
            let counts = [&mut self.now.messages, &mut self.now.delayed];
            let count = counts.into_iter().find_map(|counts| counts.get_mut(at));
            *count.unwrap_or_else(|| panic!("{at} is gone, and messages with it")) += 1;
        }
    }

    /// One message is due where it waits.
    fn moves(&mut self, index: Index) -> Result<(), TestCaseError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.late = self.now.messages.clone();
        let moved = self.waiting.swap_remove(index.index(self.waiting.len()));
        let to = next(&self.now.objects, &moved).map_err(TestCaseError::fail)?;
        self.arrives(to, &moved.key, &moved.timeout);
        Ok(())
    }

    /// Plans and carries out, as strict as the program: what holds a message is kept.
    fn change(
        &mut self,
        topology: &Topology,
        stop: Option<Index>,
        counts_are_late: bool,
    ) -> Result<Plan, TestCaseError> {
        let mut observed = self.now.clone();
        for (queue, count) in self.late.iter().filter(|_| counts_are_late) {
            observed.messages.entry(queue.clone()).and_modify(|now| *now = *count);
        }
        let change = plan(topology, &observed);
        prop_assert_eq!(&change.refusals, &[]);
        let steps = stop.map_or(change.steps.len(), |stop| stop.index(change.steps.len() + 1));
        let mut kept = KeptQueues::default();
        for step in &change.steps[..steps] {
            if kept.hold_up(topology, step) {
                continue;
            }
            match &step.change {
                Change::DeleteQueue { queue, .. } if self.now.messages_in(queue) != Some(0) => {
                    kept.keep(topology, queue);
                    continue;
                }
                Change::DeleteExchange { exchange } if is_needed(topology, &self.now, exchange) => {
                    continue;
                }
                change => apply(&mut self.now, change),
            }
            if !step.adds() {
                let lost = self.waiting.iter().find_map(|it| self.comes_out(it).err());
                prop_assert_eq!(lost, None, "after {}\n{}", step.change, change);
            }
        }
        self.count();
        Ok(change)
    }

    /// Whether a message comes out of where it waits, in its queue.
    fn comes_out(&self, waiting: &Waiting) -> Result<(), String> {
        let mut open = vec![waiting.clone()];
        let mut seen = BTreeSet::new();
        while let Some(waiting) = open.pop().filter(|it| seen.insert(it.clone())) {
            for to in next(&self.now.objects, &waiting)? {
                if waits(&self.now.objects, &to) {
                    open.push(Waiting { at: to, ..waiting.clone() });
                } else if self.kept.contains(&waiting.timeout)
                    && !is_of(&format!("orders.{}", waiting.timeout), &to)
                {
                    return Err(format!("{waiting:?} comes out in {to}"));
                }
            }
        }
        Ok(())
    }

    /// With everything due in the end, every plan ends in one that has nothing to do.
    fn comes_to_rest(&mut self, topology: &Topology) -> Result<(), TestCaseError> {
        for _ in 0..60 {
            self.now.clock = Some(Clock { now_s: u64::MAX, counts_settle_s: 11 });
            let change = self.change(topology, None, false)?;
            if change == Plan::default() && self.waiting.is_empty() {
                prop_assert_eq!(self.now.objects.queues.len(), topology.objects().queues.len());
                prop_assert_eq!(&self.now.objects.exchanges, &topology.objects().exchanges);
                return Ok(());
            }
            for waiting in std::mem::take(&mut self.waiting) {
                let to = next(&self.now.objects, &waiting).map_err(TestCaseError::fail)?;
                self.arrives(to, &waiting.key, &waiting.timeout);
            }
            self.count();
        }
        Err(TestCaseError::fail(format!("no end: {}", plan(topology, &self.now))))
    }
}

/// Whether messages wait there: in a queue with a TTL, or in an exchange of the plugin.
fn waits(objects: &Objects, at: &str) -> bool {
    let queue = objects.queues.get(at);
    queue.is_some_and(|queue| queue.message_ttl_ms().is_some())
        || objects.exchanges.get(at).is_some_and(|exchange| exchange.kind == DELAYED)
}

/// Where a message goes when its time there is over.
fn next(objects: &Objects, waiting: &Waiting) -> Result<BTreeSet<String>, String> {
    let holds = objects.exchanges.get(&waiting.at).map(|exchange| exchange.name.as_str());
    let exchange = holds.or_else(|| dead_letter_exchange(objects, &waiting.at));
    let to = exchange.and_then(|exchange| route(objects, exchange, &waiting.key));
    let to = to.filter(|to| !to.is_empty() && to.iter().all(|to| objects.queues.contains_key(to)));
    to.ok_or_else(|| format!("{waiting:?} goes to {exchange:?}, and is lost"))
}

/// Counts are late: what is in a queue that was kept after all goes on through the rest of its ladder, and through nothing else.
#[test]
fn of_a_ladder_of_which_a_queue_is_kept_nothing_goes() {
    let ladder =
        "strategy = \"ladder\"\nlevels = [\"3s\", \"9s\"]\nladder = { max = \"60s\", queues = 15 }";
    let broker = Snapshot::of(&topology(ladder, "quorum", 1));
    let levels = topology("levels = [\"1s\", \"3s\", \"5s\"]", "quorum", 1);
    let change = plan(&levels, &broker);
    let held_up = |queues: &[&str]| {
        let mut kept = KeptQueues::default();
        for queue in queues {
            kept.keep(&levels, queue);
        }
        let steps = change.steps.iter().filter(|step| kept.hold_up(&levels, step));
        steps.map(|step| step.change.to_string()).collect::<Vec<_>>()
    };
    let of_the_ladder =
        |it: &String| it.starts_with('-') && it.contains(".ladder.") && it.contains(".delay.");
    let steps = change.changes().map(ToString::to_string);
    let (ladder, others): (Vec<String>, Vec<String>) = steps.partition(of_the_ladder);
    for goes in ["- binding   orders.in -> orders.delay.9s  (9s.*)", "- queue     orders.delay.9s"]
    {
        assert!(others.iter().any(|it| it == goes), "{change}");
    }
    assert_eq!(held_up(&["orders.delay.9s"]), [""; 0]);
    assert_eq!(held_up(&["orders.ladder.1s-10.delay.2s", "orders.delay.9s"]), ladder, "{change}");
}
