//! A broker with what waits in it, the time, and counts that are as late as the management API's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use overdue::internals::{
    plan::{
        Change, Clock, CountReport, Plan, Snapshot, StatisticsInterval, diff, is_of, number_of,
    },
    timing::Timing,
    topology::{Topology, level_routes::LevelRoutes, route::Delay},
};
use proptest::prelude::TestCaseError;

use super::administrator::Fault;
use crate::broker_model::{DELAYED, apply, dead_letter_exchange, routed};

/// Queues report, and their reports are collected, at one of the ten quanta of the interval.
const QUANTUM_MS: u64 = 500;
const QUANTA: u64 = 10;
/// Spreads the numbers of messages: Fibonacci hashing.
const HASHING: u64 = 0x9e37_79b9_7f4a_7c15;
/// A level may hand a message on this much later than by its TTL.
const LATE_AT_MOST_MS: u64 = 20_000;
/// A notice that is published less than 20 s after the mark of a removed timeout still comes to its queue.
const TOLD_LATE_S: u64 = 20;
/// The queue of a removed timeout stays bound for the longest way and these seconds: both, and until late counts are there.
const STAYS_S: u64 = 51;
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
    /// Whether it is to come out in its business queue, and not in the parking lot: when a level took it, the removal of its timeout
    /// had not begun, or a moment ago.
    owed: bool,
    /// How much later than by its TTL it may leave a level.
    may_be_late_ms: u64,
}

/// What a queue says of itself, in one report.
#[derive(Clone, Debug, Default)]
struct Report {
    messages: u64,
    number: u64,
}

pub(super) struct Broker {
    pub(super) there: Snapshot,
    pub(super) now_ms: u64,
    messages: Vec<Message>,
    published: u64,
    reported: BTreeMap<String, Report>,
    collected: BTreeMap<String, Report>,
    /// Decides when which queue reports.
    phases: u64,
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
            reported: BTreeMap::new(),
            collected: BTreeMap::new(),
            phases,
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
        let owed = self.is_promised(timeout, &comes_out);
        let message = Message {
            at: String::new(),
            key: route.routing_key.clone(),
            timeout: timeout.to_owned(),
            hash,
            until_ms: 0,
            unacked: false,
            not_before_ms: self.now_ms + millis(route.holds),
            owed,
            may_be_late_ms: LATE_AT_MOST_MS,
        };
        self.enter(&route.exchange, route.x_delay, message).map(drop)
    }

    /// Whether what comes out in these queues is for a timeout that is there, or was a moment ago.
    fn is_promised(&self, timeout: &str, queues: &BTreeSet<String>) -> bool {
        let is_told = |since_s| self.now_s() < since_s + TOLD_LATE_S;
        let leaves = |queue: &String| self.there.objects.leaving(queue);
        queues.iter().any(|it| Self::is_of(timeout, it) && leaves(it).is_none_or(is_told))
    }

    fn now_s(&self) -> u64 {
        self.now_ms / 1_000
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
        self.messages.swap_remove(index);
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
        let message = self.messages[it].clone();
        let out = topology_end(&self.there, &route.exchange);
        let comes_out = self.reached(&out, &route.routing_key, message.hash);
        let copy = Message {
            key: route.routing_key.clone(),
            not_before_ms: self.now_ms + millis(route.holds),
            unacked: false,
            owed: message.owed && self.is_promised(&message.timeout, &comes_out),
            ..message
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

    /// A level hands on nothing for a while.
    pub(super) fn stall(&mut self, nth: usize, quanta: u64) {
        let waits = |it: &Message| it.until_ms != u64::MAX;
        let Some(it) = self.chosen(nth, waits) else { return };
        let at = self.messages[it].at.clone();
        for message in self.messages.iter_mut().filter(|it| it.at == at) {
            let late_ms = message.may_be_late_ms.min(quanta * QUANTUM_MS);
            message.may_be_late_ms -= late_ms;
            message.until_ms += late_ms;
        }
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

    /// The rest of a plan's reading, later: the time, and what the queues themselves say is ready.
    pub(super) fn look_closer(
        &self,
        topology: &Topology,
        mut observed: Snapshot,
        fault: Fault,
    ) -> Plan {
        let nothing = BTreeSet::new();
        let is_over = fault == Fault::TimeIsOver;
        let now_s = if is_over { u64::MAX } else { self.now_s() };
        observed.clock = Some(Clock { now_s, stays_s: STAYS_S });
        if fault == Fault::ForgetsWhatLeadsThere {
            let wanted = topology.objects().queues;
            let is_wanted = |it: &String| wanted.keys().any(|base| number_of(base, it).is_some());
            let queues = observed.objects.queues.iter_mut();
            for (_, it) in queues.filter(|(name, _)| name.contains(".ladder.") && !is_wanted(name))
            {
                it.arguments.insert("x-dead-letter-exchange".to_owned(), "t.ladder.nowhere".into());
            }
        }
        for queue in diff(topology, &observed, &nothing).leaving() {
            if observed.objects.queues.contains_key(&queue) {
                observed.at_least(&queue, self.ready(&queue));
            }
        }
        if fault == Fault::DeletesUncounted {
            observed.messages.values_mut().for_each(|messages| *messages = 0);
        }
        diff(topology, &observed, &nothing)
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
        }
        self.there.clock = Some(Clock { now_s: self.now_s(), stays_s: STAYS_S });
        apply(&mut self.there, change);
        Ok(())
    }

    pub(super) fn is_bound(&self, queue: &str) -> bool {
        let mut bindings = self.there.objects.bindings.iter();
        bindings.any(|it| it.to_queue && it.destination == queue && it.mark_of().is_none())
    }
}

/// Where what enters at `exchange` is routed to its business queue.
fn topology_end(there: &Snapshot, exchange: &str) -> String {
    let delays = there.objects.exchanges.get(exchange).is_some_and(|it| it.kind == DELAYED);
    if delays { exchange.to_owned() } else { format!("{NAME}.dlx") }
}
