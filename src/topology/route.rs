//! Where a due notice is published: exchange and routing key, checked before anything is sent.

use super::{Topology, level::Level};

/// How a publisher names the delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// The timeout's own level.
    #[default]
    Usual,
    /// The level the timeout has for a category of orders.
    Category(String),
    /// A level by its name.
    Level(String),
}

/// Exchange and routing key of a due notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The entry exchange.
    pub exchange: String,
    /// `<level>.<timeout>`.
    pub routing_key: String,
    /// The level in it.
    pub level: Level,
}

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The topology has no such timeout.
    #[error("there is no timeout `{timeout}` in the topology; it has {known}")]
    Timeout {
        /// What was asked for.
        timeout: String,
        /// What there is.
        known: String,
    },
    /// The topology has no such level.
    #[error("there is no level `{level}` in the topology; it has {known}")]
    Level {
        /// What was asked for.
        level: String,
        /// What there is.
        known: String,
    },
    /// The timeout has no level for this category.
    #[error("timeout `{timeout}` has no level for category `{category}`; it has {known}")]
    Category {
        /// Of which timeout.
        timeout: String,
        /// What was asked for.
        category: String,
        /// What there is.
        known: String,
    },
}

impl Topology {
    /// Where to publish a notice for `timeout` that is to come out after `delay`.
    ///
    /// # Errors
    /// The topology knows no such timeout, level or category; the error lists those it knows.
    pub fn route(&self, timeout: &str, delay: &Delay) -> Result<Route, RouteError> {
        let rule = self.timeout(timeout).ok_or_else(|| RouteError::Timeout {
            timeout: timeout.to_owned(),
            known: list(self.timeouts.iter().map(|timeout| timeout.name.as_str())),
        })?;
        let level = match delay {
            Delay::Usual => &rule.after,
            Delay::Level(name) => self.level(name).ok_or_else(|| RouteError::Level {
                level: name.clone(),
                known: list(self.levels.iter().map(Level::name)),
            })?,
            Delay::Category(name) => {
                rule.after_by_category.get(name).ok_or_else(|| RouteError::Category {
                    timeout: timeout.to_owned(),
                    category: name.clone(),
                    known: list(rule.after_by_category.keys().map(String::as_str)),
                })?
            }
        };
        let routing_key = Self::routing_key(level, rule);
        Ok(Route { exchange: self.entry_exchange(), routing_key, level: level.clone() })
    }
}

impl Topology {
    /// Every routing key that a publisher may use.
    pub fn routing_keys(&self) -> impl Iterator<Item = String> {
        let of = move |level| self.timeouts.iter().map(move |t| Self::routing_key(level, t));
        self.levels.iter().flat_map(of)
    }

    /// The delay that is over first.
    #[must_use]
    pub fn shortest_delay(&self) -> Option<&Level> {
        self.levels.iter().min_by_key(|level| level.ttl())
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
