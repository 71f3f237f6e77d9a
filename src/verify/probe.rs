//! Canaries: messages that take the route of a notice and return to their sender.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::routing::route,
    plan::{
        generation::{is_of, number_of},
        snapshot::Snapshot,
    },
    text::{millis, one_line},
    topology::{
        Topology,
        delays::Trial,
        level::{Level, Ttl},
        route::Route,
        taken_over_exchange::XDelay,
    },
};

/// Tolerance for two clocks: a canary cannot arrive before its TTL.
const EARLY_MS: i64 = 50;

/// The shortest delay of a canary that is not a level, in milliseconds; a worker delays this canary.
const SHORTEST_MS: u64 = 1_000;

/// The messages of a probe, and the queue that they return to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canaries {
    /// The temporary queue, `orders.probe.<word>`.
    pub queue: String,
    /// A canary per level, per other exchange that publishers use, then per timeout.
    pub list: Vec<Canary>,
    /// Delays that are longer than the probe.
    pub too_long: Vec<String>,
    /// Canaries that are not sent, with the reasons.
    pub left_out: Vec<String>,
}

/// A message of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The `message-id`, unique in this probe.
    pub id: String,
    /// The exchange and routing key of the message, and its time on the broker.
    pub route: Route,
    /// The delay by its name.
    pub delay: Level,
    /// The level or exchange that delays the message.
    pub through: Tried,
    /// The object under test.
    pub subject: Tried,
    /// The exchange from which the message returns.
    pub comes_out_at: String,
    /// The binding key of the temporary queue at that exchange.
    pub binding: String,
}

/// The object that a canary tests. In JSON: `{"kind": "level", "name": "5s"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Tried {
    /// A level: its messages leave it again.
    Level(String),
    /// Another exchange that publishers use, of a ladder or of the plugin: its messages leave it again.
    Exchange(String),
    /// A timeout: its due messages leave the due exchange.
    Timeout(String),
}

impl From<Tried> for Subject {
    fn from(tried: Tried) -> Self {
        match tried {
            Tried::Level(name) => Self::Level(name),
            Tried::Exchange(name) => Self::Exchange(name),
            Tried::Timeout(name) => Self::Timeout(name),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Subject::from(self.clone()).fmt(f)
    }
}

/// The result of a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The canary returned.
    Arrived {
        /// The time since the canary was published.
        after: Duration,
    },
    /// The broker refused the canary.
    Refused {
        /// The answer of the broker.
        reason: String,
    },
    /// The canary did not return in time.
    Lost,
}

impl Canaries {
    /// A canary for each level that expires within `within`, for each other exchange that publishers use, and for each
    /// timeout, through the shortest delay.
    ///
    /// `word` replaces the timeout in the routing keys of the first two kinds; it must not be the name of a timeout. `None`
    /// if every delay is longer.
    pub fn new(topology: &Topology, word: &str, within: Duration) -> Option<Self> {
        let (trials, longer) = topology.trials(word, within);
        let first = trials.iter().min_by_key(|trial| trial.route.holds)?.route.clone();
        let delays = trials.into_iter().map(|trial| Canary {
            id: format!("{word}-{}", name_of(&trial)),
            through: tried(&trial),
            subject: tried(&trial),
            route: trial.route,
            delay: trial.delay,
            comes_out_at: topology.comes_out_at(),
            binding: format!("#.{word}"),
        });
        let timeouts = topology.timeouts.iter().filter_map(|timeout| {
            // The plugin's routing key has no level: without `word`, the binding would copy real notices that become due.
            let end = match first.x_delay {
                Some(_) => format!("{word}.{}", timeout.name),
                None => timeout.name.clone(),
            };
            let (trials, _) = topology.trials(&end, within);
            let trial = trials
                .into_iter()
                .find(|it| it.route.exchange == first.exchange && it.route.holds == first.holds)?;
            Some(Canary {
                id: format!("{word}-{}", trial.route.routing_key),
                // Not `#.unpaid`: that would copy all notices that become due during the probe.
                binding: trial.route.routing_key.clone(),
                comes_out_at: topology.comes_out_at(),
                through: tried(&trial),
                subject: Tried::Timeout(timeout.name.clone()),
                route: trial.route,
                delay: trial.delay,
            })
        });
        Some(Self {
            queue: format!("{}.probe.{word}", topology.name),
            list: delays.chain(timeouts).collect(),
            too_long: longer.iter().map(Level::to_string).collect(),
            left_out: Vec::new(),
        })
    }

    /// Adds canaries that a program for the plugin would send: one with the `x-delay` of a level, and another that a worker
    /// delays. Omits each if a foreign consumer would get it, or no worker would delay it.
    pub fn with_taken_over(
        mut self,
        topology: &Topology,
        observed: &Snapshot,
        word: &str,
        within: Duration,
    ) -> Self {
        let Some(compat) = &topology.compat else { return self };
        let listeners = listeners(topology, observed, word);
        if !listeners.is_empty() {
            let who = listeners.join(", ");
            self.left_out.push(format!("exchange {}: {who} would get it", compat.exchange));
            return self;
        }
        let shortest = topology.compat_levels().min_by_key(|level| level.ttl());
        self.list.extend(
            shortest
                .filter(|it| it.ttl().as_duration() <= within)
                .map(|level| taken_over(topology, compat, word, level.ttl())),
        );
        let other = other_delay(topology).filter(|ttl| ttl.as_duration() <= within);
        if !is_consumed(topology, observed) {
            self.left_out.push(format!(
                "exchange {} with an x-delay that is not a level: nobody consumes from {}",
                compat.exchange,
                topology.compat_queue()
            ));
        } else if let Some(ttl) = other {
            self.list.push(taken_over(topology, compat, word, ttl));
        }
        self
    }
}

/// Foreign queues that get the due messages.
fn listeners(topology: &Topology, observed: &Snapshot, word: &str) -> Vec<String> {
    let routed = route(&observed.objects, &topology.compat_due_exchange(), word);
    let parked = topology.parked_queue();
    let others = routed.queues.into_iter().filter(|queue| number_of(&parked, queue).is_none());
    others.map(|queue| format!("queue {queue}")).collect()
}

fn is_consumed(topology: &Topology, observed: &Snapshot) -> bool {
    let base = topology.compat_queue();
    observed.consumed.iter().any(|queue| number_of(&base, queue).is_some())
}

fn other_delay(topology: &Topology) -> Option<Ttl> {
    let is_level = |ms: &u64| topology.levels.iter().any(|level| level.ttl().as_millis() == *ms);
    // Of more delays than there are levels, one is not a level, so the search ends.
    let more = u64::try_from(topology.levels.len()).unwrap_or(u64::MAX);
    (SHORTEST_MS..=SHORTEST_MS.saturating_add(more))
        .find(|ms| !is_level(ms))
        .and_then(Ttl::from_millis)
}

fn taken_over(topology: &Topology, compat: &XDelay, word: &str, ttl: Ttl) -> Canary {
    let exchange = Tried::Exchange(compat.exchange.clone());
    let delay = Level::of(ttl);
    Canary {
        id: format!("{word}-x-delay-{delay}"),
        route: Route {
            exchange: compat.exchange.clone(),
            routing_key: word.to_owned(),
            x_delay: u32::try_from(ttl.as_millis()).ok(),
            holds: ttl.as_duration(),
            early: Duration::ZERO,
            queues: Vec::new(),
        },
        delay,
        through: exchange.clone(),
        subject: exchange,
        comes_out_at: topology.compat_due_exchange(),
        binding: word.to_owned(),
    }
}

fn name_of(trial: &Trial) -> &str {
    if trial.is_level { trial.delay.name() } else { &trial.route.exchange }
}

fn tried(trial: &Trial) -> Tried {
    let name = name_of(trial).to_owned();
    if trial.is_level { Tried::Level(name) } else { Tried::Exchange(name) }
}

/// The results of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The longest delay of a canary, in milliseconds.
    pub within_ms: u64,
    /// A result per canary.
    pub canaries: Vec<Line>,
    /// Delays that are longer than the probe.
    pub not_tried: Vec<String>,
    /// Canaries that were not sent, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The faults, as a part of the report's findings.
    #[serde(skip)]
    pub findings: Vec<Diagnostic>,
}

/// The result of a canary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The object under test.
    pub subject: Tried,
    /// The delay of the canary.
    pub level: String,
    /// The level or exchange that delayed the canary.
    #[serde(skip)]
    pub through: Tried,
    /// Whether the canary tested an exchange that is taken over, with this delay as `x-delay`.
    #[serde(skip)]
    pub taken_over: bool,
    /// Milliseconds after the delay, negative if early; `None` if the canary did not arrive.
    pub late_ms: Option<i64>,
    /// The reason for which the broker refused the canary.
    pub refused: Option<String>,
    /// The queues of the timeout that are bound to get the same messages.
    pub bound: Vec<String>,
}

/// Compares the sent with the returned canaries. `observed` has the queues that are bound for a timeout.
pub fn judge(
    topology: &Topology,
    observed: &Snapshot,
    canaries: &Canaries,
    fates: &BTreeMap<String, Fate>,
    within: Duration,
) -> Probe {
    let lines: Vec<Line> =
        canaries.list.iter().map(|canary| line(topology, observed, canary, fates)).collect();
    let findings = canaries
        .list
        .iter()
        .zip(&lines)
        .filter_map(|(canary, line)| finding(topology, canary, line, &lines))
        .collect();
    let within_ms = millis(within);
    let (not_tried, left_out) = (canaries.too_long.clone(), canaries.left_out.clone());
    Probe { within_ms, canaries: lines, not_tried, left_out, findings }
}

fn line(
    topology: &Topology,
    observed: &Snapshot,
    canary: &Canary,
    fates: &BTreeMap<String, Fate>,
) -> Line {
    let fate = fates.get(&canary.id);
    let late_ms = match fate {
        Some(Fate::Arrived { after }) => {
            let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            let ttl = i64::try_from(canary.route.holds.as_millis()).unwrap_or(i64::MAX);
            Some(after.saturating_sub(ttl))
        }
        _ => None,
    };
    let refused = match fate {
        Some(Fate::Refused { reason }) => Some(reason.clone()),
        _ => None,
    };
    let subject = canary.subject.clone();
    let bound = bound(topology, observed, canary);
    let (level, through) = (canary.delay.to_string(), canary.through.clone());
    let taken_over = canary.comes_out_at != topology.comes_out_at();
    Line { subject, level, through, taken_over, late_ms, refused, bound }
}

/// The queues of the canary's timeout that get messages with its routing key.
fn bound(topology: &Topology, observed: &Snapshot, canary: &Canary) -> Vec<String> {
    let Tried::Timeout(name) = &canary.subject else { return Vec::new() };
    let Some(timeout) = topology.timeout(name) else { return Vec::new() };
    let base = topology.business_queue(timeout);
    let routed = route(&observed.objects, &topology.comes_out_at(), &canary.route.routing_key);
    routed.queues.into_iter().filter(|queue| is_of(&base, queue)).collect()
}

fn finding(topology: &Topology, canary: &Canary, line: &Line, all: &[Line]) -> Option<Diagnostic> {
    let error = |message: String, reason: &str| {
        Diagnostic::new("canary", Severity::Error, canary.subject.clone().into(), message).because(reason).fix(Fix::Text(
            "fix what else was found; overdue plan shows what is missing, overdue doctor how the broker is"
                .to_owned(),
        ))
    };
    let mut others = all.iter().filter(|other| other.subject == canary.through);
    let delay_works = others.any(|other| other.late_ms.is_some());
    match (line.late_ms, &line.refused, &canary.subject) {
        (Some(late), ..) if late < -EARLY_MS => Some(error(
            format!("its canary came {} ms early", late.unsigned_abs()),
            "a policy or a binding lets messages out before their delay",
        )),
        (Some(_), ..) => None,
        (None, Some(reason), _) => Some(error(
            format!("its canary was refused: {reason}"),
            "notices are refused in the same way",
        )),
        (None, None, Tried::Level(_) | Tried::Exchange(_)) => Some(error(
            "its canary did not come back".to_owned(),
            "a notice that is published to it does not come out either, or much too late",
        )),
        // The cause is the level or exchange that delays the canary, which another finding reports.
        (None, None, Tried::Timeout(_)) if !delay_works => None,
        (None, None, Tried::Timeout(_)) => Some(error(
            format!("its canary did not come back through exchange {}", topology.comes_out_at()),
            "what is due for it does not reach its queue either, or much too late",
        )),
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Probe")?;
        let subjects: Vec<String> =
            self.canaries.iter().map(|line| line.subject.to_string()).collect();
        let width = subjects.iter().map(String::len).max().unwrap_or_default();
        for (subject, line) in subjects.iter().zip(&self.canaries) {
            writeln!(f, "  {subject:width$}  {line}")?;
        }
        if !self.not_tried.is_empty() {
            writeln!(f, "  not tried, because they take longer: {}", self.not_tried.join(", "))?;
        }
        for left_out in &self.left_out {
            writeln!(f, "  not tried: {left_out}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_timeout = matches!(self.subject, Tried::Timeout(_));
        if is_timeout {
            write!(f, "through {}: ", self.through)?;
        }
        if self.taken_over {
            write!(f, "x-delay of {}: ", self.level)?;
        }
        match (self.late_ms, &self.refused) {
            (Some(late), _) if late < 0 => write!(f, "{} ms EARLY", late.unsigned_abs())?,
            (Some(late), _) => write!(f, "{late} ms late")?,
            (None, Some(reason)) => write!(f, "REFUSED: {}", one_line(reason))?,
            (None, None) => write!(f, "LOST")?,
        }
        match (is_timeout, self.bound.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => write!(f, "; NO QUEUE of it is bound"),
            (true, false) => write!(f, "; bound: {}", self.bound.join(", ")),
        }
    }
}
