//! Asking a broker which levels it routes to.

use super::{
    Link, Management, ManagementError,
    objects::{binding_of, exchange_of},
    passive,
};
use crate::{
    objects::Objects,
    topology::{Topology, level_routes::LevelRoutes},
};

impl Management {
    /// Which of the topology's levels the broker routes to, by its exchanges and bindings; changes nothing.
    ///
    /// It holds for the moment of the answer: ask again after `overdue apply`, or every few seconds.
    /// Permission needed: the `management` tag.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn level_routes(&self, topology: &Topology) -> Result<LevelRoutes, ManagementError> {
        let vhost = self.virtual_host();
        let exchanges = self.call(|client| Box::pin(client.list_exchanges_in(vhost))).await;
        let exchanges = exchanges.map_err(|error| self.explain("list the exchanges", error))?;
        let bindings = self.call(|client| Box::pin(client.list_bindings_in(vhost))).await;
        let bindings = bindings.map_err(|error| self.explain("list the bindings", error))?;
        let exchanges = exchanges.into_iter().map(exchange_of);
        let objects = Objects {
            exchanges: exchanges.map(|exchange| (exchange.name.clone(), exchange)).collect(),
            bindings: bindings.into_iter().map(binding_of).collect(),
            ..Objects::default()
        };
        Ok(LevelRoutes::of_objects(topology, &objects))
    }
}

/// The same without the management API: a level is there if a queue of it exists, in any generation. Whether that queue
/// is bound cannot be asked; one that was taken out of use and drains is taken for a level.
///
/// What the broker refuses to say is taken to be there. Each level that is not there is some lines in its log.
pub(crate) async fn probed_level_routes(link: &Link, topology: &Topology) -> LevelRoutes {
    let mut missing = Vec::new();
    for (level, queue) in topology.delay_queues() {
        if !passive::any_generation_exists(link, &queue).await.unwrap_or(true) {
            missing.push(level);
        }
    }
    LevelRoutes::without(topology, &missing)
}
