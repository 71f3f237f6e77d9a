//! The least rights of those who use a topology: publisher, worker, topology administrator, who is on call.
//!
//! A role is a list of needs: which right on which object, and why. The printed expressions are made of
//! nothing else, so a test can remove each need, one by one, and see its user fail
//! (<https://www.rabbitmq.com/docs/access-control#authorisation>).

pub(crate) mod broker_rights;
pub(crate) mod database_grants;
pub(crate) mod definitions;
pub(crate) mod pattern;
pub(crate) mod rabbitmqctl;

use std::fmt;

pub use broker_rights::{Role, Tag};

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
    pub fn user(&self, role: &Role) -> String {
        format!("{}{}", self.user_prefix, role.name)
    }
}

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

/// An exchange or a queue by its name: permissions are the same for both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The object that is called exactly so, e.g. `orders.unpaid`.
    Named(String),
    /// The queues that replace it: `orders.unpaid.2`, `orders.unpaid.3`, …
    Generations(String),
    /// The queues of a timeout with shards, whatever their number: `orders.unpaid.shard-0`, `orders.unpaid.shard-0.2`, …, and
    /// the one that it has without them.
    Shards(String),
    /// Temporary objects below this name: `orders.probe.…`.
    Below(String),
}

impl Object {
    /// The name of the object, of the first of its generations, or of what it is below.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name)
            | Self::Generations(name)
            | Self::Shards(name)
            | Self::Below(name) => name,
        }
    }

    /// Whether its name begins with the name of `topology`.
    pub(super) fn is_under(&self, topology: &str) -> bool {
        self.name().strip_prefix(topology).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// One right on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What is allowed.
    pub right: Right,
    /// The objects it is about.
    pub object: Object,
    /// What it is needed for.
    pub why: &'static str,
}
