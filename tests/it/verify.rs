//! `overdue verify` on a real broker.

mod links;
mod policies;
mod printed;
mod probes;
mod rules;
mod shapes;
mod stuck;

use crate::support::{Services, World, samples::TWO_TIMEOUTS};

/// With the topology declared.
pub(crate) async fn applied() -> World {
    World::applied(TWO_TIMEOUTS).await
}

/// With nothing on the broker.
pub(crate) async fn empty() -> World {
    World::bare(Services::main(), TWO_TIMEOUTS).await
}

impl World {
    /// `overdue verify` finds something: severity, rule and subject of each.
    fn findings(&self) -> Vec<String> {
        let run = self.overdue(&["verify", "-o", "json"]);
        assert_eq!(run.code, Some(2), "{run}");
        run.findings()
    }
}
