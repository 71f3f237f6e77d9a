//! A timeout is removed while its messages wait, in any strategy, and while a worker with the old topology goes on: it
//! puts back what is not due yet and what it tries again. With counts as late as the broker's nothing is parked, and the
//! queue goes in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use overdue::internals::{
    objects::{Acks, Leaving, mark},
    plan::{
        Change, Clock, DrainWait, GaveUp, KeptQueues, Next, Plan, Reason, Snapshot,
        StatisticsInterval, is_needed, is_of,
    },
    topology::{Topology, level_routes::LevelRoutes},
};
use proptest::{collection, prelude::*};

use crate::broker_model::{DELAYED, apply, dead_letter_exchange, plan, routed};

/// All counts are newer than this.
const SETTLE_MS: u64 = 11_000;
/// A worker keeps a message for that long rather than to put it back.
const HOLD_MS: u64 = 2_000;
/// It takes that long to put one back.
const HANDLED_MS: u64 = 700;
const REMOVED: &str = "orders.unshipped";

fn is_removed(queue: &str) -> bool {
    is_of(REMOVED, queue)
}

const fn acks(count: u64, term: u64) -> Acks {
    Acks { count, term }
}

/// The broker counts from 0 again when a node has started. What a worker had put back until then is in the levels, where other
/// timeouts' messages are all the time.
#[test]
fn acks_that_are_counted_again_are_no_proof() {
    let old = topology(DELAYS[0], &["unpaid", "unshipped"], 1);
    let new = topology(DELAYS[0], &["unpaid"], 1);
    let marked = mark("orders", REMOVED).unwrap();
    let planned = |at_mark: Option<Acks>, now: Option<Acks>| {
        let mut broker = Snapshot::of(&old);
        broker.messages.insert("orders.delay.1s".to_owned(), 1);
        let leaving = Leaving { since_s: 1_000, acked: at_mark };
        broker.objects.bindings.insert(marked.leaving(leaving));
        broker.acked.extend(now.map(|now| (REMOVED.to_owned(), now)));
        broker.clock = Some(Clock { now_s: 9_000, counts_settle_s: SETTLE_MS / 1_000 });
        plan(&new, &broker)
    };
    let goes = |plan: &Plan| {
        plan.steps.iter().any(|step| matches!(step.reason, Reason::TimeoutRemoved { .. }))
    };
    for count in [0, 5] {
        let at_mark = Some(acks(count, 1));
        assert!(goes(&planned(at_mark, at_mark)));
        for now in [Some(acks(count, 2)), Some(acks(0, 2)), Some(acks(count + 1, 1)), None] {
            let plan = planned(at_mark, now);
            assert!(!goes(&plan), "{now:?}: {plan}");
            let again = plan.changes().any(|change| *change == Change::Leave(marked.clone()));
            assert_eq!(again, now.is_some(), "{now:?}: {plan}");
        }
        assert!(!goes(&planned(None, at_mark)));
    }
}

#[derive(Clone, Debug)]
struct Message {
    /// A queue, or an exchange of the plugin.
    at: String,
    key: String,
    /// When it leaves that place: by its TTL, or because a worker is done with it.
    until_ms: u64,
    unacked: bool,
    due_ms: u64,
    retries: u8,
}

/// When it was counted; messages, and acks, by queue.
type Counted = (u64, BTreeMap<String, u64>, BTreeMap<String, u64>);

/// A broker, a worker with the old topology, and the clock.
struct World {
    broker: Snapshot,
    old: Topology,
    now_ms: u64,
    messages: Vec<Message>,
    works: bool,
    /// Whether it has the strategy that is there: with another one it has no way to put back.
    puts_back: bool,
    /// Where messages for other timeouts wait all the time.
    busy: BTreeSet<String>,
    /// What was counted when.
    history: Vec<Counted>,
    /// By queue.
    acked: BTreeMap<String, u64>,
    lateness: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Case {
    before: usize,
    after: usize,
    /// Of the timeout that is removed; the plugin's exchange takes none.
    shards: u16,
    /// When each is due, how often it is tried again.
    messages: Vec<(u64, u8)>,
    busy: bool,
    /// Between looks, and whether the worker works then.
    looks: Vec<(u64, bool)>,
    lateness: Vec<u64>,
}

const DELAYS: [&str; 6] = [
    "levels = [\"1s\", \"3s\", \"30s\"]",
    "levels = [\"1s\", \"3s\"]",
    "strategy = \"ladder\"\nladder = { max = \"5s\" }",
    "strategy = \"ladder\"\nladder = { max = \"130s\" }",
    "strategy = \"ladder\"\nlevels = [\"1s\"]\nladder = { max = \"60s\", queues = 15 }",
    "strategy = \"delayed-exchange\"",
];

fn topology(delay: &str, timeouts: &[&str], shards: u16) -> Topology {
    let timeouts =
        timeouts.iter().map(|it| format!("[[timeout]]\nname = \"{it}\"\nafter = \"1s\"\n"));
    let mut timeouts: String = timeouts.collect();
    if shards > 1 && !delay.contains("delayed-exchange") {
        writeln!(timeouts, "shards = {shards}").unwrap();
    }
    let text =
        format!("name = \"orders\"\n[delay]\n{delay}\n{timeouts}[retry]\nafter = [\"1s\"]\n");
    Topology::parse(&text).unwrap_or_else(|findings| panic!("{text}: {findings:?}"))
}

fn case() -> impl Strategy<Value = Case> {
    let strategies =
        prop_oneof![(0..DELAYS.len()).prop_map(|it| (it, it)), (0..DELAYS.len(), 0..DELAYS.len()),];
    let messages = collection::vec((1_u64..200_000, 0_u8..3), 1..6);
    let looks = collection::vec((1_u64..90_000, proptest::bool::weighted(0.7)), 0..8);
    let lateness = collection::vec(0..SETTLE_MS, 7);
    (strategies, 1_u16..=3, messages, any::<bool>(), looks, lateness).prop_map(
        |((before, after), shards, messages, busy, looks, lateness)| Case {
            before,
            after,
            shards,
            messages,
            busy,
            looks,
            lateness,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_of_a_removed_timeout_is_parked(case in case()) {
        let old = topology(DELAYS[case.before], &["unpaid", "unshipped"], case.shards);
        let new = topology(DELAYS[case.after], &["unpaid"], 1);
        let wanted = new.objects();
        let waits = |it: &String| wanted.queues[it].message_ttl_ms().is_some();
        let queues = wanted.queues.keys().filter(|it| waits(it)).cloned();
        let exchanges = wanted.exchanges.values().filter(|it| it.kind == DELAYED);
        let busy = queues.chain(exchanges.map(|it| it.name.clone())).filter(|_| case.busy);
        let mut world = World {
            broker: Snapshot::of(&old),
            old,
            now_ms: 1_000_000,
            messages: Vec::new(),
            works: true,
            puts_back: case.before == case.after,
            busy: busy.collect(),
            history: Vec::new(),
            acked: BTreeMap::new(),
            lateness: case.lateness.clone(),
        };
        world.record();
        for (due_ms, retries) in &case.messages {
            world.publish(world.now_ms + due_ms, *retries)?;
        }
        for (pause_ms, works) in &case.looks {
            world.works = *works;
            world.pass(*pause_ms)?;
            let planned = plan(&new, &world.observe());
            world.carry_out(&new, &planned)?;
        }
        world.works = true;
        world.ends(&new)?;
    }
}

impl World {
    /// To be due at that time, as an order service or a worker does it.
    fn publish(&mut self, due_ms: u64, retries: u8) -> Result<(), TestCaseError> {
        let rest = Duration::from_millis(due_ms.saturating_sub(self.now_ms).max(1));
        let routes = LevelRoutes::of_objects(&self.old, &self.broker.objects);
        let timeout = self.old.timeout("unshipped").expect("it has it");
        let sent = routes.wait(&self.old, timeout, rest);
        let sent = sent.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let message = Message {
            at: sent.exchange.clone(),
            key: sent.routing_key.clone(),
            until_ms: self.now_ms + u64::try_from(sent.holds.as_millis()).expect("few"),
            unacked: false,
            due_ms,
            retries,
        };
        if self.broker.objects.exchanges[&sent.exchange].kind == DELAYED {
            self.messages.push(message);
        } else {
            self.goes_on(&message, &sent.exchange)?;
        }
        self.record();
        Ok(())
    }

    /// Through an exchange into the queues that it leads to.
    fn goes_on(&mut self, message: &Message, exchange: &str) -> Result<(), TestCaseError> {
        let hash = Some(message.due_ms);
        let to = routed(&self.broker.objects, exchange, &message.key, hash).unwrap_or_default();
        prop_assert!(!to.is_empty(), "lost: {:?}", message);
        for at in to {
            let ttl = self.broker.objects.queues[&at].message_ttl_ms();
            prop_assert!(ttl.is_some() || is_removed(&at), "in {}: {:?}", at, message);
            let ttl = ttl.and_then(|it| u64::try_from(it).ok());
            let until_ms = ttl.map_or(u64::MAX, |ttl| self.now_ms + ttl);
            self.messages.push(Message { at, until_ms, unacked: false, ..message.clone() });
        }
        Ok(())
    }

    /// Lets time pass.
    fn pass(&mut self, ms: u64) -> Result<(), TestCaseError> {
        let end = self.now_ms + ms;
        loop {
            for it in self.messages.iter_mut().filter(|it| is_removed(&it.at)) {
                if self.works && !it.unacked {
                    let rest = it.due_ms.saturating_sub(self.now_ms);
                    let held = if rest > HOLD_MS { HANDLED_MS } else { rest.max(1) };
                    (it.unacked, it.until_ms) = (true, self.now_ms + held);
                } else if !self.works {
                    (it.unacked, it.until_ms) = (false, u64::MAX);
                }
            }
            let first = (0..self.messages.len()).min_by_key(|it| self.messages[*it].until_ms);
            let Some(first) = first.filter(|it| self.messages[*it].until_ms <= end) else { break };
            self.now_ms = self.messages[first].until_ms;
            if self.messages[first].unacked {
                self.settle(first)?;
            } else {
                let message = self.messages.swap_remove(first);
                let objects = &self.broker.objects;
                let held =
                    objects.exchanges.contains_key(&message.at).then_some(message.at.as_str());
                let exchange = held.or_else(|| dead_letter_exchange(objects, &message.at));
                let exchange = exchange.expect("it leads on").to_owned();
                self.goes_on(&message, &exchange)?;
            }
            self.record();
        }
        self.now_ms = end;
        Ok(())
    }

    /// The worker is done with it: first the copy is confirmed, then it is acked.
    fn settle(&mut self, index: usize) -> Result<(), TestCaseError> {
        let Message { due_ms, retries, .. } = self.messages[index];
        if self.puts_back && due_ms > self.now_ms {
            self.publish(due_ms, retries)?;
        } else if self.puts_back && retries > 0 {
            self.publish(self.now_ms + 1_000, retries - 1)?;
        }
        let Message { at, .. } = self.messages.swap_remove(index);
        *self.acked.entry(at).or_default() += 1;
        Ok(())
    }

    fn record(&mut self) {
        self.broker.messages.values_mut().for_each(|count| *count = 0);
        self.broker.delayed.values_mut().for_each(|count| *count = 0);
        for Message { at, .. } in &self.messages {
            let counts = [&mut self.broker.messages, &mut self.broker.delayed];
            let count = counts.into_iter().find_map(|counts| counts.get_mut(at));
            *count.unwrap_or_else(|| panic!("{at} is gone, and messages with it")) += 1;
        }
        self.history.push((self.now_ms, self.broker.messages.clone(), self.acked.clone()));
    }

    fn at(&self, ms_ago: u64) -> &Counted {
        let at = self.now_ms - ms_ago;
        self.history.iter().rev().find(|(time, ..)| *time <= at).unwrap_or(&self.history[0])
    }

    /// Each count is as old as it may be; what is ready, the queues say themselves.
    fn observe(&mut self) -> Snapshot {
        self.lateness.rotate_left(1);
        let mut observed = self.broker.clone();
        for ((queue, count), late) in observed.messages.iter_mut().zip(self.lateness.iter().cycle())
        {
            let ready = self.messages.iter().filter(|it| it.at == *queue && !it.unacked).count();
            let counted = self.at(*late).1.get(queue).copied().unwrap_or_default();
            *count = counted.max(u64::try_from(ready).expect("few"));
        }
        for it in &self.busy {
            let counts = [&mut observed.messages, &mut observed.delayed];
            // What the plan is still to create is not there.
            if let Some(count) = counts.into_iter().find_map(|counts| counts.get_mut(it)) {
                *count += 1;
            }
        }
        let removed = self.broker.objects.queues.keys().filter(|it| is_removed(it));
        let removed: Vec<String> = removed.cloned().collect();
        let counted = &self.at(self.lateness[0]).2;
        let acked = |it: &String| counted.get(it).copied().unwrap_or_default();
        observed.acked = removed.iter().map(|it| (it.clone(), acks(acked(it), 1))).collect();
        observed.consumed = removed.into_iter().filter(|_| self.works).collect();
        let clock = Clock { now_s: self.now_ms / 1_000, counts_settle_s: SETTLE_MS / 1_000 };
        Snapshot { clock: Some(clock), ..observed }
    }

    /// As the program does it; a refused plan changes nothing.
    fn carry_out(&mut self, new: &Topology, planned: &Plan) -> Result<(), TestCaseError> {
        let mut kept = KeptQueues::default();
        for step in planned.steps.iter().filter(|_| planned.refusals.is_empty()) {
            if kept.hold_up(new, step) {
                continue;
            }
            match &step.change {
                Change::Unbind(_)
                    if matches!(step.reason, Reason::TimeoutRemoved { .. })
                        && !self.is_still_planned(new, &step.change)? =>
                {
                    continue;
                }
                Change::DeleteQueue { queue, .. } => {
                    let mut bindings = self.broker.objects.bindings.iter();
                    let bound =
                        bindings.any(|it| it.destination == *queue && it.mark_of().is_none());
                    if bound || self.broker.messages[queue] > 0 {
                        kept.keep(new, queue);
                        continue;
                    }
                }
                Change::DeleteExchange { exchange } if is_needed(new, &self.broker, exchange) => {
                    continue;
                }
                Change::Leave(_) => {
                    let Snapshot { clock, acked, .. } = self.observe();
                    (self.broker.clock, self.broker.acked) = (clock, acked);
                }
                _ => {}
            }
            apply(&mut self.broker, &step.change);
            self.record();
        }
        Ok(())
    }

    fn is_still_planned(&mut self, new: &Topology, change: &Change) -> Result<bool, TestCaseError> {
        let acked = self.observe().acked;
        for wait_ms in [0, SETTLE_MS, SETTLE_MS] {
            self.pass(wait_ms)?;
            if plan(new, &self.observe()).changes().all(|planned| planned != change) {
                return Ok(false);
            }
        }
        let queue = |acked: &BTreeMap<String, Acks>| match change {
            Change::Unbind(binding) => acked.get(&binding.destination).copied(),
            _ => None,
        };
        Ok(queue(&acked) == queue(&self.observe().acked))
    }

    /// With `--wait`, again if it was refused while a worker had messages.
    fn ends(&mut self, new: &Topology) -> Result<(), TestCaseError> {
        let again = || DrainWait::new(None, StatisticsInterval::default());
        let (mut waiting, mut began_ms) = (again(), self.now_ms);
        for _ in 0..2_000 {
            let planned = plan(new, &self.observe());
            let elapsed = Duration::from_millis(self.now_ms - began_ms);
            match waiting.next(&planned, elapsed) {
                Next::Done if planned.draining.is_empty() => {
                    prop_assert!(!self.broker.objects.queues.keys().any(|it| is_removed(it)));
                    prop_assert!(self.messages.is_empty());
                    return Ok(());
                }
                Next::CarryOut => self.carry_out(new, &planned)?,
                Next::Look(_) => {}
                Next::GiveUp(GaveUp::Refused(_)) | Next::Done => {
                    (waiting, began_ms) = (again(), self.now_ms);
                }
                Next::GiveUp(gave_up) => prop_assert!(false, "{}", gave_up),
            }
            self.pass(2_000 + (self.now_ms - began_ms) / 20)?;
        }
        Err(TestCaseError::fail(format!("no end: {}", plan(new, &self.observe()))))
    }
}
