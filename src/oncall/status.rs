//! The reading for `overdue status`: asks database and broker, and the worker at `worker.listen` if one answers.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{
    parked::Lots,
    services::{Services, now},
};
use crate::{
    administration::{Management, ManagementError},
    condition,
    config::Settings,
    diagnostic::{Severity, Target},
    listen::ask::{FAILING, ask},
    parking::Filter,
    plan::{
        own_queues::{DelayQueueKind, Kind, kind, message_ttl},
        snapshot::{QueueStats, Snapshot},
    },
    status::{BrokerReading, BusinessQueue, Failing, Known, Level, Reading, Wrong},
    text::{error_chain, one_line},
    topology::{Timeout, Topology},
    verify,
};

/// Messages up to which a parking lot is read for its reasons; larger ones are left to `overdue parked list`.
const LOOKED_INTO: u64 = 2_000;
/// A worker of this machine answers within milliseconds.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
const REASONS: usize = 5;

/// Count of parked messages, and the most frequent reasons with theirs.
type ParkedReasons = (u64, Vec<(String, u64)>);

/// Objects of the broker, and their counts.
pub(crate) struct Queues {
    pub(crate) observed: Snapshot,
    pub(crate) stats: BTreeMap<String, QueueStats>,
}

/// Makes readings, repeatedly.
pub(crate) struct StatusQuestion {
    services: Arc<Services>,
    /// `worker.listen`
    listen: Option<SocketAddr>,
    /// The reasons at the last change of the count. They are cached because reading hides the messages for a moment.
    parked: Mutex<Option<ParkedReasons>>,
    late_after: Duration,
}

impl StatusQuestion {
    pub(crate) fn new(settings: &Settings, services: Arc<Services>) -> Self {
        Self {
            services,
            listen: settings.worker.listen.address(),
            parked: Mutex::default(),
            late_after: condition::late_after(settings.worker.sweep_grace.as_duration()),
        }
    }

    /// Asks all services; one that is unavailable does not hide the others.
    pub(crate) async fn read(&self) -> Reading {
        self.read_with_queues().await.0
    }

    /// Returns the broker's queues, too, if the broker answers.
    pub(crate) async fn read_with_queues(&self) -> (Reading, Option<Queues>) {
        let Services { topology, effects, store, management, .. } = &*self.services;
        let (database, pauses, broker) = tokio::join!(
            store.lately(effects.values()),
            store.pauses(&topology.name),
            read_broker(topology, management)
        );
        let failing = self.failing().await;
        let (mut broker, queues) = match broker {
            Ok((broker, queues)) => (Ok(broker), Some(queues)),
            Err(error) => (Err(error), None),
        };
        if let Ok(broker) = &mut broker {
            broker.parked_reasons = self.parked_reasons(broker.parked.unwrap_or(0)).await;
        }
        let why = |error: &dyn std::error::Error| one_line(error_chain(error));
        let reading = Reading {
            topology: topology.name.clone(),
            failing,
            database: database.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            broker: broker.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            pauses: pauses.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            counts_age_s: management.statistics_interval().oldest_count().as_secs(),
            late_after_s: self.late_after.as_secs(),
        };
        (reading, queues)
    }

    /// Failures that the worker at `worker.listen` reports; none if no worker answers there.
    async fn failing(&self) -> Vec<Failing> {
        let Some(address) = self.listen else { return Vec::new() };
        let Ok((_, page)) = ask(address, "/readyz", ASK_TIMEOUT).await else { return Vec::new() };
        // The worker there may have another topology.
        let begins = format!("{FAILING} {} ", self.services.topology.name);
        let line = |line: &str| {
            let (work, reason) = line.strip_prefix(&begins)?.split_once(": ")?;
            Some(Failing { work: work.to_owned(), reason: reason.to_owned() })
        };
        page.lines().filter_map(line).collect()
    }

    /// Empty if the parking lot cannot be read, e.g. without the right to.
    async fn parked_reasons(&self, parked: u64) -> Vec<(String, u64)> {
        if !(1..=LOOKED_INTO).contains(&parked) {
            return Vec::new();
        }
        let known = self.parked.lock().clone();
        if let Some((count, reasons)) = known
            && count == parked
        {
            return reasons;
        }
        let Ok(lots) = Lots::open(Arc::clone(&self.services)).await else { return Vec::new() };
        if lots.undisturbed().is_err() {
            return Vec::new();
        }
        let Ok((found, _, seen)) = lots.reasons(&Filter::default()).await else {
            return Vec::new();
        };
        if seen.unseen().is_some() {
            return Vec::new();
        }
        let (reasons, _) = found.most_frequent(REASONS);
        let reasons: Vec<_> =
            reasons.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
        let known = Some((parked, reasons.clone()));
        *self.parked.lock() = known;
        reasons
    }
}

/// The management API's answer.
async fn read_broker(
    topology: &Topology,
    management: &Management,
) -> Result<(BrokerReading, Queues), ManagementError> {
    let mut observed = management.observe().await?;
    let stats = management.stats_and_policies().await?;
    // A user without the right to see them still gets the rest.
    let _seen = management.add_foreign_consumers(topology, &mut observed, &stats).await;
    let wrong = wrong(topology, management.virtual_host(), &observed, &stats);
    let mut reading = BrokerReading { wrong, ..BrokerReading::default() };
    let mut levels = Vec::new();
    for queue in observed.objects.queues.values() {
        let Some(kind) = kind(topology, &observed.objects, queue) else { continue };
        let counts = stats.get(&queue.name);
        match kind {
            Kind::Delay(hold) => {
                let level = level(topology, &queue.name, hold, counts);
                levels.push((message_ttl(queue), level));
            }
            Kind::Business => reading.business.push(business(&queue.name, counts)),
            Kind::Parked => {
                let more = counts.and_then(|counts| counts.messages);
                reading.parked = reading.parked.into_iter().chain(more).reduce(u64::saturating_add);
            }
        }
    }
    levels.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    reading.levels = levels.into_iter().map(|(_, level)| level).collect();
    reading.levels.extend(plugin(topology, &observed.delayed));
    Ok((reading, Queues { observed, stats }))
}

/// The worst finding, as in `overdue verify` and `overdue doctor`.
fn wrong(
    topology: &Topology,
    virtual_host: &str,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Option<Wrong> {
    let found = verify::findings(topology, observed, stats, now());
    let worst = found.first().filter(|worst| worst.severity > Severity::Note)?;
    let rendered = worst.rendered(&Target { topology: &topology.name, virtual_host });
    Some(Wrong {
        is_error: worst.severity == Severity::Error,
        reason: format!("{}: {}", one_line(rendered.subject), one_line(rendered.message)),
        next: rendered.fix.unwrap_or_else(|| "overdue doctor".to_owned()),
    })
}

fn level(
    topology: &Topology,
    queue: &str,
    hold: DelayQueueKind<'_>,
    counts: Option<&QueueStats>,
) -> Level {
    let waiting = counts.and_then(|counts| counts.messages);
    match hold {
        DelayQueueKind::Level(name) => {
            let is_retry = topology.retry.iter().any(|level| level.name() == name);
            let mut first = topology.timeouts.iter().flat_map(Timeout::delays);
            let is_first = first.any(|level| level.name() == name);
            let generation = queue.rsplit('.').next().filter(|last| *last != name);
            let generation = generation.map_or_else(String::new, |last| format!(" ({last})"));
            Level { name: format!("{name}{generation}"), retry: is_retry && !is_first, waiting }
        }
        DelayQueueKind::Digit(name) => Level { name: name.to_owned(), retry: false, waiting },
    }
}

fn business(queue: &str, counts: Option<&QueueStats>) -> BusinessQueue {
    BusinessQueue {
        name: queue.to_owned(),
        ready: counts.and_then(|counts| counts.messages_ready),
        in_hand: counts.and_then(|counts| counts.messages_unacknowledged),
        consumers: counts.and_then(|counts| counts.consumers),
    }
}

/// Messages in the delayed message plugin, on the node that answered.
fn plugin(topology: &Topology, delayed: &BTreeMap<String, u64>) -> Option<Level> {
    let waiting = delayed.get(&topology.delayed_exchange()).copied()?;
    Some(Level { name: "plugin".to_owned(), retry: false, waiting: Some(waiting) })
}
