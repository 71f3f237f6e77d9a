//! What the tasks of a worker share.

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
    messaging::{BrokerAddress, publish::outlet::Outlet},
    spans::Spans,
    store::{Store, clock::DatabaseClock, effects::Effect, outbox::PassedOver},
    telemetry,
    timing::Timing,
    topology::{Timeout, Topology},
};

/// Everything a worker needs.
pub struct Worker {
    /// Each session opens its connections here.
    pub address: BrokerAddress,
    /// Lists the generations of each queue; without it they are looked for one by one.
    pub management: Option<Management>,
    /// Where orders are closed.
    pub store: Store,
    /// What is consumed, and the levels messages are put back through.
    pub topology: Topology,
    /// The timeouts of the topology, and the rule of messages for an exchange that was taken over, each with a queue.
    pub(crate) rules: Vec<Timeout>,
    /// The SQL of each effect the topology names.
    pub effects: BTreeMap<String, Effect>,
    /// Runs them, one per effect.
    pub(crate) closers: BTreeMap<String, Closer>,
    /// The database's clock, by which early notices are held.
    pub(crate) clock: DatabaseClock,
    /// One per effect.
    pub(super) bursts: BTreeMap<String, Arc<Burst>>,
    /// Batches, time-outs, sweep.
    pub settings: WorkerSettings,
    /// Whether and how the outbox is published.
    pub events_settings: EventsSettings,
    /// Whether what `schedule()` wrote is published.
    pub schedule: ScheduleSettings,
    /// A span for each order that is closed.
    pub(crate) spans: Spans,
    /// Of the messages that its consumers have.
    pub(super) traces: TracesInHand,
    /// Counted since the worker was made, over all of its sessions.
    pub counters: Counters,
    /// Whether it is ready, and its tasks go on.
    pub(crate) health: Health,
    /// Notified when a batch wrote events, so that the relay need not poll for them.
    pub events: Notify,
    /// What its relay need not read of the outbox.
    pub(super) passed_over: Mutex<PassedOver>,
    /// How long it waits for others, and how often it looks: that of its broker's address.
    pub(crate) timing: Arc<Timing>,
}

impl Worker {
    /// A worker that has done nothing yet.
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
        // What was published for an exchange that was taken over may have any headers; a due notice has few.
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

    /// The same worker with other settings for events.
    pub fn with_events(self, events_settings: EventsSettings) -> Self {
        Self { events_settings, ..self }
    }

    /// The same worker, which makes spans.
    pub(crate) fn with_spans(self, spans: Spans) -> Self {
        Self { spans, ..self }
    }

    /// The same worker with other settings for what `schedule()` writes.
    pub fn with_schedule(self, schedule: ScheduleSettings) -> Self {
        Self { schedule, ..self }
    }
}

impl Worker {
    /// What need not be read of the outbox.
    pub fn passed_over(&self) -> PassedOver {
        self.passed_over.lock().clone()
    }

    /// The longest rest of a deadline that is waited for with the message in hand: levels let go no earlier than that.
    pub(crate) fn longest_hold(&self) -> Duration {
        self.settings.hold.as_duration().max(self.topology.lead.longest())
    }

    /// Whether a timeout with this effect is paused, as of the last look.
    pub(super) fn is_paused(&self, effect: &str) -> bool {
        let paused: Vec<_> =
            self.health.paused().into_iter().filter(|it| it.per_second.is_none()).collect();
        let mut of_effect = self.topology.timeouts.iter().filter(|it| it.effect == effect);
        of_effect.any(|timeout| paused.iter().any(|it| it.timeout == timeout.name))
    }

    /// Makes every counter of its timeouts and effects, with zero.
    pub(crate) fn prepare_metrics(&self) {
        let timeouts: Vec<&str> = self.rules.iter().map(|timeout| timeout.name.as_str()).collect();
        let effects: Vec<&str> = self.effects.keys().map(String::as_str).collect();
        let groups: Vec<String> = effects.iter().map(|effect| self.timeouts_of(effect)).collect();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        telemetry::labels::prepare(&timeouts, &groups, &effects);
    }

    /// The timeouts with this effect, joined with `+`: the database is asked for the orders of all of them at once.
    pub(crate) fn timeouts_of(&self, effect: &str) -> String {
        self.timeouts_with(effect).join("+")
    }

    /// The timeouts with this effect.
    pub(super) fn timeouts_with(&self, effect: &str) -> Vec<&str> {
        let of_effect = self.topology.timeouts.iter().filter(|timeout| timeout.effect == effect);
        of_effect.map(|timeout| timeout.name.as_str()).collect()
    }
}

/// What the consumers of one timeout share in one session.
pub(crate) struct ConsumerContext {
    pub(crate) worker: Arc<Worker>,
    pub(crate) timeout: Timeout,
    /// The queue that is consumed: one generation of the timeout's.
    pub(super) queue: String,
    pub(super) outlet: Arc<Outlet>,
    pub(super) levels: Arc<Levels>,
    /// Unsettled deliveries per channel.
    pub(super) prefetch: u16,
}
