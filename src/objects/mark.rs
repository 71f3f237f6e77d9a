//! Marks: bindings that say whose a queue is.
//!
//! A name says nothing: anybody may call a queue `orders.refunds`. So each queue that this program makes is bound to an
//! exchange of its topology that nothing is published to, `orders.owned`, with its role as the routing key. A binding
//! can also be added to a queue that is there already, which an argument cannot.

use std::{collections::BTreeMap, fmt};

use super::{Binding, Objects, shard};

/// What the name of the exchange of marks ends with.
const SUFFIX: &str = ".owned";

/// `orders.owned`, which the queues of a topology are bound to as a mark.
pub(crate) fn mark_exchange(topology: &str) -> String {
    format!("{topology}{SUFFIX}")
}

/// The mark of `queue` as one of `topology`; none where no queue of that topology has such a name.
pub fn mark(topology: &str, queue: &str) -> Option<Binding> {
    let role = role(queue.strip_prefix(topology)?.strip_prefix('.')?)?;
    Some(Binding {
        source: mark_exchange(topology),
        destination: queue.to_owned(),
        to_queue: true,
        routing_key: role,
        arguments: BTreeMap::new(),
    })
}

/// The mark of an exchange that comes and goes with the strategy, e.g. `orders.delayed`; none for every other.
pub fn exchange_mark(topology: &str, exchange: &str) -> Option<Binding> {
    let role = exchange_role(exchange.strip_prefix(topology)?.strip_prefix('.')?)?;
    Some(Binding {
        source: mark_exchange(topology),
        destination: exchange.to_owned(),
        to_queue: false,
        routing_key: role,
        arguments: BTreeMap::new(),
    })
}

/// The role of an exchange whose name others have chosen.
const TAKEN_OVER: &str = "exchange/taken-over";

/// The mark of an exchange with a name that others have chosen.
pub(crate) fn taken_over_mark(topology: &str, exchange: &str) -> Binding {
    Binding {
        source: mark_exchange(topology),
        destination: exchange.to_owned(),
        to_queue: false,
        routing_key: TAKEN_OVER.to_owned(),
        arguments: BTreeMap::new(),
    }
}

/// `exchange/delayed` for `delayed`, `exchange/ladder/…` for an exchange of a ladder, `exchange/shards/unpaid` for
/// `unpaid.shards`.
fn exchange_role(rest: &str) -> Option<String> {
    if let Some(timeout) = shard::of_exchange(rest).filter(|it| !it.contains('.')) {
        return Some(format!("exchange/shards/{timeout}"));
    }
    let ladder = rest.strip_prefix("ladder.").map(|place| format!("ladder/{place}"));
    let known = match rest {
        "delayed" => Some(rest.to_owned()),
        "compat.in" | "compat.rest" | "compat.due" => Some(rest.replace('.', "/")),
        _ => ladder,
    };
    known.map(|known| format!("exchange/{known}"))
}

/// Between the role and since when a queue leaves.
const LEAVING: &str = "/leaving/";

/// Since when the queue of a removed timeout leaves, as its mark says: `business/unpaid/leaving/1700000000/42/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaving {
    /// Seconds since 1970, by the clock of the broker.
    pub since_s: u64,
    /// Acks that the broker had counted on the queue; `None` if that proves nothing.
    pub acked: Option<Acks>,
}

/// How many messages of a queue were acked, since its leader was elected or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acks {
    /// As the broker counts them. It begins at zero when a node starts.
    pub count: u64,
    /// The queue's Raft term, which grows with each election: also when its leader's node has started again.
    pub term: u64,
}

impl Leaving {
    fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = text.split('/').map(|it| it.parse().ok()).collect();
        match numbers?[..] {
            [since_s] => Some(Self { since_s, acked: None }),
            [since_s, count, term] => Some(Self { since_s, acked: Some(Acks { count, term }) }),
            _ => None,
        }
    }
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.since_s)?;
        self.acked.map_or(Ok(()), |Acks { count, term }| write!(f, "/{count}/{term}"))
    }
}

/// `delay/30m` for `delay.30m` and `delay.30m.2`, `business/unpaid` for `unpaid` and its shards, and `parked`.
fn role(rest: &str) -> Option<String> {
    let generation = |last: &str| last.bytes().all(|byte| byte.is_ascii_digit());
    let base = match rest.rsplit_once('.') {
        Some((base, last)) if generation(last) => base,
        _ => rest,
    };
    match base.split_once('.') {
        None if base.is_empty() => None,
        None if base == "parked" => Some(base.to_owned()),
        None => Some(format!("business/{base}")),
        Some((timeout, word)) if shard::number(word).is_some() => {
            Some(format!("business/{timeout}"))
        }
        Some(("delay", level)) if !level.contains('.') => Some(format!("delay/{level}")),
        Some(("ladder", digit)) => Some(format!("ladder/{digit}")),
        Some(("compat", level)) => {
            level.strip_prefix("delay.").map(|level| format!("compat/delay/{level}"))
        }
        Some(_) => None,
    }
}

impl Binding {
    /// The topology that has marked the destination with this binding; none where it is not a mark.
    pub fn mark_of(&self) -> Option<&str> {
        let topology = self.source.strip_suffix(SUFFIX)?;
        let plain = Self { routing_key: self.role().to_owned(), ..self.clone() };
        let wanted = if self.to_queue {
            mark(topology, &self.destination)
        } else if plain.routing_key == TAKEN_OVER {
            Some(taken_over_mark(topology, &self.destination))
        } else {
            exchange_mark(topology, &self.destination)
        };
        (wanted == Some(plain)).then_some(topology)
    }

    /// Whether it comes from an exchange that marks the objects of a topology.
    pub(super) fn is_by_a_mark(&self) -> bool {
        self.source.ends_with(SUFFIX)
    }

    /// This mark of a queue, as one that also says since when the queue leaves.
    pub fn leaving(&self, leaving: Leaving) -> Self {
        Self { routing_key: format!("{}{LEAVING}{leaving}", self.role()), ..self.clone() }
    }

    /// Since when the queue leaves, by this mark.
    pub(crate) fn leaves(&self) -> Option<Leaving> {
        self.mark_of()?;
        Leaving::parse(self.routing_key.strip_prefix(self.role())?.strip_prefix(LEAVING)?)
    }

    /// The routing key of a mark, without since when the queue leaves.
    fn role(&self) -> &str {
        match self.routing_key.split_once(LEAVING) {
            Some((role, leaving)) if Leaving::parse(leaving).is_some() => role,
            _ => &self.routing_key,
        }
    }
}

impl Objects {
    /// The topology whose mark `queue` has.
    pub fn owner_of(&self, queue: &str) -> Option<&str> {
        self.marks_of(queue, true).find_map(Binding::mark_of)
    }

    /// The topology whose mark `exchange` has.
    pub fn owner_of_exchange(&self, exchange: &str) -> Option<&str> {
        self.marks_of(exchange, false).find_map(Binding::mark_of)
    }

    fn marks_of(&self, name: &str, queue: bool) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(move |it| it.to_queue == queue && it.destination == name)
    }

    /// Since when `queue` leaves, by the newest of its marks.
    pub(crate) fn leaving(&self, queue: &str) -> Option<Leaving> {
        self.marks_of(queue, true).filter_map(Binding::leaves).max()
    }
}
