//! What has to wait because a queue before it could not be deleted.

use super::{Change, Reason, Step, generation::is_in_a_ladder};
use crate::topology::Topology;

/// Deletions of one plan that were not carried out.
///
/// Counts are late, so a message may be in a queue that the plan takes for empty, with the rest of its ladder before it.
/// A plan takes a ladder down from its largest place, so what such a message still needs can wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptQueues {
    in_a_ladder: bool,
}

impl KeptQueues {
    /// The deletion of `queue` was not carried out.
    pub fn keep(&mut self, topology: &Topology, queue: &str) {
        self.in_a_ladder |= is_in_a_ladder(topology, queue);
    }

    /// Whether `step` would take away the way of what may be in a queue that was kept.
    #[must_use]
    pub fn hold_up(&self, topology: &Topology, step: &Step) -> bool {
        self.in_a_ladder
            && match &step.change {
                Change::Unbind(_) => matches!(step.reason, Reason::LadderRemoved { .. }),
                Change::DeleteQueue { queue, .. } => is_in_a_ladder(topology, queue),
                _ => false,
            }
    }
}
