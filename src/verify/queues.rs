//! Which queues are the topology's, and what each is for.

use crate::{
    objects::{Objects, Queue},
    plan::{
        generation::number_of,
        own_queues::{Kind, kind},
        snapshot::Snapshot,
    },
    topology::Topology,
};

/// What a queue is to the topology, retired generations and queues of another shape included; `None` is foreign.
pub(super) fn role<'a>(
    topology: &Topology,
    objects: &Objects,
    queue: &'a Queue,
) -> Option<Kind<'a>> {
    kind(topology, objects, queue).or_else(|| {
        let mut bases = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
        bases.any(|base| number_of(&base, &queue.name).is_some()).then_some(Kind::Business)
    })
}

/// Names of the queues of `topology` that are there, retired ones included.
#[must_use]
pub(crate) fn queues_of(topology: &Topology, observed: &Snapshot) -> Vec<String> {
    let queues = observed.objects.queues.values();
    let ours = queues.filter(|queue| role(topology, &observed.objects, queue).is_some());
    ours.map(|queue| queue.name.clone()).collect()
}

/// Whether this is the queue of a probe that runs: its name is one, and it is exclusive to a connection. One that has
/// come since the queues were listed passes for one; the next reading shows what it is.
pub(super) fn is_probe(topology: &Topology, observed: &Snapshot, queue: &str) -> bool {
    let rest = queue.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix(".probe."));
    let exclusive = |name| observed.objects.queues.get(name).is_none_or(|queue| queue.exclusive);
    rest.is_some_and(|rest| !rest.is_empty()) && exclusive(queue)
}
