//! Roles: the needs of one kind of user, and expressions that cover them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Need, Object, Right, pattern};
use crate::{
    objects::Objects,
    topology::{
        Topology,
        strategy::{BeforeTimeout, Entry},
    },
};

/// Extent of a role's expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only the objects that the role needs.
    Needs,
    /// All objects under the topology's name, so that an edited topology needs no new rights, except current objects that
    /// the role does not need.
    Topology {
        /// Every object of the topology.
        objects: BTreeSet<Object>,
        /// Rights that a change of the topology may need.
        later: BTreeSet<(Right, Object)>,
    },
}

/// A user tag: access to the management API (<https://www.rabbitmq.com/docs/management#permissions>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name, e.g. `management`.
    pub name: &'static str,
    /// Reason for the tag.
    pub why: &'static str,
    /// Whether the role also works without the tag.
    pub optional: bool,
}

/// Routing keys a user is limited to, as a topic permission
/// (<https://www.rabbitmq.com/docs/access-control#topic-authorisation>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingKeys {
    /// The topic exchange.
    pub exchange: String,
    /// Words before the last one.
    pub before: BeforeTimeout,
    /// The last words: names of timeouts.
    pub timeouts: Vec<String>,
}

impl RoutingKeys {
    pub(super) fn of(topology: &Topology, entry: Entry) -> Option<Self> {
        let timeouts = topology.timeouts.iter().map(|timeout| timeout.name.clone()).collect();
        let Entry { exchange, before } = entry;
        (before != BeforeTimeout::Nothing).then_some(Self { exchange, before, timeouts })
    }

    /// The expression for the keys, e.g. `^(5s|30m)\.unpaid$`.
    pub fn expression(&self) -> String {
        let words = |words: &[String]| {
            pattern::group(&words.iter().map(|word| pattern::escape(word)).collect())
        };
        let timeouts = words(&self.timeouts);
        match &self.before {
            BeforeTimeout::Levels(levels) => format!(r"^{}\.{timeouts}$", words(levels)),
            BeforeTimeout::Digits(places) => format!(r"^([0-9]+\.){{{places}}}{timeouts}$"),
            BeforeTimeout::Nothing => format!("^{timeouts}$"),
        }
    }
}

/// A user of a topology, with its needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name of the user, after the prefix.
    pub name: &'static str,
    /// Description of the user, for comments in the output.
    pub purpose: &'static str,
    /// Name of the topology.
    pub topology: String,
    /// All needs, each once.
    pub needs: Vec<Need>,
    /// Extent of the expressions.
    pub reach: Reach,
    /// User tag, if the role needs the management API.
    pub tag: Option<Tag>,
    /// Possible limits of routing keys, for each exchange.
    pub routing_keys: Vec<RoutingKeys>,
}

impl Role {
    /// The narrowest expression of a right; `^$` if the right is not needed.
    pub fn expression(&self, right: Right) -> String {
        let needed: BTreeSet<&Object> =
            self.needs.iter().filter(|need| need.right == right).map(|need| &need.object).collect();
        match &self.reach {
            Reach::Topology { objects, later } => {
                let later = |object: &Object| later.contains(&(right, object.clone()));
                let excluded = objects.iter().filter(|it| !needed.contains(it) && !later(it));
                let excluded = excluded.collect();
                let elsewhere = needed.iter().copied().filter(|it| !it.is_under(&self.topology));
                pattern::under(&self.topology, &excluded, &elsewhere.collect())
            }
            Reach::Needs => pattern::exactly(&self.topology, &needed),
        }
    }

    /// The roles of a topology: publisher, worker, topology administrator, on-call.
    pub fn all(topology: &Topology) -> Vec<Self> {
        vec![publisher(topology), worker(topology), administrator(topology), on_call(topology)]
    }
}

/// Reasons by right and object, so that each need occurs once, with its first reason.
#[derive(Default)]
struct Needs(BTreeMap<(Right, Object), &'static str>);

impl Needs {
    fn exchange(&mut self, right: Right, name: &str, why: &'static str) {
        self.0.entry((right, Object::Named(name.to_owned()))).or_insert(why);
    }

    fn queue(&mut self, right: Right, name: &str, why: &'static str) {
        self.exchange(right, name, why);
        self.0.entry((right, Object::Generations(name.to_owned()))).or_insert(why);
    }

    fn shards(&mut self, right: Right, base: &str, why: &'static str) {
        self.0.entry((right, Object::Shards(base.to_owned()))).or_insert(why);
    }

    /// A role with exactly these needs. `tag` is the reason for the tag `management`, and whether the role works without it.
    fn role(
        self,
        topology: &Topology,
        [name, purpose]: [&'static str; 2],
        tag: Option<(&'static str, bool)>,
    ) -> Role {
        let need = |((right, object), why)| Need { right, object, why };
        Role {
            name,
            purpose,
            topology: topology.name.clone(),
            needs: self.0.into_iter().map(need).collect(),
            reach: Reach::Needs,
            tag: tag.map(|(why, optional)| Tag { name: "management", why, optional }),
            routing_keys: Vec::new(),
        }
    }
}

/// An order service.
fn publisher(topology: &Topology) -> Role {
    let mut needs = Needs::default();
    let entries = topology.entries();
    for entry in &entries {
        needs.exchange(Right::Write, &entry.exchange, "publish due notices");
    }
    let routing_keys = entries.into_iter().filter_map(|entry| RoutingKeys::of(topology, entry));
    Role {
        routing_keys: routing_keys.collect(),
        ..needs.role(topology, ["publisher", "an order service; declares nothing"], None)
    }
}

/// A worker that declares nothing: it writes to exchanges, and reads from queues.
pub(crate) fn worker(topology: &Topology) -> Role {
    let mut needs = Needs::default();
    needs.exchange(Right::Write, &topology.put_back_to(), "put back, try again");
    needs.exchange(Right::Write, &topology.park_exchange(), "park");
    needs.exchange(Right::Write, &topology.events_exchange(), "publish what happened");
    for timeout in &topology.timeouts {
        let (base, why) = (topology.business_queue(timeout), "consume what is due");
        match timeout.shards {
            None => needs.queue(Right::Read, &base, why),
            Some(_) => needs.shards(Right::Read, &base, why),
        }
    }
    if topology.compat.is_some() {
        needs.queue(Right::Read, &topology.compat_queue(), "consume what it delays");
        needs.exchange(Right::Write, &topology.compat_due_exchange(), "publish what is due");
        needs.exchange(Right::Write, &topology.compat_rest_exchange(), "put back what waits");
    }
    let why = "list the generations of its queues; without it they are looked for one by one";
    needs.role(topology, ["worker", "`overdue run --no-declare`"], Some((why, true)))
}

/// An operator on call, who finds out why orders are late, and republishes or drops parked messages.
fn on_call(topology: &Topology) -> Role {
    let mut needs = Needs::default();
    needs.queue(Right::Read, &topology.parked_queue(), "read what is parked");
    let lock = topology.parking_lock_queue();
    needs.exchange(Right::Configure, &lock, "put back or drop, one at a time");
    for entry in topology.entries() {
        needs.exchange(Right::Write, &entry.exchange, "put back what is not due yet");
    }
    needs.exchange(Right::Write, &topology.due_exchange(), "put back what is due");
    let what = ["on-call", "`overdue status`, `doctor` and `parked`"];
    needs.role(topology, what, Some(("find queues, their counts and their limits", false)))
}

/// The administrator, who plans and applies the topology.
fn administrator(topology: &Topology) -> Role {
    let objects = topology.objects();
    let probe = Object::Below(format!("{}.probe", topology.name));
    let mut needs = declaring(&objects);
    for entry in topology.entries() {
        needs.exchange(Right::Write, &entry.exchange, "verify --probe publishes to it");
    }
    for right in Right::ALL {
        needs.0.insert((right, probe.clone()), "verify --probe listens there");
    }
    let lock = Object::Named(topology.lock_queue());
    needs.0.insert((Right::Configure, lock.clone()), "change the topology one at a time");
    let mut objects = names(&objects);
    objects.extend([probe, lock]);
    // Another strategy publishes or dead-letters to these exchanges, or binds levels. The rights must remain after the
    // change.
    let later = [
        (Right::Write, topology.entry_exchange()),
        (Right::Write, topology.due_exchange()),
        (Right::Read, topology.again_exchange()),
    ];
    let later = later.map(|(right, name)| (right, Object::Named(name))).into();
    let what = ["topology", "plan, apply, remove, verify and rebuild"];
    let tag = Some(("read and change through the management API", false));
    Role { reach: Reach::Topology { objects, later }, ..needs.role(topology, what, tag) }
}

/// Rights that the broker requires for declaring, binding, unbinding and deleting these objects.
fn declaring(objects: &Objects) -> Needs {
    let mut needs = Needs::default();
    for exchange in objects.exchanges.values() {
        needs.exchange(Right::Configure, &exchange.name, "declare; delete what is retired");
        if let Some(alternate) = exchange.alternate() {
            needs.exchange(Right::Read, &exchange.name, "declare with an alternate exchange");
            needs.exchange(Right::Write, alternate, "be the alternate exchange of another");
        }
    }
    for queue in objects.queues.values() {
        needs.queue(Right::Configure, &queue.name, "declare; delete what is retired");
        if let Some(dlx) = queue.dead_letter_exchange() {
            needs.queue(Right::Read, &queue.name, "declare with a dead letter exchange");
            needs.exchange(Right::Write, dlx, "be the dead letter exchange of a queue");
        }
    }
    for binding in &objects.bindings {
        needs.exchange(Right::Read, &binding.source, "bind and unbind its queues");
        if binding.to_queue {
            needs.queue(Right::Write, &binding.destination, "bind and unbind");
        } else {
            needs.exchange(Right::Write, &binding.destination, "bind and unbind");
        }
    }
    needs
}

fn names(objects: &Objects) -> BTreeSet<Object> {
    let queues = objects.queues.keys();
    let queues =
        queues.flat_map(|name| [Object::Named(name.clone()), Object::Generations(name.clone())]);
    objects.exchanges.keys().cloned().map(Object::Named).chain(queues).collect()
}
