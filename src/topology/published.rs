//! From what was published back to the route.

use std::time::Duration;

use super::{
    Topology,
    level::Level,
    route::{Delay, Route, RouteError},
    strategy::{BeforeTimeout, Entry},
};
use crate::ladder::path::{KeyError, Path};

/// Why a message with an exchange and a routing key would not wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishedError {
    /// Nothing of the topology takes messages there.
    #[error("notices are not published to `{exchange}`: use {known}")]
    Exchange {
        /// As given.
        exchange: String,
        /// The exchanges that take notices.
        known: String,
    },
    /// The key does not say where it was published.
    #[error("`{routing_key}` is not a routing key of a notice; {example}")]
    Form {
        /// As given.
        routing_key: String,
        /// One that is.
        example: String,
    },
    /// Not a path of the ladder.
    #[error(transparent)]
    Ladder(#[from] KeyError),
    /// There is no such level or timeout.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The exchange of the plugin reads the delay from a header.
    #[error(
        "the delay of a message to `{exchange}` is in its header x-delay, without it there is none: give it with --after"
    )]
    NoDelay {
        /// Which exchange.
        exchange: String,
    },
}

impl Topology {
    /// The route of a message, and its timeout; without `exchange`, the one that has such keys. `delay` is what the
    /// header `x-delay` says.
    ///
    /// # Errors
    /// The broker would park it, or nobody says how long it waits.
    pub fn published(
        &self,
        exchange: Option<&str>,
        routing_key: &str,
        delay: Option<Duration>,
    ) -> Result<(Route, String), PublishedError> {
        let entry = self.entry_of(exchange, routing_key)?;
        let word = routing_key.rsplit('.').next().unwrap_or(routing_key);
        let route = match &entry.before {
            BeforeTimeout::Levels(_) => self.through_level(routing_key)?,
            BeforeTimeout::Digits(_) => self.up_the_ladder(&entry.exchange, routing_key)?,
            BeforeTimeout::Nothing => {
                let exchange = entry.exchange.clone();
                let delay = delay.ok_or(PublishedError::NoDelay { exchange })?;
                // What the header says, without a lead.
                self.route_rounded_up(word, &Delay::Exactly(delay))?
            }
        };
        // The timeout has to be one of the topology, whatever the way is.
        self.route(word, &Delay::Usual)?;
        Ok((Route { routing_key: routing_key.to_owned(), ..route }, word.to_owned()))
    }

    fn entry_of(&self, exchange: Option<&str>, key: &str) -> Result<Entry, PublishedError> {
        let entries = self.entries();
        let found = entries.iter().find(|entry| match exchange {
            Some(exchange) => entry.exchange == exchange,
            None => entry.takes(key),
        });
        found.cloned().ok_or_else(|| match exchange {
            Some(exchange) => PublishedError::Exchange {
                exchange: exchange.to_owned(),
                known: entries
                    .iter()
                    .map(|entry| format!("`{}`", entry.exchange))
                    .collect::<Vec<_>>()
                    .join(", "),
            },
            None => self.form(key),
        })
    }

    /// A key that is none, beside the one of the first timeout.
    fn form(&self, key: &str) -> PublishedError {
        let usual = self.timeouts.first().map(|it| (it, self.route(&it.name, &Delay::Usual)));
        let example = match usual {
            Some((timeout, Ok(Route { exchange, routing_key, .. }))) => {
                format!(
                    "for {} of `{}` it is `{routing_key}` at `{exchange}`",
                    timeout.after, timeout.name
                )
            }
            _ => "the topology has nothing that delays".to_owned(),
        };
        PublishedError::Form { routing_key: key.to_owned(), example }
    }

    /// `<level>.<timeout>`, two words.
    fn through_level(&self, key: &str) -> Result<Route, PublishedError> {
        let (level, word) = key.split_once('.').ok_or_else(|| self.form(key))?;
        if word.contains('.') || word.is_empty() {
            return Err(self.form(key));
        }
        let known = || self.levels.iter().map(Level::to_string).collect::<Vec<_>>().join(", ");
        let level = self
            .level(level)
            .ok_or_else(|| RouteError::Level { level: level.to_owned(), known: known() })?;
        Ok(self.through(level, word))
    }

    fn up_the_ladder(&self, exchange: &str, key: &str) -> Result<Route, PublishedError> {
        let path = self.strategy.ladder().map(|ladder| ladder.decode(exchange, key));
        Ok(path.ok_or(RouteError::NoDelay)?.map(Path::into)?)
    }
}

impl Entry {
    /// Whether a routing key looks like one of those that are published here.
    fn takes(&self, key: &str) -> bool {
        let first = key.split('.').next().unwrap_or(key);
        match &self.before {
            BeforeTimeout::Levels(levels) => levels.iter().any(|level| level == first),
            BeforeTimeout::Digits(number) => {
                let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
                let words: Vec<&str> = key.split('.').collect();
                let (_, before) = words.split_last().unwrap_or((&"", &[]));
                before.len() == *number && before.iter().all(|word| digits(word))
            }
            BeforeTimeout::Nothing => !key.contains('.'),
        }
    }
}
