//! What is known about RabbitMQ, as data.

use std::collections::BTreeMap;

use super::{
    asked::{Asked, Gap, Skew},
    encryption::Encryption,
};
use crate::plan::snapshot::{QueueStats, Snapshot};

/// What is known about RabbitMQ.
#[derive(Clone, Debug)]
pub struct BrokerFacts {
    /// Where it is, without the password.
    pub address: String,
    /// The AMQP user.
    pub user: String,
    /// The virtual host.
    pub virtual_host: String,
    /// How AMQP is encrypted.
    pub tls: Encryption,
    /// Whether every host is this machine.
    pub loopback: bool,
    /// What became of an AMQP connection.
    pub connection: AmqpConnection,
    /// What the management API says.
    pub api: ApiFacts,
}

/// What the management API says. Where it cannot be called `overview` says why, and the rest only that it cannot.
#[derive(Clone, Debug)]
pub struct ApiFacts {
    /// Its user.
    pub user: String,
    /// Version and exchange types.
    pub overview: Asked<Overview>,
    /// Stable feature flags that are off.
    pub feature_flags_off: Asked<Vec<String>>,
    /// Deprecated features in use.
    pub deprecated: Asked<Vec<String>>,
    /// Plugins that are enabled on some node.
    pub plugins: Asked<Vec<String>>,
    /// Alarms in effect.
    pub alarms: Asked<Vec<Alarm>>,
    /// Permissions of all users.
    pub permissions: Asked<Vec<Permission>>,
    /// Members of the virtual host's quorum queues.
    pub replicas: Asked<Vec<Replicas>>,
    /// The virtual host's objects.
    pub observed: Asked<Snapshot>,
    /// Numbers of its queues.
    pub stats: Asked<BTreeMap<String, QueueStats>>,
    /// Its clock against this machine's.
    pub clock: Asked<Skew>,
}

impl ApiFacts {
    /// Everything missing for one reason.
    #[must_use]
    pub fn unknown(user: String, why: Gap) -> Self {
        let gap = silent(&why);
        Self {
            user,
            overview: Err(why),
            feature_flags_off: Err(gap.clone()),
            deprecated: Err(gap.clone()),
            plugins: Err(gap.clone()),
            alarms: Err(gap.clone()),
            permissions: Err(gap.clone()),
            replicas: Err(gap.clone()),
            observed: Err(gap.clone()),
            stats: Err(gap.clone()),
            clock: Err(gap),
        }
    }

    /// The overview, for the checks after the one that says why there is none.
    ///
    /// # Errors
    /// There is none.
    pub fn known_overview(&self) -> Asked<&Overview> {
        self.overview.as_ref().map_err(silent)
    }
}

/// What follows from an API that cannot be called. A worker without the tag has nothing to fix.
fn silent(why: &Gap) -> Gap {
    if why.denied {
        return Gap::denied("the management API may not be called", "see management-api");
    }
    Gap::after("management-api", "the management API does not answer")
}

/// What became of an AMQP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmqpConnection {
    /// It stands.
    Open {
        /// Whether a message that was published got an answer.
        answers: bool,
    },
    /// Nobody answers.
    Unreachable(String),
    /// The login is refused.
    LoginRefused(String),
    /// The virtual host does not exist, or the user may not use it.
    NoVirtualHost(String),
    /// The URL cannot be used.
    NoAddress(String),
}

/// What the broker says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// E.g. `4.3.6`.
    pub version: String,
    /// Types an exchange can have.
    pub exchange_types: Vec<String>,
}

/// A resource alarm: publishers are blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// On which node.
    pub node: String,
    /// `memory` or `disk space`.
    pub resource: String,
}

/// What a user may do in a virtual host: regular expressions of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The user it was granted to.
    pub user: String,
    /// The virtual host it is for.
    pub virtual_host: String,
    /// Declare and delete.
    pub configure: String,
    /// Publish to, bind.
    pub write: String,
    /// Consume, bind to.
    pub read: String,
}

/// The members of a quorum queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The queue.
    pub queue: String,
    /// The node that leads it.
    pub leader: Option<String>,
    /// Nodes that hold a copy.
    pub members: Vec<String>,
    /// Those of them that are up.
    pub online: Vec<String>,
}
