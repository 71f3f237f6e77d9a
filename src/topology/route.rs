//! Exchange and routing key of a due notice, checked before the notice is published.

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
    /// A duration. With levels the message waits in the longest level that is not longer; a worker delays it again for the
    /// remaining time.
    Exactly(Duration),
}

impl Delay {
    /// A level by its name, e.g. `30m`.
    pub fn level(name: &str) -> Self {
        Self::Level(name.to_owned())
    }

    /// A duration, exact to the millisecond if a worker of `overdue` consumes the message.
    pub const fn exactly(delay: Duration) -> Self {
        Self::Exactly(delay)
    }

    /// The time from `now` until `time`, or zero if `time` is over. Read the clock right before publishing: later publishing
    /// makes the message late. A wrong clock closes no order early: the worker waits for the deadline in the database.
    pub fn until(time: Timestamp, now: Timestamp) -> Self {
        Self::Exactly(Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO))
    }

    /// A text with a whole number and one unit (ms, s, m, h, d), from 0 to ten years, e.g. `37m`.
    ///
    /// # Errors
    /// The text is negative, longer than ten years, or not a duration.
    pub fn after(text: &str) -> Result<Self, LevelError> {
        text.parse::<Interval>().map(|after| Self::Exactly(after.as_duration()))
    }
}

/// Exchange, routing key and header of a due notice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The exchange to publish to, e.g. `orders.in`.
    pub exchange: String,
    /// The routing key; its last word is the timeout, e.g. `30m.unpaid`.
    pub routing_key: String,
    /// The header `x-delay` in milliseconds, for an exchange of the type `x-delayed-message`.
    pub x_delay: Option<u32>,
    /// How long the broker delays the message. If the order is not due after that, the worker delays the message again.
    pub holds: Duration,
    /// The lead: by how much `holds` is shorter than the level's name; the worker keeps the message unacked for this time.
    pub early: Duration,
    /// The delay queues on the path, in order; empty if an exchange delays.
    pub queues: Vec<String>,
}

impl Route {
    /// The first delay queue, or the exchange that delays.
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
        /// The requested timeout.
        timeout: String,
        /// A question with a similar name; empty if there is none.
        meant: String,
        /// The timeouts of the topology.
        known: String,
    },
    /// The topology has no such level.
    #[error("there is no level `{level}` in the topology; it has {known}")]
    Level {
        /// The requested level.
        level: String,
        /// The levels of the topology.
        known: String,
    },
    /// The timeout has no level for this category.
    #[error("timeout `{timeout}` has no level for category `{category}`; it has {known}")]
    Category {
        /// The requested timeout.
        timeout: String,
        /// The requested category.
        category: String,
        /// The categories of the timeout.
        known: String,
    },
    /// The text of a delay is not valid.
    #[error(transparent)]
    Text(#[from] LevelError),
    /// The ladder has no such path.
    #[error(transparent)]
    Ladder(#[from] DelayError),
    /// The delay is longer than a single publish can delay, and no worker delays the message again.
    #[error(
        "a delay of {} is longer than one publish can hold a message here ({}): shorten it, or use a ladder",
        length(*delay), length(*longest)
    )]
    TooLong {
        /// The requested delay.
        delay: Duration,
        /// The longest level, or the longest `x-delay`.
        longest: Duration,
    },
    /// The topology has nothing that delays.
    #[error("the topology has nothing that delays")]
    NoDelay,
}

/// The longest planned time unacked in memory: a third of RabbitMQ's `consumer_timeout` (30 min).
pub const LONGEST_IN_HAND: Duration = Duration::from_mins(10);

impl Route {
    /// Whether this route would make the message late, and a worker can keep it unacked for `rest` instead.
    pub(crate) fn is_too_long(&self, rest: Duration) -> bool {
        self.holds > rest && rest <= LONGEST_IN_HAND
    }

    /// The delay that the level's name promises: delay on the broker plus lead.
    pub fn delay(&self) -> Duration {
        self.holds.saturating_add(self.early)
    }

    /// [`delay`](Self::delay) as a TTL.
    pub(crate) fn delay_ttl(&self) -> Ttl {
        Ttl::from_millis(millis(self.delay()).clamp(1, MAX_TTL_MS)).unwrap_or(Ttl::SHORTEST)
    }
}

impl Topology {
    /// The route on which a notice for `timeout` arrives at most `delay` later; the worker keeps it unacked until the
    /// deadline. A delay below the shortest level becomes the shortest level. Levels and ladders are coarser than 1 ms.
    ///
    /// # Errors
    /// The topology has no such timeout, level or category; the error lists the known ones. Or the ladder is too short.
    pub fn route(&self, timeout: &str, delay: &Delay) -> Result<Route, RouteError> {
        self.rounded(timeout, delay, Rounding::Down)
    }

    /// The route for foreign consumers, which must not receive the message early. The delay is too long by less than the
    /// ladder's resolution, the difference of two levels, or a millisecond of the plugin.
    ///
    /// # Errors
    /// The errors of [`route`](Self::route), and [`RouteError::TooLong`] if one publish cannot delay for this time.
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

    /// The timeout called `name`, or an error with the known names.
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

    /// The route through the level if the level has a queue; otherwise the delay decides.
    fn named(&self, level: &Level, word: &str, rounding: Rounding) -> Result<Route, RouteError> {
        if self.levels.contains(level) {
            return Ok(self.through(level, word));
        }
        self.at_once(level.ttl().as_duration(), word, rounding)
    }

    /// Routes a delay that a publisher asked for. A delay that is longer than the ladder's maximum is the publisher's mistake.
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

    /// The route that delays a message for `timeout` by `rest`. A delay beyond the limit of one publish is cut to it.
    ///
    /// # Errors
    /// The topology has nothing that delays.
    pub fn wait(&self, timeout: &Timeout, rest: Duration) -> Result<Route, RouteError> {
        let shortest = self.strategy.ladder().map_or(Duration::ZERO, Ladder::resolution);
        self.enter(rest.max(shortest), &timeout.name, Rounding::Down)
    }

    /// The route straight to the business queue, with every strategy: for due messages.
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
