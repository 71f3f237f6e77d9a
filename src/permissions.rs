//! The least rights of those who use a topology: publisher, worker, topology administrator.
//!
//! A role is a list of needs: which right on which object, and why. The printed expressions are made of
//! nothing else, so a test can remove each need, one by one, and see its user fail
//! (<https://www.rabbitmq.com/docs/access-control#authorisation>).

pub(crate) mod definitions;
mod need;
pub(crate) mod pattern;
pub(crate) mod rabbitmqctl;
pub(crate) mod role;
mod roles;

pub use need::Right;
pub(crate) use need::{Need, Object};
pub use role::{Role, Tag};

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
