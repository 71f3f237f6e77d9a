//! A role: the needs of one kind of user, and the expressions that cover them.

use std::collections::BTreeSet;

use super::{
    need::{Need, Object, Right},
    pattern,
};
use crate::topology::{
    Topology,
    strategy::{BeforeTimeout, Entry},
};

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
        /// Those that are written to only after a change of the topology.
        written_later: BTreeSet<Object>,
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
    /// What stands before the last word.
    pub before: BeforeTimeout,
    /// The last words, timeouts.
    pub timeouts: Vec<String>,
}

impl RoutingKeys {
    pub(super) fn of(topology: &Topology, entry: Entry) -> Option<Self> {
        let timeouts = topology.timeouts.iter().map(|timeout| timeout.name.clone()).collect();
        let Entry { exchange, before } = entry;
        (before != BeforeTimeout::Nothing).then_some(Self { exchange, before, timeouts })
    }

    /// The expression of the keys, e.g. `^(5s|30m)\.unpaid$`.
    #[must_use]
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

/// A user of a topology and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// What follows the prefix in the name of its user.
    pub name: &'static str,
    /// Who that is, for comments in what is printed.
    pub purpose: &'static str,
    /// The name of the topology.
    pub topology: String,
    /// Everything it needs, each once.
    pub needs: Vec<Need>,
    /// How far its expressions go.
    pub reach: Reach,
    /// Its tag, if it needs the management API.
    pub tag: Option<Tag>,
    /// Routing keys it can be limited to, for each exchange.
    pub routing_keys: Vec<RoutingKeys>,
}

impl Role {
    /// The expression of a right, as tight as it gets; `^$` where it is not needed.
    #[must_use]
    pub fn expression(&self, right: Right) -> String {
        let needed: BTreeSet<&Object> =
            self.needs.iter().filter(|need| need.right == right).map(|need| &need.object).collect();
        match &self.reach {
            Reach::Topology { objects, written_later } if !needed.is_empty() => {
                let later =
                    |object: &&Object| right == Right::Write && written_later.contains(*object);
                let excluded = objects.iter().filter(|it| !needed.contains(it) && !later(it));
                let excluded = excluded.collect();
                let elsewhere = needed.iter().copied().filter(|it| !it.is_under(&self.topology));
                pattern::under(&self.topology, &excluded, &elsewhere.collect())
            }
            _ => pattern::exactly(&self.topology, &needed),
        }
    }
}
