//! The worker: consumes what is due, closes it in the database, settles. Commit always precedes settle.
//!
//! A session is one set of connections. Whatever breaks ends the session: everything unsettled goes back to
//! its queue, and after a back-off a new session begins. Nothing of an outage burns a retry or parks a message.

pub mod backoff;
pub mod batch;
pub mod closing;
pub mod disposition;
mod limits;
pub(crate) mod queues;
pub mod receive;
pub mod relay;
pub mod settle;
pub mod sweep;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinSet};

use crate::{
    broker::{
        BrokerAddress, ConnectError, Link, Management, PublishError, Publisher,
        consume::{ConsumeError, Subscription},
    },
    config::WorkerSettings,
    shutdown::Stop,
    store::{Store, StoreError, orders::Effect},
    telemetry,
    text::error_chain,
    topology::{Timeout, Topology},
};
use backoff::Backoff;

/// A session that lasted so long was a good one: the next back-off starts small again.
const GOOD_SESSION: Duration = Duration::from_secs(10);

/// Everything a worker needs.
pub struct Worker {
    /// The broker.
    pub address: BrokerAddress,
    /// What tells which generations of a queue there are; without it they are looked for one by one.
    pub management: Option<Management>,
    /// The database.
    pub store: Store,
    /// What is consumed, and the levels messages are put back through.
    pub topology: Topology,
    /// The SQL of each effect the topology names.
    pub effects: BTreeMap<String, Effect>,
    /// Batches, time-outs, sweep.
    pub settings: WorkerSettings,
    /// What was done so far.
    pub tally: Tally,
    /// Rung when a batch wrote events, so that the relay need not poll.
    pub events: Notify,
}

/// What a worker has done, counted as it happens.
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) closed: AtomicU64,
    pub(crate) already_final: AtomicU64,
    pub(crate) put_back: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) parked: AtomicU64,
    pub(crate) swept: AtomicU64,
}

/// A reading of a [`Tally`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Orders this worker brought to their final state because of a message.
    pub closed: u64,
    /// Messages whose order was settled already.
    pub already_final: u64,
    /// Messages that came early and wait again.
    pub put_back: u64,
    /// Messages tried again through a retry level.
    pub retried: u64,
    /// Messages in the parking lot.
    pub parked: u64,
    /// Orders the sweep closed.
    pub swept: u64,
}

impl Tally {
    /// What was done until now.
    #[must_use]
    pub fn read(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            closed: get(&self.closed),
            already_final: get(&self.already_final),
            put_back: get(&self.put_back),
            retried: get(&self.retried),
            parked: get(&self.parked),
            swept: get(&self.swept),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Why a session ended before a stop was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionEnd {
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A subscription ended.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A message could not be put back or parked.
    #[error("failed to put a message back")]
    Publish(#[from] PublishError),
    /// The database did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `overdue apply` has put another queue in the place of one.
    #[error("the queues have changed")]
    QueuesChanged,
    /// A task of the session panicked: a defect of this program.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
}

/// Works until a stop is asked for; sessions that end before are followed by others.
pub async fn run(worker: &Arc<Worker>, stop: &Stop) {
    let mut backoff = Backoff::default();
    while !stop.is_requested() {
        let began = Instant::now();
        let Err(end) = session(worker, stop).await else { break };
        if began.elapsed() >= GOOD_SESSION {
            backoff = Backoff::default();
        }
        match end {
            SessionEnd::QueuesChanged => {
                telemetry::queues_changed();
                continue;
            }
            SessionEnd::Store(_) => worker.store.drop_connections(),
            _ => {}
        }
        let pause = backoff.pause();
        telemetry::session_ended(&error_chain(&end), pause);
        tokio::select! {
            () = stop.requested() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    telemetry::stopped(&worker.tally.read());
}

async fn session(worker: &Arc<Worker>, stop: &Stop) -> Result<(), SessionEnd> {
    // The database first: without it there is no point in taking messages.
    worker.store.ping().await?;
    let link = Link::open(&worker.address, "overdue worker: consuming").await?;
    let link = Arc::new(link);
    let publisher = Publisher::connect(&worker.address, "overdue worker: publishing").await?;
    let session = stop.child();
    let mut tasks = JoinSet::new();
    let mut consumed = BTreeSet::new();
    for timeout in &worker.topology.timeouts {
        for queue in queues::of(worker, &link, timeout).await? {
            let prefetch = limits::prefetch(&worker.settings);
            let subscription = Subscription::open(&link, &queue, prefetch).await?;
            consumed.insert(queue);
            let lane = Lane {
                worker: Arc::clone(worker),
                timeout: timeout.clone(),
                publisher: publisher.clone(),
            };
            tasks.spawn(receive::receive(lane, subscription, session.clone()));
        }
    }
    let names: Vec<String> = consumed.iter().cloned().collect();
    tasks.spawn(queues::watch(Arc::clone(worker), Arc::clone(&link), consumed, session.clone()));
    tasks.spawn(sweep::sweep(Arc::clone(worker), session.clone()));
    tasks.spawn(relay::relay(Arc::clone(worker), session.clone()));
    telemetry::worker_ready(&names, &worker.address.to_string(), worker.store.place());

    let mut result = Ok(());
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|panic| Err(SessionEnd::Panicked(panic.to_string())));
        if done.is_err() {
            session.request();
            // The first reason is the cause; the others follow from it.
            result = result.and(done);
        }
    }
    drop(publisher);
    if let Some(link) = Arc::into_inner(link) {
        link.close().await;
    }
    result
}

/// One timeout in one session.
pub(crate) struct Lane {
    pub(crate) worker: Arc<Worker>,
    pub(crate) timeout: Timeout,
    pub(crate) publisher: Publisher,
}
