//! Where a due notice is published: exchange and routing key, checked before anything is sent.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    ladder::{
        Ladder,
        path::{DelayError, Rounding},
    },
    text::{did_you_mean, length, millis},
};

use super::{
    Timeout, Topology,
    level::{Interval, Level, LevelError, MAX_TTL_MS, Ttl},
    strategy::Strategy,
};

/// How a publisher names the delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// The timeout's own delay.
    #[default]
    Usual,
    /// The delay that the timeout has for a category of orders.
    Category(String),
    /// A level by its name, e.g. `30m`.
    Level(String),
    /// So long. Levels hold it as long as the longest of them that is not longer; a worker sends it on for the rest.
    Exactly(Duration),
}

impl Delay {
    /// A level by its name, e.g. `30m`.
    pub fn level(name: &str) -> Self {
        Self::Level(name.to_owned())
    }

    /// So long, to the millisecond where a worker of ours consumes it.
    pub const fn exactly(delay: Duration) -> Self {
        Self::Exactly(delay)
    }

    /// Until `time`, when it is `now`: exactly what is left, and nothing where `time` is over. Take the present right
    /// before publishing: what passes in between is lateness. A clock that is wrong costs no order anything: the
    /// worker waits for the deadline in the database.
    pub fn until(time: Timestamp, now: Timestamp) -> Self {
        Self::Exactly(Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO))
    }

    /// As people write it, from 0 to ten years: a whole number and one unit (ms, s, m, h, d), e.g. `37m`.
    ///
    /// # Errors
    /// Below zero, longer than ten years, or not a duration.
    pub fn after(text: &str) -> Result<Self, LevelError> {
        text.parse::<Interval>().map(|after| Self::Exactly(after.as_duration()))
    }
}

/// Exchange, routing key and header of a due notice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The exchange to publish to, e.g. `orders.in`.
    pub exchange: String,
    /// Ends with the timeout, e.g. `30m.unpaid`.
    pub routing_key: String,
    /// The header `x-delay` in milliseconds, for an exchange of the type `x-delayed-message`.
    pub x_delay: Option<u32>,
    /// How long the broker holds the message; a worker puts it back for the rest, where its order is not due by then.
    pub holds: Duration,
    /// How much earlier that is than the level is called: the worker holds it until then.
    pub early: Duration,
    /// The queues that it waits in, one after the other; none where an exchange holds it.
    pub queues: Vec<String>,
}

impl Route {
    /// The queue that it waits in first, or the exchange that holds it.
    pub(crate) fn place(&self) -> &str {
        self.queues.first().unwrap_or(&self.exchange)
    }
}

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The topology has no such timeout.
    #[error("there is no timeout `{timeout}` in the topology{meant}; it has {known}")]
    Timeout {
        /// What was asked for.
        timeout: String,
        /// Which one is like it, as a question; empty where none is.
        meant: String,
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
    /// A delay by a text that is none.
    #[error(transparent)]
    Text(#[from] LevelError),
    /// The ladder has no such path.
    #[error(transparent)]
    Ladder(#[from] DelayError),
    /// One publish cannot hold it so long, and nobody is to send it on.
    #[error(
        "a delay of {} is longer than one publish can hold a message here ({}): shorten it, or use a ladder",
        length(*delay), length(*longest)
    )]
    TooLong {
        /// As asked for.
        delay: Duration,
        /// The longest level, or the longest `x-delay`.
        longest: Duration,
    },
    /// Nothing delays.
    #[error("the topology has nothing that delays")]
    NoDelay,
}

/// A third of the time that RabbitMQ lets a delivery be unacked (`consumer_timeout`, 30 min).
pub const LONGEST_IN_HAND: Duration = Duration::from_mins(10);

impl Route {
    /// Whether a worker waits for `rest` with the message in hand instead, where it has room: this would make it late.
    pub(crate) fn is_too_long(&self, rest: Duration) -> bool {
        self.holds > rest && rest <= LONGEST_IN_HAND
    }

    /// The delay that its place stands for, e.g. 30 minutes of the level `30m`.
    pub fn delay(&self) -> Duration {
        self.holds.saturating_add(self.early)
    }

    /// The delay that its place stands for, as a TTL.
    pub(crate) fn delay_ttl(&self) -> Ttl {
        Ttl::from_millis(millis(self.delay()).clamp(1, MAX_TTL_MS)).unwrap_or(Ttl::SHORTEST)
    }
}

impl Topology {
    /// Where to publish a notice for `timeout` that is to come out after `delay`: no later than that, because the
    /// worker holds it until the deadline; with levels, what is shorter than the shortest of them waits that long.
    /// Levels and ladders are coarser than a millisecond.
    ///
    /// # Errors
    /// The topology knows no such timeout, level or category; the error lists those it knows. The ladder is too short.
    pub fn route(&self, timeout: &str, delay: &Delay) -> Result<Route, RouteError> {
        self.rounded(timeout, delay, Rounding::Down)
    }

    /// The same for consumers of others, who must not see it early: it comes out too late by less than the ladder's
    /// resolution, by less than the difference of two levels, or by less than a millisecond of the plugin.
    ///
    /// # Errors
    /// As [`route`](Self::route), and [`RouteError::TooLong`] where one publish cannot hold it so long.
    pub fn route_rounded_up(&self, timeout: &str, delay: &Delay) -> Result<Route, RouteError> {
        self.rounded(timeout, delay, Rounding::Up)
    }

    fn rounded(
        &self,
        timeout: &str,
        delay: &Delay,
        rounding: Rounding,
    ) -> Result<Route, RouteError> {
        let rule = self.known_timeout(timeout)?;
        match delay {
            Delay::Usual => self.named(&rule.after, timeout, rounding),
            Delay::Level(name) => match (self.known_level(name), &self.strategy) {
                (Err(_), Strategy::Ladder(_) | Strategy::DelayedExchange) => {
                    self.at_once(name.parse::<Level>()?.ttl().as_duration(), timeout, rounding)
                }
                (level, _) => self.named(level?, timeout, rounding),
            },
            Delay::Category(name) => {
                let level = rule.after_by_category.get(name).ok_or_else(|| {
                    let known = list(rule.after_by_category.keys().map(String::as_str));
                    let (timeout, category) = (timeout.to_owned(), name.clone());
                    RouteError::Category { timeout, category, known }
                })?;
                self.named(level, timeout, rounding)
            }
            Delay::Exactly(delay) => self.at_once(*delay, timeout, rounding),
        }
    }

    /// The timeout called `name`, or which ones there are.
    pub(crate) fn known_timeout(&self, name: &str) -> Result<&Timeout, RouteError> {
        self.timeout(name).ok_or_else(|| {
            let names = || self.timeouts.iter().map(|timeout| timeout.name.as_str());
            let meant = did_you_mean(name, names()).map(|it| format!(" (did you mean `{it}`?)"));
            RouteError::Timeout {
                timeout: name.to_owned(),
                meant: meant.unwrap_or_default(),
                known: list(names()),
            }
        })
    }

    fn known_level(&self, name: &str) -> Result<&Level, RouteError> {
        self.level(name).ok_or_else(|| RouteError::Level {
            level: name.to_owned(),
            known: list(self.levels.iter().map(Level::name)),
        })
    }

    /// Through the level where it has a queue; otherwise the delay decides.
    fn named(&self, level: &Level, word: &str, rounding: Rounding) -> Result<Route, RouteError> {
        if self.levels.contains(level) {
            return Ok(self.through(level, word));
        }
        self.at_once(level.ttl().as_duration(), word, rounding)
    }

    /// A delay that one publish cannot wait for is a mistake of the publisher where there is a limit to it.
    fn at_once(
        &self,
        delay: Duration,
        word: &str,
        rounding: Rounding,
    ) -> Result<Route, RouteError> {
        if let Some(ladder) = self.strategy.ladder() {
            ladder.enter(delay, rounding, word)?;
        }
        self.enter(delay, word, rounding)
    }

    /// Where a message for `timeout` waits for `rest`, or for as much of it as one publish can.
    ///
    /// # Errors
    /// There is nothing that delays.
    pub fn wait(&self, timeout: &Timeout, rest: Duration) -> Result<Route, RouteError> {
        let shortest = self.strategy.ladder().map_or(Duration::ZERO, Ladder::resolution);
        self.enter(rest.max(shortest), &timeout.name, Rounding::Down)
    }

    /// Straight to the business queue, whatever the strategy: for what is due.
    pub(crate) fn due_route(&self, timeout: &Timeout) -> Route {
        Route {
            exchange: self.due_exchange(),
            routing_key: timeout.name.clone(),
            x_delay: None,
            holds: Duration::ZERO,
            early: Duration::ZERO,
            queues: Vec::new(),
        }
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
