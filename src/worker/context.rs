//! The state that the tasks of a worker share.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    burst::Burst, closing::Closer, counters::Counters, health::Health, levels::Levels,
    traces_in_hand::TracesInHand,
};
use crate::{
    administration::Management,
    config::{EventsSettings, ScheduleSettings, WorkerSettings},
    messaging::{BrokerAddress, publish::publisher_pool::PublisherPool},
    spans::Spans,
    store::{Store, clock::DatabaseClock, effects::Effect, outbox::PassedOver},
    telemetry,
    timing::Timing,
    topology::{Timeout, Topology},
};

/// A worker: its settings, its connections and the state of its tasks.
pub struct Worker {
    /// Broker of every session.
    pub address: BrokerAddress,
    /// Lists the generations of each queue; without it, the worker checks their names one by one.
    pub management: Option<Management>,
    /// Database of the orders.
    pub store: Store,
    /// Topology that is consumed, with the levels that copies wait in.
    pub topology: Topology,
    /// The timeouts of the topology, and the rule for messages of an exchange that was taken over; each has a queue.
    pub(crate) rules: Vec<Timeout>,
    /// The effects that the topology names, by name.
    pub effects: BTreeMap<String, Effect>,
    /// Closers by effect.
    pub(crate) closers: BTreeMap<String, Closer>,
    /// The database's clock, by which early notices wait.
    pub(crate) clock: DatabaseClock,
    /// Bursts by effect.
    pub(super) bursts: BTreeMap<String, Arc<Burst>>,
    /// Settings of batches, time-outs and sweep.
    pub settings: WorkerSettings,
    /// Settings of the outbox relay.
    pub events_settings: EventsSettings,
    /// Settings of the relay for notices of `schedule()`.
    pub schedule: ScheduleSettings,
    /// Makes a span for each closed order.
    pub(crate) spans: Spans,
    /// Trace contexts of the messages in memory.
    pub(super) traces: TracesInHand,
    /// Counts since the worker was made, over all of its sessions.
    pub counters: Counters,
    /// Whether the worker is ready, and its tasks make progress.
    pub(crate) health: Health,
    /// Notified when a batch wrote events, so that the relay need not poll for them.
    pub events: Notify,
    /// Rows of the outbox that the relay need not read.
    pub(super) passed_over: Mutex<PassedOver>,
    /// Time-outs and intervals, from the broker's address.
    pub(crate) timing: Arc<Timing>,
}

impl Worker {
    /// A new worker, with default settings for events and notices.
    pub fn new(
        address: BrokerAddress,
        management: Option<Management>,
        store: Store,
        topology: Topology,
        effects: BTreeMap<String, Effect>,
        settings: WorkerSettings,
    ) -> Self {
        let (counters, events) = (Counters::default(), Notify::new());
        let health = Health::new(&settings);
        let timing = Arc::clone(&address.timing);
        let closer =
            |effect: &Effect| Closer::new(store.clone(), effect.clone(), &topology, effects.len());
        let closers = effects.iter().map(|(name, effect)| (name.clone(), closer(effect))).collect();
        let bursts = effects.keys().map(|name| (name.clone(), Arc::default())).collect();
        let rules = topology.timeouts.iter().cloned().chain(topology.compat_timeout()).collect();
        // Messages for an exchange that was taken over may have any headers; a due notice has few.
        let others = topology.compat.is_some();
        let address = if others { address } else { address.with_small_frames() };
        Self {
            address,
            management,
            store,
            topology,
            rules,
            effects,
            closers,
            clock: DatabaseClock::default(),
            bursts,
            settings,
            events_settings: EventsSettings::default(),
            schedule: ScheduleSettings::default(),
            spans: Spans::default(),
            traces: TracesInHand::default(),
            counters,
            health,
            events,
            passed_over: Mutex::default(),
            timing,
        }
    }

    /// Replaces the settings of the outbox relay.
    pub fn with_events(self, events_settings: EventsSettings) -> Self {
        Self { events_settings, ..self }
    }

    /// Replaces the exporter of spans.
    pub(crate) fn with_spans(self, spans: Spans) -> Self {
        Self { spans, ..self }
    }

    /// Replaces the settings of the relay for notices of `schedule()`.
    pub fn with_schedule(self, schedule: ScheduleSettings) -> Self {
        Self { schedule, ..self }
    }
}

impl Worker {
    /// Rows of the outbox that the relay need not read.
    pub fn passed_over(&self) -> PassedOver {
        self.passed_over.lock().clone()
    }

    /// Longest time until a deadline for which a notice is kept unacked: at least the lead, because levels expire that early.
    pub(crate) fn longest_hold(&self) -> Duration {
        self.settings.hold.as_duration().max(self.topology.lead.longest())
    }

    /// Whether a timeout with this effect was paused when the pauses were last read.
    pub(super) fn is_paused(&self, effect: &str) -> bool {
        let paused: Vec<_> =
            self.health.paused().into_iter().filter(|it| it.per_second.is_none()).collect();
        let mut of_effect = self.topology.timeouts.iter().filter(|it| it.effect == effect);
        of_effect.any(|timeout| paused.iter().any(|it| it.timeout == timeout.name))
    }

    /// Creates every counter of the worker's timeouts and effects, with zero.
    pub(crate) fn prepare_metrics(&self) {
        let timeouts: Vec<&str> = self.rules.iter().map(|timeout| timeout.name.as_str()).collect();
        let effects: Vec<&str> = self.effects.keys().map(String::as_str).collect();
        let groups: Vec<String> = effects.iter().map(|effect| self.timeouts_of(effect)).collect();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        telemetry::labels::prepare(&timeouts, &groups, &effects);
    }

    /// The timeouts with this effect, joined with `+`: one query asks for the orders of all of them.
    pub(crate) fn timeouts_of(&self, effect: &str) -> String {
        self.timeouts_with(effect).join("+")
    }

    pub(super) fn timeouts_with(&self, effect: &str) -> Vec<&str> {
        let of_effect = self.topology.timeouts.iter().filter(|timeout| timeout.effect == effect);
        of_effect.map(|timeout| timeout.name.as_str()).collect()
    }
}

/// The state that the consumer of one queue has in one session.
pub(crate) struct ConsumerContext {
    pub(crate) worker: Arc<Worker>,
    pub(crate) timeout: Timeout,
    /// The consumed queue: one generation of the timeout's queue.
    pub(super) queue: String,
    pub(super) publishers: Arc<PublisherPool>,
    pub(super) levels: Arc<Levels>,
    /// Limit of unsettled deliveries per channel.
    pub(super) prefetch: u16,
}
