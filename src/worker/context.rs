//! What the tasks of a worker share.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::Notify;

use super::{
    closing::Closer, copy_publisher::CopyPublisher, counters::Counters, level_watch::LevelWatch,
};
use crate::{
    broker::{BrokerAddress, Management},
    config::WorkerSettings,
    store::{Store, orders::Effect},
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
    /// Batches, time-outs, sweep.
    pub settings: WorkerSettings,
    /// Counted since the worker was made, over all of its sessions.
    pub counters: Counters,
    /// Notified when a batch wrote events, so that the relay need not poll for them.
    pub events: Notify,
}

impl Worker {
    /// A worker that has done nothing yet.
    #[must_use]
    pub fn new(
        address: BrokerAddress,
        management: Option<Management>,
        store: Store,
        topology: Topology,
        effects: BTreeMap<String, Effect>,
        settings: WorkerSettings,
    ) -> Self {
        let (counters, events) = (Counters::default(), Notify::new());
        let closer = |effect: &Effect| Closer::new(store.clone(), effect.clone());
        let closers = effects.iter().map(|(name, effect)| (name.clone(), closer(effect))).collect();
        let rules = topology.timeouts.iter().cloned().chain(topology.compat_timeout()).collect();
        Self {
            address,
            management,
            store,
            topology,
            rules,
            effects,
            closers,
            settings,
            counters,
            events,
        }
    }
}

/// What the consumers of one timeout share in one session.
pub(crate) struct ConsumerContext {
    pub(crate) worker: Arc<Worker>,
    pub(crate) timeout: Timeout,
    pub(super) copies: Arc<CopyPublisher>,
    pub(super) levels: Arc<LevelWatch>,
    /// Unsettled deliveries per channel.
    pub(super) prefetch: u16,
}
