//! How the broker of a topology delays messages. Other modules ask this module, and do not assume a queue per level.

use std::time::Duration;

use super::{
    Timeout, Topology,
    file::QueueType,
    level::{Lead, Level, Ttl, best_level},
    route::{Delay, Route, RouteError},
    strategy::{BeforeTimeout, DELAYED_EXCHANGE_TYPE, Entry, Strategy},
};
use crate::{
    ladder::{
        Ends, Ladder,
        path::{Path, Rounding},
    },
    objects::{Argument, DELAYED_TYPE, Objects},
    text::counted,
};

/// The longest `x-delay` in milliseconds, 49.7 days; with a longer one the plugin routes at once
/// (<https://github.com/rabbitmq/rabbitmq-delayed-message-exchange#performance-impact>).
pub(crate) const MAX_DELAY_MS: u32 = u32::MAX;

/// The delay of a trial message, in milliseconds.
const TRIED_MS: u32 = 1_000;

const NANOS_PER_MS: u128 = 1_000_000;

/// A test message and its route, to try how the broker delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// How long the broker delays the message, e.g. `5s`.
    pub(crate) delay: Level,
    /// Whether the delay is a level with its own queue; otherwise the trial is for the exchange.
    pub(crate) is_level: bool,
    pub(crate) route: Route,
}

impl Topology {
    /// Adds the objects that delay messages.
    pub(super) fn declare_delays(&self, objects: &mut Objects) {
        declare_levels(self, objects);
        match &self.strategy {
            Strategy::Levels => {}
            Strategy::Ladder(ladder) => declare_ladder(self, ladder, objects),
            Strategy::DelayedExchange => declare_delayed_exchange(self, objects),
        }
    }

    /// The route that delays a message for `word` by `delay`, rounded as closely as the strategy can. A delay beyond the
    /// limit of one publish is cut to it. An error if nothing delays, or if rounding up finds no delay that is long enough.
    pub(super) fn enter(
        &self,
        delay: Duration,
        word: &str,
        rounding: Rounding,
    ) -> Result<Route, RouteError> {
        match &self.strategy {
            Strategy::Levels => enter_level(self, delay, word, rounding),
            Strategy::Ladder(ladder) => enter_ladder((ladder, self.lead), delay, word, rounding),
            Strategy::DelayedExchange => enter_delayed_exchange(self, delay, word, rounding),
        }
    }

    /// The longest `x-delay` that delays: the plugin's limit, or the ladder's if that is longer.
    pub fn longest_x_delay(&self) -> Duration {
        let of_plugin = Duration::from_millis(MAX_DELAY_MS.into());
        match &self.strategy {
            Strategy::Ladder(ladder) => ladder.max().max(of_plugin),
            Strategy::Levels | Strategy::DelayedExchange => of_plugin,
        }
    }

    /// The smallest lead of all delays, except of delays below the shortest level.
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

    /// The route through the queue of a level.
    pub(super) fn through(&self, level: &Level, word: &str) -> Route {
        let holds = self.lead.lets_go(level).as_duration();
        Route {
            exchange: self.entry_exchange(),
            routing_key: format!("{}.{word}", level.name()),
            x_delay: None,
            holds,
            early: level.ttl().as_duration().saturating_sub(holds),
            queues: vec![self.delay_queue(level)],
        }
    }

    /// Changes a route for a worker, which publishes `mandatory`: the broker returns an unroutable message before the
    /// confirm, and does not park it. The plugin's exchange cannot return messages, so its routes stay the same.
    pub fn again(&self, route: Route) -> Route {
        let exchange = match &self.strategy {
            _ if route.exchange == self.entry_exchange() => self.again_exchange(),
            Strategy::Ladder(ladder) if !route.queues.is_empty() => ladder.again_exchange(),
            _ => return route,
        };
        Route { exchange, ..route }
    }

    /// The exchange to which workers republish notices.
    pub fn put_back_to(&self) -> String {
        match &self.strategy {
            Strategy::Levels => self.again_exchange(),
            Strategy::Ladder(ladder) => ladder.again_exchange(),
            Strategy::DelayedExchange => self.delayed_exchange(),
        }
    }

    /// Whether `exchange` returns republished messages that no level takes.
    pub(crate) fn is_again(&self, exchange: &str) -> bool {
        let of_ladder = self.strategy.ladder().map(Ladder::again_exchange);
        exchange == self.again_exchange() || of_ladder.as_deref() == Some(exchange)
    }

    /// The exchanges that notices are published to.
    pub fn entries(&self) -> Vec<Entry> {
        match &self.strategy {
            Strategy::Levels => vec![levels_entry(self)],
            Strategy::Ladder(ladder) => {
                let levels = (!self.levels.is_empty()).then(|| levels_entry(self));
                levels.into_iter().chain(ladder_entries(ladder)).collect()
            }
            Strategy::DelayedExchange => vec![delayed_exchange_entry(self)],
        }
    }

    /// Exchange and routing key of each message that publishers may send: each level, or one delay that stands for all, with
    /// each timeout.
    pub fn publications(&self) -> impl Iterator<Item = (String, String)> {
        let of = move |delay: Level| {
            let ways = self.timeouts.iter().filter_map(move |timeout| {
                let route = self.route(&timeout.name, &Delay::Level(delay.name().to_owned()));
                route.ok().map(|Route { exchange, routing_key, .. }| (exchange, routing_key))
            });
            ways.collect::<Vec<_>>()
        };
        let (delays, ladder) = match &self.strategy {
            // A route of a place's unit would begin at a smaller place, because of the lead.
            Strategy::Ladder(ladder) => (self.levels.clone(), Some(ladder)),
            Strategy::Levels | Strategy::DelayedExchange => (self.delays_to_try(), None),
        };
        let places = ladder.into_iter().flat_map(|ladder| {
            self.timeouts.iter().flat_map(|timeout| ladder_trials(ladder, &timeout.name))
        });
        let places = places.map(|Trial { route, .. }| (route.exchange, route.routing_key));
        delays.into_iter().flat_map(of).chain(places)
    }

    /// The queues of the ladder; empty without a ladder.
    pub(crate) fn ladder_queues(&self) -> Vec<String> {
        let of = |ladder: &Ladder| {
            let places = ladder.places().iter();
            let queues = places
                .flat_map(|place| (1..=place.highest()).map(|digit| ladder.queue(*place, digit)));
            queues.collect()
        };
        self.strategy.ladder().map(of).unwrap_or_default()
    }

    /// A summary of the delays: `14 levels, 1s to 30d`.
    pub(crate) fn delays_in_short(&self) -> String {
        match &self.strategy {
            Strategy::Levels => levels_in_short(&self.levels, self.lead),
            Strategy::Ladder(ladder) if self.levels.is_empty() => {
                format!("a ladder: {}", ladder.summary())
            }
            Strategy::Ladder(ladder) => {
                let levels = levels_in_short(&self.levels, self.lead);
                format!("{levels}, and a ladder: {}", ladder.summary())
            }
            Strategy::DelayedExchange => "any delay, by the plugin's exchange".to_owned(),
        }
    }

    /// Delays to try the strategy with: each level and each place of the ladder, or a short delay.
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

    /// The routing key that sends a message from any place of a ladder straight to the due exchange: all its digits are 0. A
    /// ladder has fewer digits than exchanges, and more zeros do no harm. `objects` may contain exchanges of an earlier
    /// ladder.
    pub(crate) fn key_through_the_ladder(&self, objects: &Objects, timeout: &Timeout) -> String {
        let prefix = format!("{}.ladder.", self.name);
        let places = objects.exchanges.keys().filter(|name| name.starts_with(&prefix)).count();
        format!("{}{}", "0.".repeat(places), timeout.name)
    }

    /// The exchange that routes due messages to the business queues and to other consumers' queues.
    pub(crate) fn comes_out_at(&self) -> String {
        match self.strategy {
            Strategy::Levels | Strategy::Ladder(_) => self.due_exchange(),
            Strategy::DelayedExchange => self.delayed_exchange(),
        }
    }

    /// Trials of each exchange that publishers use, and the delays that are longer than `within` and so are not tried. The
    /// routing keys of the trials end with `word`.
    pub(crate) fn trials(&self, word: &str, within: Duration) -> (Vec<Trial>, Vec<Level>) {
        let of_levels = self.levels.iter().map(|level| {
            let route = self.through(level, word);
            Trial { delay: level.clone(), is_level: true, route }
        });
        let of_strategy: Vec<Trial> = match &self.strategy {
            Strategy::Levels => Vec::new(),
            Strategy::Ladder(ladder) => ladder_trials(ladder, word),
            Strategy::DelayedExchange => vec![delayed_exchange_trial(self, word)],
        };
        let (fitting, longer): (Vec<Trial>, Vec<Trial>) =
            of_levels.chain(of_strategy).partition(|trial| trial.route.holds <= within);
        let longer = longer.into_iter().map(|trial| trial.delay).collect();
        let ladder = self.strategy.ladder().filter(|it| it.resolution() <= within);
        let through = ladder.map(|ladder| ladder_trials_through(ladder, word, within));
        (fitting.into_iter().chain(through.unwrap_or_default()).collect(), longer)
    }
}

// A queue per level.

/// The queue of each level, bound by its name to the exchanges of publishers and of workers.
fn declare_levels(topology: &Topology, objects: &mut Objects) {
    for level in &topology.levels {
        let mut arguments = topology.dead_lettering(&topology.due_exchange());
        let ttl = topology.lead.lets_go(level);
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        arguments.push(("x-message-ttl", Argument::Integer(ttl_ms)));
        let queue = topology.delay_queue(level);
        objects.queue(topology, &queue, arguments);
        for exchange in [topology.entry_exchange(), topology.again_exchange()] {
            objects.bind(&exchange, &queue, &format!("{}.*", level.name()));
        }
    }
}

fn enter_level(
    topology: &Topology,
    delay: Duration,
    word: &str,
    rounding: Rounding,
) -> Result<Route, RouteError> {
    let level = match rounding {
        Rounding::Down => {
            best_level(&topology.levels, topology.lead, delay).ok_or(RouteError::NoDelay)
        }
        Rounding::Up => shortest_not_below(topology, delay),
    };
    Ok(topology.through(level?, word))
}

fn shortest_not_below(topology: &Topology, delay: Duration) -> Result<&Level, RouteError> {
    let levels = topology.levels.iter();
    let holds = |level: &Level| topology.lead.lets_go(level).as_duration();
    let enough = levels.clone().filter(|level| holds(level) >= delay);
    enough.min_by_key(|level| level.ttl()).ok_or_else(|| {
        let longest = levels.map(holds).max();
        longest.map_or(RouteError::NoDelay, |longest| RouteError::TooLong { delay, longest })
    })
}

fn levels_entry(topology: &Topology) -> Entry {
    let levels = topology.levels.iter().map(Level::to_string).collect();
    Entry { exchange: topology.entry_exchange(), before: BeforeTimeout::Levels(levels) }
}

fn levels_in_short(levels: &[Level], lead: Lead) -> String {
    let number = counted(levels.len(), "level");
    let range = match (levels.first(), levels.last()) {
        (Some(first), Some(last)) if levels.len() > 1 => format!("{number}, {first} to {last}"),
        _ => number,
    };
    match levels.last().map(|longest| lead.of(longest.ttl().as_duration())) {
        Some(lead) if !lead.is_zero() => format!("{range}, let go up to {lead:?} early"),
        _ => range,
    }
}

// A ladder, and levels next to it.

fn declare_ladder(topology: &Topology, ladder: &Ladder, objects: &mut Objects) {
    let (due, park) = (topology.due_exchange(), topology.park_exchange());
    let quorum = topology.queue_type == QueueType::Quorum;
    let ends = Ends { due_exchange: &due, park_exchange: &park, quorum };
    let Objects { exchanges, queues, bindings } = ladder.objects(&ends);
    objects.exchanges.extend(exchanges);
    objects.queues.extend(queues);
    objects.bindings.extend(bindings);
}

/// A delay longer than the ladder's maximum gets the maximum; the worker delays the message again for the remaining time.
fn enter_ladder(
    (ladder, lead): (&Ladder, Lead),
    delay: Duration,
    word: &str,
    rounding: Rounding,
) -> Result<Route, RouteError> {
    let delay = delay.min(ladder.max());
    let exact = ladder.enter(delay, rounding, word)?;
    if rounding == Rounding::Up {
        return Ok(exact.into());
    }
    let earlier =
        ladder.enter(delay.saturating_sub(lead.through_a_ladder(delay)), rounding, word)?;
    // An additional hop costs the broker more than the lead saves: 30 minutes are one hop, and a second less is four hops.
    let costs_nothing = (1..=exact.hops.len()).contains(&earlier.hops.len());
    Ok(if costs_nothing { earlier.into() } else { exact.into() })
}

impl From<Path> for Route {
    fn from(path: Path) -> Self {
        Self {
            holds: path.total(),
            early: Duration::ZERO,
            exchange: path.exchange,
            routing_key: path.routing_key,
            x_delay: None,
            queues: path.hops.into_iter().map(|hop| hop.queue).collect(),
        }
    }
}

/// A trial of digit 1 at each place, smallest place first.
fn ladder_trials(ladder: &Ladder, word: &str) -> Vec<Trial> {
    let places = ladder.places().iter();
    places
        .filter_map(|place| ladder_trial(ladder.enter(place.unit(), Rounding::Down, word).ok()?))
        .collect()
}

/// Trials of places whose unit is longer than `within`: all digits are 0 except the smallest.
fn ladder_trials_through(ladder: &Ladder, word: &str, within: Duration) -> Vec<Trial> {
    let places = ladder.places().iter().enumerate().filter(|(_, place)| place.unit() > within);
    places.filter_map(|(index, _)| ladder_trial(ladder.through(index, word))).collect()
}

fn ladder_trial(path: Path) -> Option<Trial> {
    let delay = Level::of(Ttl::of(path.total())?);
    Some(Trial { delay, is_level: false, route: path.into() })
}

/// The exchange of each place, largest first.
fn ladder_entries(ladder: &Ladder) -> impl Iterator<Item = Entry> {
    let places = ladder.places().iter().enumerate().rev();
    places.map(|(index, place)| Entry {
        exchange: ladder.exchange(*place),
        before: BeforeTimeout::Digits(index + 1),
    })
}

// The plugin's exchange keeps a message in memory of one node until its `x-delay` is over, and then routes it. So it has no
// alternate exchange (which would get every message at once), and a message that no binding takes at that time is lost.

fn declare_delayed_exchange(topology: &Topology, objects: &mut Objects) {
    let exchange = topology.delayed_exchange();
    objects.exchange_with(&exchange, DELAYED_EXCHANGE_TYPE, vec![(DELAYED_TYPE, "topic".into())]);
    for timeout in &topology.timeouts {
        let queue = topology.business_queue(timeout);
        objects.bind(&exchange, &queue, &format!("#.{}", timeout.name));
    }
}

/// A delay longer than the plugin's maximum gets the maximum; the worker delays the message again for the remaining time.
fn enter_delayed_exchange(
    topology: &Topology,
    delay: Duration,
    word: &str,
    rounding: Rounding,
) -> Result<Route, RouteError> {
    let longest = Duration::from_millis(MAX_DELAY_MS.into());
    let ms = match rounding {
        // The worker delays the message again; the lead is subtracted from the last part only.
        Rounding::Down if delay >= longest => longest.as_millis(),
        Rounding::Down => delay.saturating_sub(topology.lead.of(delay)).as_millis(),
        Rounding::Up if delay > longest => return Err(RouteError::TooLong { delay, longest }),
        Rounding::Up => delay.as_nanos().div_ceil(NANOS_PER_MS),
    };
    Ok(held(topology, u32::try_from(ms).unwrap_or(MAX_DELAY_MS), word))
}

fn held(topology: &Topology, ms: u32, word: &str) -> Route {
    Route {
        exchange: topology.delayed_exchange(),
        routing_key: word.to_owned(),
        // With 0 the plugin routes at once; 1 is its smallest delay.
        x_delay: Some(ms.max(1)),
        holds: Duration::from_millis(ms.into()),
        early: Duration::ZERO,
        queues: Vec::new(),
    }
}

/// A single trial: the plugin treats all delays alike.
fn delayed_exchange_trial(topology: &Topology, word: &str) -> Trial {
    let route = held(topology, TRIED_MS, word);
    Trial { delay: Level::of(route.delay_ttl()), is_level: false, route }
}

fn delayed_exchange_entry(topology: &Topology) -> Entry {
    Entry { exchange: topology.delayed_exchange(), before: BeforeTimeout::Nothing }
}
