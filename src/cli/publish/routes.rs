//! Whether the broker has the levels that are to be published to. A message for one that it does not have is confirmed
//! and parked by the alternate exchange, and AMQP does not say so.

use std::collections::BTreeSet;

use super::super::{exit::Failure, setup};
use crate::{
    broker::Link,
    config::Settings,
    objects::{Objects, routing},
    topology::Topology,
    worker::queues,
};

/// Looks at the bindings, and where the user may not read them asks for the queues. What can be found out neither way
/// is published: the broker answers for it.
pub(super) async fn check(
    settings: &Settings,
    topology: &Topology,
    keys: &BTreeSet<String>,
) -> Result<(), Failure> {
    let management = setup::management(settings)?;
    let missing: Vec<&String> = if let Ok(seen) = management.observe().await {
        keys.iter().filter(|key| is_parked(&seen.objects, topology, key)).collect()
    } else {
        let link = Link::open(management.address(), "overdue publish: routes").await?;
        let missing = without_queue(&link, topology, keys).await;
        link.close().await;
        missing
    };
    let Some(first) = missing.first() else { return Ok(()) };
    let level = level_of(first);
    Err(Failure::configuration(format!(
        "the broker has no level `{level}` that takes `{first}`, a message would be parked; nothing was sent: run \
         `overdue apply`, or publish to another level"
    )))
}

/// Whether nothing but the parking lot would take it. An exchange that is missing is what publishing itself says best.
fn is_parked(objects: &Objects, topology: &Topology, key: &str) -> bool {
    let routed = routing::route(objects, &topology.entry_exchange(), key);
    let parked = topology.parked_queue();
    routed.missing.is_empty()
        && objects.exchanges.contains_key(&topology.entry_exchange())
        && routed.queues.iter().all(|queue| *queue == parked)
}

/// Levels without a queue of their name or of a later generation, as far as the broker says.
async fn without_queue<'a>(
    link: &Link,
    topology: &Topology,
    keys: &'a BTreeSet<String>,
) -> Vec<&'a String> {
    let mut missing = Vec::new();
    for key in keys {
        let Some(level) = topology.level(level_of(key)) else { continue };
        let generations = queues::probed(link, &topology.delay_queue(level)).await;
        if generations.is_ok_and(|found| found.is_empty()) {
            missing.push(key);
        }
    }
    missing
}

fn level_of(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}
