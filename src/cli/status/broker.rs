//! What the broker says, by its management API.

use std::collections::BTreeMap;

use crate::{
    broker::{Management, ManagementError},
    plan::{
        own_queues::{Hold, Kind, kind, message_ttl},
        snapshot::QueueStats,
    },
    status::{BrokerReading, BusinessQueue, Level},
    topology::Topology,
};

pub(super) async fn read(
    topology: &Topology,
    management: &Management,
) -> Result<BrokerReading, ManagementError> {
    let observed = management.observe().await?;
    let stats = management.queue_stats().await?;
    let mut reading = BrokerReading::default();
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
    Ok(reading)
}

fn level(topology: &Topology, queue: &str, hold: Hold<'_>, counts: Option<&QueueStats>) -> Level {
    let waiting = counts.and_then(|counts| counts.messages);
    match hold {
        Hold::Level(name) => {
            let is_retry = topology.retry.iter().any(|level| level.name() == name);
            let is_first = topology.timeouts.iter().any(|timeout| {
                let mut levels =
                    timeout.after_by_category.values().chain(std::iter::once(&timeout.after));
                levels.any(|level| level.name() == name)
            });
            let generation = queue.rsplit('.').next().filter(|last| *last != name);
            let generation = generation.map_or_else(String::new, |last| format!(" ({last})"));
            Level { name: format!("{name}{generation}"), retry: is_retry && !is_first, waiting }
        }
        Hold::Digit(name) => Level { name: name.to_owned(), retry: false, waiting },
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

/// What the delayed message plugin holds, on the node that answered.
fn plugin(topology: &Topology, delayed: &BTreeMap<String, u64>) -> Option<Level> {
    let waiting = delayed.get(&topology.delayed_exchange()).copied()?;
    Some(Level { name: "plugin".to_owned(), retry: false, waiting: Some(waiting) })
}
