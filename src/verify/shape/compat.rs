//! What `[compat.x-delay]` needs, and what becomes of messages without it.

use super::Shape;
use crate::{objects::Binding, plan::generation::number_of};

impl Shape<'_> {
    /// What becomes of messages without an exchange of `[compat.x-delay]`.
    pub(super) fn compat_exchange(&self, name: &str) -> Option<&'static str> {
        let compat = self.topology.compat.as_ref()?;
        let old_name = name == compat.exchange;
        if old_name || name == self.topology.compat_in_exchange() {
            return Some(if old_name {
                "programs that were written for the plugin get 404 for each publish and lose their channel"
            } else {
                "what is published to the old name is dropped"
            });
        }
        if name == self.topology.compat_rest_exchange() {
            return Some("what has an `x-delay` that is not a level is dropped");
        }
        let due = name == self.topology.compat_due_exchange();
        due.then_some("what comes due there is stuck in its level, or waits for the worker")
    }

    /// What becomes of messages without a queue of `[compat.x-delay]`.
    pub(super) fn without_compat(&self, queue: &str) -> Option<&'static str> {
        self.topology.compat.as_ref()?;
        if number_of(&self.topology.compat_queue(), queue).is_some() {
            return Some("what has an `x-delay` that is not a level is parked");
        }
        let delays = |level| number_of(&self.topology.compat_delay_queue(level), queue).is_some();
        let level = self.topology.compat_levels().any(delays);
        level.then_some("what has this `x-delay` goes through a worker")
    }

    /// What is on its way for `[compat.x-delay]` comes back to its queue where levels or the ladder let it out.
    pub(super) fn compat_way_back(&self, binding: &Binding) -> Option<&'static str> {
        self.topology.compat.as_ref()?;
        let to_it = number_of(&self.topology.compat_queue(), &binding.destination).is_some();
        let back = to_it && binding.source == self.topology.due_exchange();
        let rest = to_it && binding.source == self.topology.compat_rest_exchange();
        match (back, rest) {
            (true, _) => Some(
                "what waits in the levels or the ladder with an `x-delay` is parked when it comes out",
            ),
            (_, true) => Some("what has an `x-delay` that is not a level is parked"),
            _ => None,
        }
    }
}
