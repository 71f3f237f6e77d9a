//! Canaries: messages that go the way of a notice and come back to the one who sent them.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::routing::route,
    plan::{generation::number_of, snapshot::Snapshot},
    text::one_line,
    topology::{Topology, level::Level},
};

/// A canary cannot be earlier than its TTL, but for the grain of two clocks.
const EARLY_MS: i64 = 50;

/// What is sent, and the queue it comes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canaries {
    /// The temporary queue, `orders.probe.<word>`.
    pub queue: String,
    /// Where canaries are published.
    pub entry_exchange: String,
    /// Where they come out.
    pub due_exchange: String,
    /// One per level that fits, then one per timeout.
    pub list: Vec<Canary>,
    /// Levels that are longer than the probe may take.
    pub too_long: Vec<String>,
}

/// One canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Unique in this probe; also its `message-id`.
    pub id: String,
    /// What it is published with.
    pub routing_key: String,
    /// The level it goes through.
    pub level: Level,
    /// What it tries.
    pub subject: Tried,
    /// What the temporary queue is bound by to get it.
    pub binding: String,
}

/// What a canary tries. In JSON: `{"kind": "level", "name": "5s"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Tried {
    /// A level: whether what is published to it comes out again.
    Level(String),
    /// A timeout: whether what is due for it comes out of the due exchange.
    Timeout(String),
}

impl From<Tried> for Subject {
    fn from(tried: Tried) -> Self {
        match tried {
            Tried::Level(name) => Self::Level(name),
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
    /// A canary for each level that lets go within `within`, and one for each timeout through the shortest of them.
    ///
    /// `word` stands in place of a timeout in the routing keys of the levels' canaries; it must be no timeout's
    /// name. `None` where every level is longer.
    #[must_use]
    pub fn new(topology: &Topology, word: &str, within: Duration) -> Option<Self> {
        let (fitting, longer): (Vec<&Level>, Vec<&Level>) =
            topology.levels.iter().partition(|level| level.ttl().as_duration() <= within);
        let shortest = fitting.iter().min_by_key(|level| level.ttl())?;
        let levels = fitting.iter().map(|level| Canary {
            id: format!("{word}-{level}"),
            routing_key: format!("{level}.{word}"),
            level: (*level).clone(),
            subject: Tried::Level(level.name().to_owned()),
            binding: format!("#.{word}"),
        });
        let timeouts = topology.timeouts.iter().map(|timeout| {
            // Not `#.unpaid`: that would copy everything that comes due meanwhile.
            let routing_key = Topology::routing_key(shortest, timeout);
            Canary {
                id: format!("{word}-{routing_key}"),
                binding: routing_key.clone(),
                routing_key,
                level: (*shortest).clone(),
                subject: Tried::Timeout(timeout.name.clone()),
            }
        });
        Some(Self {
            queue: format!("{}.probe.{word}", topology.name),
            entry_exchange: topology.entry_exchange(),
            due_exchange: topology.due_exchange(),
            list: levels.chain(timeouts).collect(),
            too_long: longer.into_iter().map(Level::to_string).collect(),
        })
    }
}

/// What the probe says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// How long the longest canary could wait, in milliseconds.
    pub within_ms: u64,
    /// One line per canary.
    pub canaries: Vec<Line>,
    /// Levels that were not tried, because they are longer.
    pub not_tried: Vec<String>,
    /// What is wrong; part of the report's findings.
    #[serde(skip)]
    pub findings: Vec<Diagnostic>,
}

/// What one canary says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What it tried.
    pub subject: Tried,
    /// The level it went through.
    pub level: String,
    /// How much later than the level's TTL it came; negative is early; not there where it did not come.
    pub late_ms: Option<i64>,
    /// Why it did not come, where the broker said so.
    pub refused: Option<String>,
    /// For a timeout: its queues that are bound to get what the canary got.
    pub bound: Vec<String>,
}

/// Compares what was sent with what came back. `observed` says which queues are bound for a timeout.
#[must_use]
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
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    Probe { within_ms, canaries: lines, not_tried: canaries.too_long.clone(), findings }
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
            let ttl = i64::try_from(canary.level.ttl().as_millis()).unwrap_or(i64::MAX);
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
    Line { subject, level: canary.level.to_string(), late_ms, refused, bound }
}

/// The queues of the canary's timeout that the due exchange leads its routing key to.
fn bound(topology: &Topology, observed: &Snapshot, canary: &Canary) -> Vec<String> {
    let Tried::Timeout(name) = &canary.subject else { return Vec::new() };
    let Some(timeout) = topology.timeout(name) else { return Vec::new() };
    let base = topology.business_queue(timeout);
    let due = topology.due_exchange();
    let routed = route(&observed.objects, &due, &canary.routing_key);
    routed.queues.into_iter().filter(|queue| number_of(&base, queue).is_some()).collect()
}

fn finding(topology: &Topology, canary: &Canary, line: &Line, all: &[Line]) -> Option<Diagnostic> {
    let error = |message: String, reason: &str| {
        Diagnostic {
        rule: "canary",
        severity: Severity::Error,
        subject: canary.subject.clone().into(),
        message,
        reason: Some(reason.to_owned()),
        fix: Some(Fix::Text(
            "fix what else was found; overdue plan shows what is missing, overdue doctor how the broker is"
                .to_owned(),
        )),
    }
    };
    let level = Tried::Level(canary.level.name().to_owned());
    let level_works = all.iter().any(|other| other.subject == level && other.late_ms.is_some());
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
        (None, None, Tried::Level(_)) => Some(error(
            "its canary did not come back".to_owned(),
            "a notice that is published to it does not come out either, or much too late",
        )),
        // The level is to blame, and reported already.
        (None, None, Tried::Timeout(_)) if !level_works => None,
        (None, None, Tried::Timeout(_)) => Some(error(
            format!("its canary did not come back through exchange {}", topology.due_exchange()),
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
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_level = matches!(self.subject, Tried::Level(_));
        if !is_level {
            write!(f, "through level {}: ", self.level)?;
        }
        match (self.late_ms, &self.refused) {
            (Some(late), _) if late < 0 => write!(f, "{} ms EARLY", late.unsigned_abs())?,
            (Some(late), _) => write!(f, "{late} ms late")?,
            (None, Some(reason)) => write!(f, "REFUSED: {}", one_line(reason))?,
            (None, None) => write!(f, "LOST")?,
        }
        match (is_level, self.bound.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => write!(f, "; NO QUEUE of it is bound"),
            (false, false) => write!(f, "; bound: {}", self.bound.join(", ")),
        }
    }
}
