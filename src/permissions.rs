//! The least rights of each role: publisher, worker, topology administrator, on-call.
//!
//! A role is a list of needs: a right on an object, and its reason. The printed expressions cover only these needs, so a
//! test can remove each need, one by one, and see its user fail
//! (<https://www.rabbitmq.com/docs/access-control#authorisation>).

pub(crate) mod broker_rights;
pub(crate) mod database_grants;
pub(crate) mod definitions;
pub(crate) mod pattern;
pub(crate) mod rabbitmqctl;

use std::fmt;

pub use broker_rights::{Role, Tag};

/// Options for printing rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Virtual host of the rights.
    pub vhost: String,
    /// Prefix of the names of users.
    pub user_prefix: String,
    /// Whether to create the users, without passwords.
    pub create_users: bool,
    /// Whether to limit the publisher to the routing keys of the topology.
    pub routing_keys: bool,
}

impl Request {
    /// Name of a role's user.
    pub fn user(&self, role: &Role) -> String {
        format!("{}{}", self.user_prefix, role.name)
    }
}

/// A permission of RabbitMQ on an object.
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
    /// All rights, in the order of `rabbitmqctl set_permissions`.
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

/// Exchanges or queues by name: permissions are the same for both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The object with exactly this name, e.g. `orders.unpaid`.
    Named(String),
    /// The queues that replace this one: `orders.unpaid.2`, `orders.unpaid.3`, …
    Generations(String),
    /// The queues of a timeout with any number of shards: `orders.unpaid.shard-0`, `orders.unpaid.shard-0.2`, …, and its
    /// queue without shards.
    Shards(String),
    /// Temporary objects below this name: `orders.probe.…`.
    Below(String),
}

impl Object {
    /// Name of the object or of its first generation, or the common prefix.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name)
            | Self::Generations(name)
            | Self::Shards(name)
            | Self::Below(name) => name,
        }
    }

    /// Whether the name begins with the name of `topology`.
    pub(super) fn is_under(&self, topology: &str) -> bool {
        self.name().strip_prefix(topology).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// A right on an object, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The right.
    pub right: Right,
    /// Objects of the right.
    pub object: Object,
    /// Reason for the right.
    pub why: &'static str,
}
