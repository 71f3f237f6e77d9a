//! Asking a broker which levels it routes to, without the management API.

use crate::{
    messaging::{Link, passive},
    topology::{Topology, level_routes::LevelRoutes},
};

/// As [`Management::level_routes`](super::Management::level_routes): a level is there if a queue of it exists, in any generation.
/// Whether that queue is bound cannot be asked; one that was taken out of use and drains is taken for a level.
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
