//! How the broker of a topology delays messages: the one door. Everybody else asks here, and none assumes a queue per
//! level.

mod delayed_exchange;
mod ladder;
mod levels;

use std::time::Duration;

use super::{
    Timeout, Topology,
    level::{Level, Ttl},
    route::{Delay, Route, RouteError},
    strategy::{Entry, Strategy},
    trial::Trial,
};
use crate::{ladder::path::Rounding, objects::Objects};

impl Topology {
    /// What delays messages, on a broker.
    pub(super) fn declare_delays(&self, objects: &mut Objects) {
        levels::declare(self, objects);
        match &self.strategy {
            Strategy::Levels => {}
            Strategy::Ladder(ladder) => ladder::declare(self, ladder, objects),
            Strategy::DelayedExchange => delayed_exchange::declare(self, objects),
        }
    }

    /// Where a message for `word` is published so that it comes out after `delay`, or as much of it as one publish can
    /// wait: rounded, and no further from it than the strategy can.
    ///
    /// # Errors
    /// There is nothing that delays, or nothing that delays so long where it is rounded up.
    pub(super) fn enter(
        &self,
        delay: Duration,
        word: &str,
        rounding: Rounding,
    ) -> Result<Route, RouteError> {
        match &self.strategy {
            Strategy::Levels => levels::enter(self, delay, word, rounding),
            Strategy::Ladder(ladder) => ladder::enter((ladder, self.lead), delay, word, rounding),
            Strategy::DelayedExchange => delayed_exchange::enter(self, delay, word, rounding),
        }
    }

    /// The least by which delays end early on purpose, but for those that are shorter than the shortest level.
    #[must_use]
    pub(crate) fn least_lead(&self) -> Duration {
        let lead = self.lead;
        let levels = self.levels.iter().map(|level| lead.of(level.ttl().as_duration()));
        let others = match &self.strategy {
            Strategy::Levels => None,
            Strategy::Ladder(_) => Some(lead.through_a_ladder(Duration::MAX)),
            Strategy::DelayedExchange => Some(lead.longest()),
        };
        levels.chain(others).min().unwrap_or_default()
    }

    /// Through the queue of a level.
    pub(super) fn through(&self, level: &Level, word: &str) -> Route {
        levels::through(self, level, word)
    }

    /// The exchanges that notices are published to.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        match &self.strategy {
            Strategy::Levels => vec![levels::entry(self)],
            Strategy::Ladder(ladder) => {
                let levels = (!self.levels.is_empty()).then(|| levels::entry(self));
                levels.into_iter().chain(ladder::entries(ladder)).collect()
            }
            Strategy::DelayedExchange => vec![delayed_exchange::entry(self)],
        }
    }

    /// What publishers may send, by exchange and routing key: each level, or one delay that stands for all, with each
    /// timeout.
    pub fn publications(&self) -> impl Iterator<Item = (String, String)> {
        let of = move |delay: Level| {
            let ways = self.timeouts.iter().filter_map(move |timeout| {
                let route = self.route(&timeout.name, &Delay::Level(delay.name().to_owned()));
                route.ok().map(|Route { exchange, routing_key, .. }| (exchange, routing_key))
            });
            ways.collect::<Vec<_>>()
        };
        let (delays, ladder) = match &self.strategy {
            // A delay of a place's own digit would enter before it, by the lead.
            Strategy::Ladder(ladder) => (self.levels.clone(), Some(ladder)),
            Strategy::Levels | Strategy::DelayedExchange => (self.delays_to_try(), None),
        };
        let places = ladder.into_iter().flat_map(|ladder| {
            self.timeouts.iter().flat_map(|timeout| ladder::trials(ladder, &timeout.name))
        });
        let places = places.map(|Trial { route, .. }| (route.exchange, route.routing_key));
        delays.into_iter().flat_map(of).chain(places)
    }

    /// The queues of its ladder, if it has one.
    #[must_use]
    pub(crate) fn ladder_queues(&self) -> Vec<String> {
        self.strategy.ladder().map(ladder::queues).unwrap_or_default()
    }

    /// The delays that it has by name, in short: `14 levels, 1s to 30d`.
    #[must_use]
    pub(crate) fn delays_in_short(&self) -> String {
        match &self.strategy {
            Strategy::Levels => levels::in_short(&self.levels, self.lead),
            Strategy::Ladder(ladder) if self.levels.is_empty() => {
                format!("a ladder: {}", ladder.summary())
            }
            Strategy::Ladder(ladder) => {
                format!(
                    "{}, and a ladder: {}",
                    levels::in_short(&self.levels, self.lead),
                    ladder.summary()
                )
            }
            Strategy::DelayedExchange => "any delay, by the plugin's exchange".to_owned(),
        }
    }

    /// Delays to try the strategy with: each level, or a short one.
    #[must_use]
    pub(crate) fn delays_to_try(&self) -> Vec<Level> {
        match &self.strategy {
            Strategy::Levels => self.levels.clone(),
            Strategy::Ladder(ladder) => {
                let holds = ladder.places().iter().map(|place| Ttl::of(place.unit()));
                let holds = holds.flatten().map(Level::of);
                self.levels.iter().cloned().chain(holds).collect()
            }
            Strategy::DelayedExchange => "1s".parse().into_iter().collect(),
        }
    }

    /// The routing key with which a message goes from any place of a ladder straight to the due exchange: each of its
    /// digits is 0. A ladder has as many digits as exchanges; `objects` may have those of an earlier one.
    #[must_use]
    pub(crate) fn key_through_the_ladder(&self, objects: &Objects, timeout: &Timeout) -> String {
        let prefix = format!("{}.ladder.", self.name);
        let places = objects.exchanges.keys().filter(|name| name.starts_with(&prefix)).count();
        format!("{}{}", "0.".repeat(places), timeout.name)
    }

    /// The exchange where what is due comes out, for the business queues and whoever else is bound there.
    #[must_use]
    pub(crate) fn comes_out_at(&self) -> String {
        match self.strategy {
            Strategy::Levels | Strategy::Ladder(_) => self.due_exchange(),
            Strategy::DelayedExchange => self.delayed_exchange(),
        }
    }

    /// Ways to try it: what each place that publishers use makes of a message that ends with `word`, as long as it
    /// comes out within `within`; and the delays that are longer, and so are not tried.
    #[must_use]
    pub(crate) fn trials(&self, word: &str, within: Duration) -> (Vec<Trial>, Vec<Level>) {
        let of_levels = self.levels.iter().map(|level| {
            let route = self.through(level, word);
            Trial { delay: level.clone(), is_level: true, route }
        });
        let of_strategy: Vec<Trial> = match &self.strategy {
            Strategy::Levels => Vec::new(),
            Strategy::Ladder(ladder) => ladder::trials(ladder, word),
            Strategy::DelayedExchange => vec![delayed_exchange::trial(self, word)],
        };
        let (fitting, longer): (Vec<Trial>, Vec<Trial>) =
            of_levels.chain(of_strategy).partition(|trial| trial.route.holds <= within);
        let longer = longer.into_iter().map(|trial| trial.delay).collect();
        let ladder = self.strategy.ladder().filter(|it| it.resolution() <= within);
        let through = ladder.map(|ladder| ladder::trials_through(ladder, word, within));
        (fitting.into_iter().chain(through.unwrap_or_default()).collect(), longer)
    }
}
