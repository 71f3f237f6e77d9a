//! A broker with what waits in it, the time, and counts that are as late as the management API's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use overdue::internals::{
    objects::{Acks, Binding},
    plan::{
        Change, Clock, CountReport, Plan, Snapshot, StatisticsInterval, diff, is_of, number_of,
    },
    timing::Timing,
    topology::{Topology, level_routes::LevelRoutes, route::Delay},
};
use proptest::prelude::TestCaseError;

use crate::broker_model::{DELAYED, apply, dead_letter_exchange, routed};

/// Queues report, and their reports are collected, at one of the ten quanta of the interval.
const QUANTUM_MS: u64 = 500;
const QUANTA: u64 = 10;
/// Spreads the numbers of messages: Fibonacci hashing.
const HASHING: u64 = 0x9e37_79b9_7f4a_7c15;
/// What every topology here is called.
pub(super) const NAME: &str = "t";

/// A notice, or a copy of one.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// A queue, or an exchange of the plugin.
    at: String,
    key: String,
    timeout: String,
    /// Of its `message-id`: by it the exchange in front of shards chooses one.
    hash: u64,
    /// When it leaves that place by its TTL.
    until_ms: u64,
    unacked: bool,
    /// It is early in a business queue before that.
    not_before_ms: u64,
    /// Whether it is to come out in its business queue, and not in the parking lot: when a level took it, nobody had
    /// begun to remove its timeout.
    owed: bool,
}

/// What a queue says of itself, in one report.
#[derive(Clone, Debug, Default)]
struct Report {
    messages: u64,
    acked: u64,
    number: u64,
}

pub(super) struct Broker {
    pub(super) there: Snapshot,
    pub(super) now_ms: u64,
    messages: Vec<Message>,
    published: u64,
    acked: BTreeMap<String, u64>,
    reported: BTreeMap<String, Report>,
    collected: BTreeMap<String, Report>,
    /// Decides when which queue reports.
    phases: u64,
    /// Timeouts of the topology that was last begun to be applied.
    pub(super) wanted: BTreeSet<String>,
}

/// How long until counts are surely newer than an event.
pub(super) fn surely_settle() -> Duration {
    StatisticsInterval::default().surely_settle(Timing::default().least_statistics_interval)
}

fn violated(what: impl Into<String>) -> Result<(), TestCaseError> {
    Err(TestCaseError::fail(what.into()))
}

fn is_lot(queue: &str) -> bool {
    number_of(&format!("{NAME}.parked"), queue).is_some()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a test's time")
}

impl Broker {
    pub(super) fn new(topology: &Topology, phases: u64) -> Self {
        Self {
            there: Snapshot::of(topology),
            now_ms: 1_000_000_000,
            messages: Vec::new(),
            published: 0,
            acked: BTreeMap::new(),
            reported: BTreeMap::new(),
            collected: BTreeMap::new(),
            phases,
            wanted: topology.timeouts.iter().map(|it| it.name.clone()).collect(),
        }
    }

    fn is_of(timeout: &str, queue: &str) -> bool {
        is_of(&format!("{NAME}.{timeout}"), queue)
    }

    fn is_delaying(&self, exchange: &str) -> bool {
        self.there.objects.exchanges.get(exchange).is_some_and(|it| it.kind == DELAYED)
    }

    /// The queues that something comes to; none if an exchange is not there, or nothing takes it.
    fn reached(&self, exchange: &str, key: &str, hash: u64) -> BTreeSet<String> {
        routed(&self.there.objects, exchange, key, Some(hash)).unwrap_or_default()
    }

    // What publishers and workers do.

    /// An order service that knows `topology` publishes; what is refused or returned it has itself.
    pub(super) fn publish(
        &mut self,
        topology: &Topology,
        timeout: &str,
        delay: Duration,
    ) -> Result<(), TestCaseError> {
        let Ok(route) = topology.route(timeout, &Delay::exactly(delay)) else { return Ok(()) };
        let out = topology_end(&self.there, &route.exchange);
        self.published += 1;
        let hash = self.published.wrapping_mul(HASHING) >> 32;
        let comes_out = self.reached(&out, &route.routing_key, hash);
        // The plugin drops what it has no route for in the end: nobody may publish there before the plan is carried out.
        if self.is_delaying(&route.exchange) && comes_out.is_empty() {
            return Ok(());
        }
        let owed = self.wanted.contains(timeout)
            && comes_out.iter().any(|queue| Self::is_of(timeout, queue));
        let message = Message {
            at: String::new(),
            key: route.routing_key.clone(),
            timeout: timeout.to_owned(),
            hash,
            until_ms: 0,
            unacked: false,
            not_before_ms: self.now_ms + millis(route.holds),
            owed,
        };
        self.enter(&route.exchange, route.x_delay, message).map(drop)
    }

    /// Whether the broker has it now.
    fn enter(
        &mut self,
        exchange: &str,
        x_delay: Option<u32>,
        message: Message,
    ) -> Result<bool, TestCaseError> {
        if self.is_delaying(exchange) {
            let until_ms = self.now_ms + u64::from(x_delay.unwrap_or_default());
            self.messages.push(Message { at: exchange.to_owned(), until_ms, ..message });
            return Ok(true);
        }
        let queues = self.reached(exchange, &message.key, message.hash);
        // Parked at once: what is published for a level that is not there.
        let owed = message.owed && !queues.iter().any(|it| is_lot(it));
        for queue in &queues {
            self.arrive(queue, Message { owed, ..message.clone() })?;
        }
        Ok(!queues.is_empty())
    }

    fn chosen(&self, nth: usize, of: impl Fn(&Message) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.messages.len()).filter(|it| of(&self.messages[*it])).collect();
        (!fitting.is_empty()).then(|| fitting[nth % fitting.len()])
    }

    fn in_business(message: &Message) -> bool {
        Self::is_of(&message.timeout, &message.at)
    }

    pub(super) fn take(&mut self, nth: usize) {
        if let Some(it) = self.chosen(nth, |it| !it.unacked && Self::in_business(it)) {
            self.messages[it].unacked = true;
        }
    }

    /// Its order is closed.
    pub(super) fn ack(&mut self, nth: usize) {
        if let Some(it) = self.chosen(nth, |it| it.unacked) {
            self.settled(it);
        }
    }

    fn settled(&mut self, index: usize) {
        let message = self.messages.swap_remove(index);
        *self.acked.entry(message.at).or_default() += 1;
    }

    /// Its worker has lost the connection.
    pub(super) fn give_back(&mut self, nth: usize) {
        if let Some(it) = self.chosen(nth, |it| it.unacked) {
            self.messages[it].unacked = false;
        }
    }

    /// A worker with `topology` has it wait for more: the copy is confirmed before the ack. Where no level takes it, the worker
    /// keeps it; where the exchange is gone, its session ends.
    pub(super) fn put_back(
        &mut self,
        nth: usize,
        topology: &Topology,
        rest: Duration,
    ) -> Result<(), TestCaseError> {
        let knows = |it: &Message| topology.timeout(&it.timeout).is_some();
        let Some(it) = self.chosen(nth, |it| it.unacked && knows(it)) else { return Ok(()) };
        let timeout = topology.timeout(&self.messages[it].timeout).expect("it is known");
        let routes = LevelRoutes::of_objects(topology, &self.there.objects);
        let Ok(route) = routes.wait(topology, timeout, rest) else { return Ok(()) };
        if !self.there.objects.exchanges.contains_key(&route.exchange) {
            self.messages[it].unacked = false;
            return Ok(());
        }
        let copy = Message {
            key: route.routing_key.clone(),
            not_before_ms: self.now_ms + millis(route.holds),
            unacked: false,
            ..self.messages[it].clone()
        };
        if self.enter(&route.exchange, route.x_delay, copy)? {
            self.settled(it);
        }
        Ok(())
    }

    /// A worker parks it.
    pub(super) fn park(&mut self, nth: usize) -> Result<(), TestCaseError> {
        let Some(it) = self.chosen(nth, |it| it.unacked) else { return Ok(()) };
        let copy = Message { owed: false, unacked: false, ..self.messages[it].clone() };
        if self.enter(&format!("{NAME}.park"), None, copy)? {
            self.settled(it);
        }
        Ok(())
    }

    /// Workers close the orders of everything that is there, and a person empties the parking lots.
    pub(super) fn work_all(&mut self) {
        while let Some(it) = self.chosen(0, |it| Self::in_business(it) || is_lot(&it.at)) {
            self.settled(it);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    // What the broker does as time passes.

    pub(super) fn pass_a_quantum(&mut self) -> Result<(), TestCaseError> {
        let end_ms = self.now_ms + QUANTUM_MS;
        let leaves = |it: &Message| it.until_ms <= end_ms;
        loop {
            let leaving = (0..self.messages.len()).filter(|it| leaves(&self.messages[*it]));
            let Some(first) = leaving.min_by_key(|it| self.messages[*it].until_ms) else { break };
            let message = self.messages.remove(first);
            self.now_ms = message.until_ms;
            let dead_letters = || dead_letter_exchange(&self.there.objects, &message.at);
            let exchange = if self.is_delaying(&message.at) {
                Some(message.at.as_str())
            } else {
                dead_letters()
            };
            let queues =
                exchange.map(|it| self.reached(it, &message.key, message.hash)).unwrap_or_default();
            if queues.is_empty() {
                violated(format!("lost when due, no queue takes it: {message:?}"))?;
            }
            for queue in queues {
                self.arrive(&queue, message.clone())?;
            }
        }
        self.now_ms = end_ms;
        self.count();
        Ok(())
    }

    fn arrive(&mut self, queue: &str, message: Message) -> Result<(), TestCaseError> {
        let until_ms = match self.there.objects.queues[queue].message_ttl_ms() {
            Some(ttl) => self.now_ms + u64::try_from(ttl).expect("a TTL"),
            None if is_lot(queue) && message.owed => {
                return violated(format!("parked, and its timeout was there: {message:?}"));
            }
            None if is_lot(queue) => u64::MAX,
            None if !Self::is_of(&message.timeout, queue) => {
                return violated(format!("came to {queue}: {message:?}"));
            }
            None if self.now_ms < message.not_before_ms => {
                let early_ms = message.not_before_ms - self.now_ms;
                return violated(format!("{early_ms} ms early in {queue}: {message:?}"));
            }
            None => u64::MAX,
        };
        self.messages.push(Message { at: queue.to_owned(), until_ms, ..message });
        Ok(())
    }

    fn count(&mut self) {
        let quantum = self.now_ms / QUANTUM_MS;
        let is_time = |phase: u64| quantum % QUANTA == phase % QUANTA;
        let (collects, first) = (is_time(self.phases), self.phases.is_multiple_of(2));
        if collects && first {
            self.collected = self.reported.clone();
        }
        for (nth, queue) in (1_u32..).zip(self.there.objects.queues.keys()) {
            if is_time(self.phases.rotate_right(nth)) {
                let report = self.reported.entry(queue.clone()).or_default();
                let messages = self.messages.iter().filter(|it| it.at == *queue).count();
                report.messages = u64::try_from(messages).expect("few");
                report.acked = self.acked.get(queue).copied().unwrap_or_default();
                report.number += 1;
            }
        }
        if collects && !first {
            self.collected = self.reported.clone();
        }
    }

    // What an administrator sees.

    /// The objects as they are, and the counts that were collected last.
    pub(super) fn observe(&self) -> Snapshot {
        let queues = self.there.objects.queues.keys();
        let counted = queues.filter_map(|it| Some((it.clone(), self.collected.get(it)?.messages)));
        let delayed = self.there.objects.exchanges.keys().filter(|it| self.is_delaying(it));
        let held =
            |at: &String| self.messages.iter().filter(|it| it.at == *at).count().try_into().ok();
        Snapshot {
            objects: self.there.objects.clone(),
            messages: counted.collect(),
            delayed: delayed.filter_map(|it| Some((it.clone(), held(it)?))).collect(),
            consumed: self.there.objects.queues.keys().cloned().collect(),
            ..Snapshot::default()
        }
    }

    /// The rest of a plan's reading, later: acks, the time, and what the queues themselves say is ready.
    pub(super) fn look_closer(&self, topology: &Topology, mut observed: Snapshot) -> Plan {
        let nothing = BTreeSet::new();
        let plan = diff(topology, &observed, &nothing);
        let leaving = plan.leaving();
        if leaving.is_empty() {
            return plan;
        }
        let mut of_interest = leaving.clone();
        if plan.removes_timeouts() {
            let marked = |it: &&String| {
                let mut bindings = observed.objects.bindings.iter();
                bindings.any(|binding| binding.destination == **it && leaves(binding))
            };
            let acked = leaving.iter().filter(marked);
            let acked: BTreeMap<String, Acks> =
                acked.filter_map(|it| Some((it.clone(), self.acked(it)?))).collect();
            observed.acked = acked;
            of_interest.extend(observed.objects.queues.keys().cloned());
            let clock =
                Clock { now_s: self.now_ms / 1_000, counts_settle_s: surely_settle().as_secs() };
            observed.clock = Some(clock);
        }
        for queue in of_interest {
            if observed.objects.queues.contains_key(&queue) {
                observed.at_least(&queue, self.ready(&queue));
            }
        }
        diff(topology, &observed, &nothing)
    }

    pub(super) fn acked(&self, queue: &str) -> Option<Acks> {
        let quorum = self.there.objects.queues.get(queue)?.kind == "quorum";
        let count = self.collected.get(queue).map(|it| it.acked).unwrap_or_default();
        quorum.then_some(Acks { count, term: 1 })
    }

    pub(super) fn ready(&self, queue: &str) -> u64 {
        let ready = self.messages.iter().filter(|it| it.at == queue && !it.unacked);
        u64::try_from(ready.count()).expect("few")
    }

    pub(super) fn counted(&self, queue: &str) -> Option<u64> {
        self.collected.get(queue).map(|it| it.messages)
    }

    pub(super) fn report(&self, queue: &str) -> Option<CountReport> {
        let reductions = self.collected.get(queue)?.number;
        let quorum = self.there.objects.queues.get(queue)?.kind == "quorum";
        quorum.then(|| CountReport { leader: "rabbit@a".to_owned(), reductions })
    }

    /// Carries a change out; what is deleted has to be empty.
    pub(super) fn change(&mut self, change: &Change) -> Result<(), TestCaseError> {
        let gone = match change {
            Change::DeleteQueue { queue, .. } => Some(queue),
            Change::DeleteExchange { exchange } if self.is_delaying(exchange) => Some(exchange),
            _ => None,
        };
        if let Some(lost) = gone.and_then(|gone| self.messages.iter().find(|it| it.at == *gone)) {
            violated(format!("lost with its queue or exchange: {lost:?}"))?;
        }
        // Of the broker there are the objects; what is counted is here.
        self.there.messages = [].into();
        self.there.delayed = [].into();
        if let Change::DeleteQueue { queue, .. } = change {
            self.there.messages.insert(queue.clone(), 0);
            self.reported.remove(queue);
            self.acked.remove(queue);
        }
        if let Change::Leave(mark) = change {
            let acked = self.acked(&mark.destination);
            self.there.acked =
                acked.map(|acked| (mark.destination.clone(), acked)).into_iter().collect();
            self.there.clock = Some(Clock { now_s: self.now_ms / 1_000, counts_settle_s: 11 });
        }
        apply(&mut self.there, change);
        Ok(())
    }

    pub(super) fn is_bound(&self, queue: &str) -> bool {
        let mut bindings = self.there.objects.bindings.iter();
        bindings.any(|it| it.to_queue && it.destination == queue && it.mark_of().is_none())
    }
}

fn leaves(binding: &Binding) -> bool {
    binding.mark_of().is_some() && binding.routing_key.contains("/leaving/")
}

/// Where what enters at `exchange` is routed to its business queue.
fn topology_end(there: &Snapshot, exchange: &str) -> String {
    let delays = there.objects.exchanges.get(exchange).is_some_and(|it| it.kind == DELAYED);
    if delays { exchange.to_owned() } else { format!("{NAME}.dlx") }
}
