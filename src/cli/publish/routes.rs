//! Whether the broker has the levels that are to be published to. A message for one that it does not have is confirmed
//! and parked by the alternate exchange, and AMQP does not say so.

use std::collections::BTreeSet;

use super::super::{exit::Failure, setup};
use crate::{
    broker::{Link, routes::probed_level_routes},
    config::Settings,
    topology::Topology,
};

/// Looks at the bindings, and where the user may not read them asks for the queues. What can be found out neither way
/// is published: the broker answers for it.
pub(super) async fn check(
    settings: &Settings,
    topology: &Topology,
    keys: &BTreeSet<String>,
) -> Result<(), Failure> {
    let management = setup::management(settings)?;
    let routes = if let Ok(routes) = management.level_routes(topology).await {
        routes
    } else {
        let link = Link::open(management.address(), "overdue publish: routes").await?;
        let routes = probed_level_routes(&link, topology).await;
        link.close().await;
        routes
    };
    let Some(key) = routes.missing().find(|key| keys.contains(*key)) else { return Ok(()) };
    let level = key.split('.').next().unwrap_or(key);
    Err(Failure::configuration(format!(
        "the broker has no level `{level}` that takes `{key}`, a message would be parked; nothing was sent: run \
         `overdue apply`, or publish to another level"
    )))
}
