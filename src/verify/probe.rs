//! Canaries: messages that go the way of a notice and come back to the one who sent them.

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

/// A canary cannot be earlier than its TTL, but for the grain of two clocks.
const EARLY_MS: i64 = 50;

/// Where no level is as long, it goes through a worker.
const SHORTEST_MS: u64 = 1_000;

/// What is sent, and the queue it comes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canaries {
    /// The temporary queue, `orders.probe.<word>`.
    pub queue: String,
    /// One per level, and per other exchange that publishers use, then one per timeout.
    pub list: Vec<Canary>,
    /// Delays that are longer than the probe may take.
    pub too_long: Vec<String>,
    /// What else is not tried, and why.
    pub left_out: Vec<String>,
}

/// One canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Unique in this probe; also its `message-id`.
    pub id: String,
    /// Where it is published, and for how long the broker holds it.
    pub route: Route,
    /// The delay by its name.
    pub delay: Level,
    /// What holds it.
    pub through: Tried,
    /// What it tries.
    pub subject: Tried,
    /// Where it comes out.
    pub comes_out_at: String,
    /// What the temporary queue is bound by there to get it.
    pub binding: String,
}

/// What a canary tries. In JSON: `{"kind": "level", "name": "5s"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Tried {
    /// A level: whether what is published to it comes out again.
    Level(String),
    /// Another exchange that publishers use, of a ladder or of the plugin: the same.
    Exchange(String),
    /// A timeout: whether what is due for it comes out of the due exchange.
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

/// What became of a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It came back.
    Arrived {
        /// So long after it was published.
        after: Duration,
    },
    /// The broker did not take it.
    Refused {
        /// What the broker said.
        reason: String,
    },
    /// It did not come back in time.
    Lost,
}

impl Canaries {
    /// A canary for each level that lets go within `within`, for each other exchange that publishers use, and for each
    /// timeout through what lets go first.
    ///
    /// `word` stands in place of a timeout in the routing keys of the first ones; it must be no timeout's name. `None`
    /// where everything takes longer.
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
            // Where nothing else is in the key, what really comes due meanwhile is not to be copied.
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
                // Not `#.unpaid`: that would copy everything that comes due meanwhile.
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

    /// With those that programs for the plugin would send: one with the `x-delay` of a level, and one with another,
    /// which a worker delays. None is sent that a consumer of others would get, or that nobody would send on.
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

/// Queues of others that get what comes out there.
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
    // One more than there are levels cannot all be levels.
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

/// What the probe says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// How long the longest canary could wait, in milliseconds.
    pub within_ms: u64,
    /// One line per canary.
    pub canaries: Vec<Line>,
    /// Delays that were not tried, because they are longer.
    pub not_tried: Vec<String>,
    /// What else was not tried, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// What is wrong; part of the report's findings.
    #[serde(skip)]
    pub findings: Vec<Diagnostic>,
}

/// What one canary says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What it tried.
    pub subject: Tried,
    /// The delay it went through.
    pub level: String,
    /// What held it so long.
    #[serde(skip)]
    pub through: Tried,
    /// Whether it went through an exchange that is taken over, with this delay for its `x-delay`.
    #[serde(skip)]
    pub taken_over: bool,
    /// How much later than this delay it came; negative is early; not there where it did not come.
    pub late_ms: Option<i64>,
    /// Why it did not come, where the broker said so.
    pub refused: Option<String>,
    /// For a timeout: its queues that are bound to get what the canary got.
    pub bound: Vec<String>,
}

/// Compares what was sent with what came back. `observed` says which queues are bound for a timeout.
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

/// The queues of the canary's timeout that its routing key leads to from where it comes out.
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
        // What holds it is to blame, and reported already.
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
