//! What differs between an object that is wanted and the one that is there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objects::{Argument, Exchange, Queue};

/// A property or argument that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// `type`, `durable`, `auto-delete`, `exclusive` or the name of an argument, e.g. `x-message-ttl`.
    pub property: String,
    /// What the topology wants; `null` is "not set".
    pub desired: Option<Argument>,
    /// What the broker has; `null` is "not set".
    pub observed: Option<Argument>,
}

impl Difference {
    /// The difference between two values of `property`, if there is one.
    #[must_use]
    pub fn between(
        property: &str,
        desired: Option<&Argument>,
        observed: Option<&Argument>,
    ) -> Option<Self> {
        let differ = || Self {
            property: property.to_owned(),
            desired: desired.cloned(),
            observed: observed.cloned(),
        };
        (desired != observed).then(differ)
    }

    /// Every argument that differs: set to something else, missing, or there without being wanted.
    #[must_use]
    pub fn of_arguments(
        desired: &BTreeMap<String, Argument>,
        observed: &BTreeMap<String, Argument>,
    ) -> Vec<Self> {
        let unwanted = observed.keys().filter(|key| !desired.contains_key(*key));
        let keys = desired.keys().chain(unwanted);
        keys.filter_map(|key| Self::between(key, desired.get(key), observed.get(key))).collect()
    }

    /// Everything about two exchanges that differs, but for their names.
    pub(super) fn of_exchanges(desired: &Exchange, observed: &Exchange) -> Vec<Self> {
        let properties = |exchange: &Exchange| {
            [
                ("type", Argument::Text(exchange.kind.clone())),
                ("durable", Argument::Flag(exchange.durable)),
                ("auto-delete", Argument::Flag(exchange.auto_delete)),
            ]
        };
        let mut found = Self::of_properties(properties(desired), properties(observed));
        found.extend(Self::of_arguments(&desired.arguments, &observed.arguments));
        found
    }

    /// Everything about two queues that differs, but for their names.
    pub(super) fn of_queues(desired: &Queue, observed: &Queue) -> Vec<Self> {
        let properties = |queue: &Queue| {
            [
                ("type", Argument::Text(queue.kind.clone())),
                ("durable", Argument::Flag(queue.durable)),
                ("auto-delete", Argument::Flag(queue.auto_delete)),
                ("exclusive", Argument::Flag(queue.exclusive)),
            ]
        };
        let mut found = Self::of_properties(properties(desired), properties(observed));
        found.extend(Self::of_arguments(&desired.arguments, &observed.arguments));
        found
    }

    fn of_properties<const COUNT: usize>(
        desired: [(&str, Argument); COUNT],
        observed: [(&str, Argument); COUNT],
    ) -> Vec<Self> {
        let pairs = desired.into_iter().zip(observed);
        pairs
            .filter_map(|((property, wanted), (_, has))| {
                Self::between(property, Some(&wanted), Some(&has))
            })
            .collect()
    }
}
