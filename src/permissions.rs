//! The least rights of those who use a topology: publisher, worker, topology administrator.
//!
//! A role is a list of needs: which right on which object, and why. The printed expressions are made of
//! nothing else, so a test can take each need away, one by one, and see its user break
//! (<https://www.rabbitmq.com/docs/access-control#authorisation>).

pub mod definitions;
pub mod pattern;
pub mod rabbitmqctl;
mod roles;

use std::{collections::BTreeSet, fmt};

use crate::topology::Topology;

/// What a permission of RabbitMQ allows on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Declare and delete.
    Configure,
    /// Publish to an exchange, bind a queue, be named as dead letter or alternate exchange.
    Write,
    /// Consume from a queue, bind to an exchange.
    Read,
}

impl Right {
    /// All of them, in the order in which `rabbitmqctl set_permissions` takes them.
    pub const ALL: [Self; 3] = [Self::Configure, Self::Write, Self::Read];
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// Exchanges and queues by name; permissions do not tell one kind from the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The object that is called exactly so, e.g. `orders.unpaid`.
    Named(String),
    /// The queues that take its place when it is replaced: `orders.unpaid.2`, `orders.unpaid.3`, …
    Generations(String),
    /// What the program makes for a moment below this name: `orders.probe.…`.
    Below(String),
}

impl Object {
    /// The name of the object, of the first of its generations, or of what it is below.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::Generations(name) | Self::Below(name) => name,
        }
    }
}

/// One right on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which right.
    pub right: Right,
    /// On what.
    pub object: Object,
    /// What it is needed for.
    pub why: &'static str,
}

/// How far the expressions of a role go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The objects it needs and no others.
    Needs,
    /// Everything under the topology's name, so that an edited topology needs no new rights; without
    /// those of the objects that are there now which it does not need.
    Topology {
        /// Every object of the topology.
        objects: BTreeSet<Object>,
    },
}

/// A user tag: access to the management API (<https://www.rabbitmq.com/docs/management#permissions>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `management`, `policymaker`.
    pub name: &'static str,
    /// What it is needed for.
    pub why: &'static str,
    /// Whether the role can do without.
    pub optional: bool,
}

/// Routing keys a user is limited to, as a topic permission
/// (<https://www.rabbitmq.com/docs/access-control#topic-authorisation>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingKeys {
    /// The topic exchange.
    pub exchange: String,
    /// The first words, levels.
    pub levels: Vec<String>,
    /// The second words, timeouts.
    pub timeouts: Vec<String>,
}

/// A user of a topology and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// What follows the prefix in the name of its user.
    pub name: &'static str,
    /// Who that is.
    pub purpose: &'static str,
    /// The name of the topology.
    pub topology: String,
    /// Everything it needs, each once.
    pub needs: Vec<Need>,
    /// How far its expressions go.
    pub reach: Reach,
    /// Its tag, if it needs the management API.
    pub tag: Option<Tag>,
    /// Routing keys it can be limited to.
    pub routing_keys: Option<RoutingKeys>,
}

impl Role {
    /// The roles of a topology: publisher, worker, topology administrator.
    #[must_use]
    pub fn all(topology: &Topology) -> Vec<Self> {
        vec![roles::publisher(topology), roles::worker(topology), roles::administrator(topology)]
    }

    /// The expression of a right, as tight as it gets; `^$` where it is not needed.
    #[must_use]
    pub fn expression(&self, right: Right) -> String {
        let needed: BTreeSet<&Object> =
            self.needs.iter().filter(|need| need.right == right).map(|need| &need.object).collect();
        match &self.reach {
            Reach::Topology { objects } if !needed.is_empty() => {
                let excluded = objects.iter().filter(|object| !needed.contains(object)).collect();
                pattern::under(&self.topology, &excluded)
            }
            _ => pattern::exactly(&self.topology, &needed),
        }
    }
}

/// For whom and in what form the rights are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The virtual host they are for.
    pub vhost: String,
    /// What the names of the users begin with.
    pub user_prefix: String,
    /// Also create the users, without passwords.
    pub create_users: bool,
    /// Also limit the publisher to the routing keys of the topology.
    pub routing_keys: bool,
}

impl Request {
    /// The name of a role's user.
    #[must_use]
    pub fn user(&self, role: &Role) -> String {
        format!("{}{}", self.user_prefix, role.name)
    }
}
