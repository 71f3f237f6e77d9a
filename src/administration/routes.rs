//! Asking a broker which levels it routes to.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use serde::de::IgnoredAny;

use super::{
    Management, ManagementError,
    objects::{BindingInfo, ExchangeInfo},
};
use crate::{
    messaging::{Link, passive},
    objects::{Binding, Exchange, Objects},
    topology::{Topology, level_routes::LevelRoutes},
};

/// An exchange that every virtual host has.
const EVERYWHERE: &str = "amq.direct";

impl Management {
    /// Which of the topology's levels the broker routes to, by its exchanges and bindings; changes nothing.
    ///
    /// It holds for the moment of the answer: ask again after `overdue apply`, or every few seconds. It asks for the
    /// exchanges that notices can pass, one by one: what else the virtual host has makes it no slower.
    /// Permission needed: the `management` tag.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn level_routes(&self, topology: &Topology) -> Result<LevelRoutes, ManagementError> {
        let mut objects = Objects::default();
        let mut asked = BTreeSet::new();
        let entries = topology.entries().into_iter().map(|entry| entry.exchange);
        let mut next: BTreeSet<String> = entries.collect();
        while !next.is_empty() {
            let answers = try_join_all(next.iter().map(|name| self.exchange(name))).await?;
            if answers.iter().any(Option::is_none) {
                self.has_virtual_host().await?;
            }
            asked.append(&mut next);
            for (exchange, bindings) in answers.into_iter().flatten() {
                next.extend(leads_to(&exchange, &bindings));
                objects.exchanges.insert(exchange.name.clone(), exchange);
                objects.bindings.extend(bindings);
            }
            next.retain(|name| !asked.contains(name));
        }
        Ok(LevelRoutes::of_objects(topology, &objects))
    }

    /// For a user without permissions in it, RabbitMQ 4.3 answers as if it had no objects.
    async fn has_virtual_host(&self) -> Result<(), ManagementError> {
        let path = ["exchanges", self.virtual_host(), EVERYWHERE];
        self.get::<IgnoredAny>(&path, &[]).await.map(drop)
    }

    /// An exchange and what is bound to it; none where it is not there.
    async fn exchange(
        &self,
        name: &str,
    ) -> Result<Option<(Exchange, Vec<Binding>)>, ManagementError> {
        let path = ["exchanges", self.virtual_host(), name, "bindings", "source"];
        let (exchange, bindings) = tokio::try_join!(
            self.find::<ExchangeInfo>(&path[..3], &[]),
            self.find::<Vec<BindingInfo>>(&path, &[]),
        )?;
        Ok(exchange.zip(bindings).map(|(exchange, bindings)| {
            (exchange.into(), bindings.into_iter().map(Binding::from).collect())
        }))
    }
}

/// Exchanges that take what an exchange takes.
fn leads_to(exchange: &Exchange, bindings: &[Binding]) -> Vec<String> {
    let bound = bindings.iter().filter(|binding| !binding.to_queue);
    let bound = bound.map(|binding| binding.destination.as_str());
    // The default exchange has no name to ask for, and leads to no level.
    let all = bound.chain(exchange.alternate()).filter(|name| !name.is_empty());
    all.map(str::to_owned).collect()
}

/// The same without the management API: a level is there if a queue of it exists, in any generation. Whether that queue
/// is bound cannot be asked; one that was taken out of use and drains is taken for a level.
///
/// `None` if the broker does not say: from 4.3.1 a user needs a right on the queues. Each level that is not there is
/// some lines in its log.
pub(crate) async fn probed_level_routes(link: &Link, topology: &Topology) -> Option<LevelRoutes> {
    let mut missing = Vec::new();
    for (level, queue) in topology.delay_queues() {
        if !passive::any_generation_exists(link, &queue).await.ok()? {
            missing.push(level);
        }
    }
    Some(LevelRoutes::without(topology, &missing))
}
