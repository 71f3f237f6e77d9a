//! Whether the broker has what is to be published to. A message for a level that it does not have is confirmed and parked
//! by the alternate exchange, and AMQP does not say so.

use std::collections::BTreeSet;

use super::super::{exit::Failure, setup};
pub(super) use crate::topology::level_routes::LevelRoutes;
use crate::{
    broker::{Link, Management, ManagementError, routes::probed_level_routes},
    config::Settings,
    topology::{Topology, route::Route},
};

/// Looks at the bindings, and where the user may not read them asks for the queues. What can be found out neither way
/// is published: the broker answers for it.
pub(in crate::cli) async fn look(
    settings: &Settings,
    topology: &Topology,
) -> Result<LevelRoutes, Failure> {
    let management = setup::management(settings)?;
    if let Ok(routes) = management.level_routes(topology).await {
        if routes.absent().next().is_some() {
            can_be_there(&management, topology).await?;
        }
        return Ok(routes);
    }
    let link = Link::open(management.address(), "overdue publish: routes").await?;
    let routes = probed_level_routes(&link, topology).await;
    link.close().await;
    Ok(routes)
}

/// An exchange that is not there may be one that this broker cannot have: `overdue apply` would not help.
async fn can_be_there(management: &Management, topology: &Topology) -> Result<(), Failure> {
    match management.has_exchange_types(topology).await {
        Err(error @ ManagementError::NoExchangeType { .. }) => Err(error.into()),
        // Who may not ask hears it from the broker.
        _ => Ok(()),
    }
}

/// The ways of many messages, in the memory of a few: as many as there are queues, and routing keys to one queue.
#[derive(Debug, Default)]
pub(super) struct Ways {
    keys: BTreeSet<String>,
    queues: BTreeSet<String>,
}

impl Ways {
    pub(super) fn of(route: &Route) -> Self {
        let mut ways = Self::default();
        ways.add(route);
        ways
    }

    pub(super) fn add(&mut self, route: &Route) {
        if route.queues.len() <= 1 && !self.keys.contains(&route.routing_key) {
            self.keys.insert(route.routing_key.clone());
        }
        for queue in &route.queues {
            if !self.queues.contains(queue) {
                self.queues.insert(queue.clone());
            }
        }
    }

    /// What the broker lacks, so that a message would be parked.
    pub(super) fn missing(&self, routes: &LevelRoutes) -> Option<String> {
        if let Some(queue) = self.queues.iter().find(|queue| !routes.leads_to(queue)) {
            return Some(format!(
                "the broker routes nothing to `{queue}`, a message would be parked"
            ));
        }
        let key = self.keys.iter().find(|key| !routes.leads_by(key))?;
        let level = key.split('.').next().unwrap_or(key);
        Some(format!(
            "the broker has no level `{level}` that takes `{key}`, a message would be parked"
        ))
    }

    /// Whether all of them would wait on the broker.
    pub(super) fn check(&self, routes: &LevelRoutes) -> Result<(), Failure> {
        self.missing(routes).map_or(Ok(()), |missing| {
            Err(Failure::configuration(format!(
                "{missing}; nothing was sent: run `overdue apply`, or publish with another delay"
            )))
        })
    }
}
