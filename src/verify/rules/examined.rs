//! What the rules about objects look at.

use super::super::queues::role;
use crate::{
    objects::{Objects, Queue},
    plan::own_queues::Kind,
    topology::Topology,
};

/// A topology, and objects of which some are its own.
pub(super) struct Examined<'a> {
    pub(super) topology: &'a Topology,
    pub(super) objects: &'a Objects,
}

impl<'a> Examined<'a> {
    /// The queues of the topology that are there, with what they are for.
    pub(super) fn queues(&self) -> impl Iterator<Item = (&'a Queue, Kind<'a>)> {
        let Self { topology, objects } = *self;
        let role = move |queue| Some((queue, role(topology, objects, queue)?));
        objects.queues.values().filter_map(role)
    }

    /// The role of a queue; `None` where it is not the topology's.
    pub(super) fn role(&self, queue: &str) -> Option<Kind<'a>> {
        role(self.topology, self.objects, self.objects.queues.get(queue)?)
    }

    /// What publishers may send to an exchange, or come out of the due exchange: routing keys.
    pub(super) fn keys(&self, exchange: &str) -> impl Iterator<Item = String> {
        let due = exchange == self.topology.due_exchange();
        let sent = self.topology.publications();
        sent.filter(move |(entry, _)| due || entry == exchange).map(|(_, key)| key)
    }
}

/// Whether messages come out of a queue by themselves.
pub(super) fn expires(queue: &Queue) -> bool {
    queue.message_ttl_ms().is_some()
}
