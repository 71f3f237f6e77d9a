//! The pipeline as a picture: stages from left to right, each with its places, messages and rates.
//!
//! Its nodes come from `graph`; a page has room for numbers, and wraps the stages on a narrow screen.

use std::collections::BTreeMap;

use super::{
    moment::Moment,
    overview::{Tone, number, rate},
};
use crate::{
    graph::{Count, Graph, Kind, Live, Node},
    plan::{generation::number_of, snapshot::QueueStats},
    status::StatusLevel,
    topology::Topology,
};

/// Places at the same step of a message's route.
pub(super) struct Stage {
    pub(super) title: String,
    pub(super) details: String,
    pub(super) places: Vec<Place>,
    /// Drawn below the others.
    pub(super) is_aside: bool,
}

/// An exchange, a queue, or a program at either end.
#[derive(Default)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) details: String,
    /// Messages in it.
    pub(super) count: Option<String>,
    /// Messages in percent of the fullest place of the stage.
    pub(super) share: u64,
    /// Further numbers, each with its name.
    pub(super) numbers: Vec<(&'static str, String)>,
    pub(super) word: String,
    pub(super) tone: Tone,
}

/// The stages with the counts of `moment`; without counts if the broker does not answer.
pub(super) fn stages(topology: &Topology, moment: &Moment) -> Vec<Stage> {
    let live = moment.queues.as_ref().map(|queues| Live::of(topology, &queues.observed));
    let graph = Graph::of(topology, live.as_ref());
    let none = BTreeMap::new();
    let stats = moment.queues.as_ref().map_or(&none, |queues| &queues.stats);
    let drawn = Drawn { topology, graph: &graph, stats, is_known: live.is_some() };
    let entry = [drawn.named("services"), drawn.named("in")];
    let mut stages = vec![Stage::new("publish", "", entry.into_iter().flatten().collect())];
    stages.push(drawn.group("levels"));
    let due = drawn.named("dlx").into_iter().collect();
    stages.push(Stage::new("due", "", due));
    stages.push(drawn.group("business"));
    stages.push(Stage::new("close", "", vec![drawn.worker(moment), database(moment)]));
    let lots = drawn.of_kind(Kind::Parked).map(|node| drawn.queue(node)).collect();
    let details = "no route, or given up";
    stages.push(Stage { is_aside: true, ..Stage::new("parking lot", details, lots) });
    stages.retain(|stage| !stage.places.is_empty());
    stages
}

impl Stage {
    fn new(title: impl Into<String>, details: impl Into<String>, places: Vec<Place>) -> Self {
        Self { title: title.into(), details: details.into(), places, is_aside: false }
    }
}

/// The graph, and the counts of the broker.
struct Drawn<'a> {
    topology: &'a Topology,
    graph: &'a Graph,
    stats: &'a BTreeMap<String, QueueStats>,
    is_known: bool,
}

impl Drawn<'_> {
    fn named(&self, id: &str) -> Option<Place> {
        let node = self.graph.node(id)?;
        let details = details(node).unwrap_or_default();
        Some(Place { name: node.name.clone(), details, ..Place::default() })
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Node> {
        self.graph.nodes.iter().filter(move |node| node.kind == kind)
    }

    fn group(&self, id: &str) -> Stage {
        let Some(group) = self.graph.group(id) else { return Stage::new(id, "", Vec::new()) };
        let nodes: Vec<&Node> = group.nodes.iter().filter_map(|id| self.graph.node(id)).collect();
        let most = nodes.iter().filter_map(|node| messages(node)).max().unwrap_or(0).max(1);
        let places = nodes.into_iter().map(|node| {
            let share = messages(node).unwrap_or(0) * 100 / most;
            Place { share, ..self.queue(node) }
        });
        Stage::new(group.title.clone(), group.details.clone(), places.collect())
    }

    /// The place of a queue, or of a node with several queues.
    fn queue(&self, node: &Node) -> Place {
        let stats = self.stats.get(&node.name);
        let (word, tone) = word(node, stats);
        let mut numbers = Vec::new();
        if let Some(stats) = stats {
            let rates = [("in", stats.rates.published), ("out", stats.rates.acked)];
            let rates = rates.into_iter().filter(|(name, _)| {
                // Messages expire from levels, and the parking lot has no consumers, so neither has acks.
                *name == "in" || node.kind == Kind::Business
            });
            numbers.extend(rates.map(|(name, per_s)| (name, rate(per_s.unwrap_or_default()))));
            if node.kind == Kind::Business {
                let known = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), number);
                numbers.push(("ready", known(stats.messages_ready)));
                numbers.push(("unacked", known(stats.messages_unacknowledged)));
            }
        }
        Place {
            name: node.name.clone(),
            // A level's name is the end of its queue's name.
            details: details(node)
                .filter(|it| !node.name.ends_with(&format!(".{it}")))
                .unwrap_or_default(),
            count: node.messages.map(|count| count.to_string()),
            share: 0,
            numbers,
            word,
            tone,
        }
    }

    /// The workers; counts the consumers of the queue that has the most.
    fn worker(&self, moment: &Moment) -> Place {
        let queues = self.topology.all_business_queues();
        let consumers = |base: String| {
            let nodes = self.of_kind(Kind::Business);
            let own = nodes.filter(|node| number_of(&base, &node.name).is_some());
            own.filter_map(|node| self.stats.get(&node.name)?.consumers).sum::<u64>()
        };
        let consumers = queues.map(consumers).max().unwrap_or(0);
        let (word, tone) = match (self.is_known, consumers) {
            (false, _) => ("not known", Tone::Look),
            (true, 0) => ("none runs", Tone::Bad),
            (true, _) => ("running", Tone::Ok),
        };
        let per_s = moment.reading.database.get().map(|database| database.closings.closed_per_s);
        let mut numbers = vec![("consumers", number(consumers))];
        numbers.extend(per_s.map(|per_s| ("closes", rate(per_s))));
        Place {
            name: "workers".to_owned(),
            details: "overdue run".to_owned(),
            numbers,
            word: word.to_owned(),
            tone,
            ..Place::default()
        }
    }
}

/// The state of a queue in words.
fn word(node: &Node, stats: Option<&QueueStats>) -> (String, Tone) {
    let said = |word: &str, tone| (word.to_owned(), tone);
    let count = messages(node).unwrap_or(0);
    match node.messages {
        None | Some(Count::Unknown) => return said("not known", Tone::Look),
        Some(Count::Absent) => return said("not there", Tone::Bad),
        Some(Count::Messages(_)) => {}
    }
    let consumers = stats.and_then(|stats| stats.consumers).unwrap_or(0);
    let ready = stats.and_then(|stats| stats.messages_ready).unwrap_or(0);
    match (node.kind, node.retired) {
        (_, true) if count > 0 => said("drains", Tone::Calm),
        (_, true) => said("retired, empty", Tone::Calm),
        (Kind::Parked, _) if count > 0 => said("to look at", Tone::Look),
        (Kind::Business, _) if consumers == 0 => said("blocked: no worker", Tone::Bad),
        (Kind::Business, _) if ready > 0 => said("waits for the workers", Tone::Look),
        (Kind::Business, _) if count > 0 => said("with the workers", Tone::Ok),
        (Kind::Business, _) => said("consumed", Tone::Ok),
        (Kind::Delay, _) if count > 0 => said("waits", Tone::Calm),
        _ => said("empty", Tone::Calm),
    }
}

fn database(moment: &Moment) -> Place {
    let mut shown = Place {
        name: "PostgreSQL".to_owned(),
        details: "orders, outbox".to_owned(),
        ..Place::default()
    };
    let Some(database) = moment.reading.database.get() else {
        return Place { word: "does not answer".to_owned(), tone: Tone::Bad, ..shown };
    };
    if let Some(due) = database.due.get() {
        shown.numbers.push(("overdue", number(due.overdue)));
    }
    shown.numbers.push(("outbox", number(database.outbox.events)));
    let is_late = moment.state.word == StatusLevel::Late;
    let (word, tone) = match database.obstacle {
        Some(_) => ("orders are held", Tone::Bad),
        None if is_late => ("orders are late", Tone::Bad),
        None => ("answers", Tone::Ok),
    };
    Place { word: word.to_owned(), tone, ..shown }
}

fn messages(node: &Node) -> Option<u64> {
    match node.messages {
        Some(Count::Messages(messages)) => Some(messages),
        _ => None,
    }
}

fn details(node: &Node) -> Option<String> {
    let lines: Vec<String> = node.details.iter().map(|line| line.join(" · ")).collect();
    (!lines.is_empty()).then(|| lines.join(" · "))
}
