//! Marks: bindings that record the owner of a queue.
//!
//! A name proves nothing: any program may declare a queue `orders.refunds`. Each queue of this program is therefore bound to
//! `orders.owned`, an exchange of its topology without publishers. The routing key is the role of the queue. A binding can
//! also be added to an existing queue; an argument cannot.

use std::{collections::BTreeMap, fmt};

use super::{Binding, Objects, shard};

/// Suffix of the exchange of marks.
const SUFFIX: &str = ".owned";

/// `orders.owned`, to which the queues of a topology are bound as a mark.
pub(crate) fn mark_exchange(topology: &str) -> String {
    format!("{topology}{SUFFIX}")
}

/// The mark of `queue` for `topology`; `None` if queues of the topology do not have such names.
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

/// The mark of an exchange that depends on the strategy, e.g. `orders.delayed`; `None` for other exchanges.
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

/// The role of an exchange whose name another program chose.
const TAKEN_OVER: &str = "exchange/taken-over";

/// The mark of an exchange whose name another program chose.
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

/// Separates the role from the start of the retirement.
const LEAVING: &str = "/leaving/";

/// The retirement of a removed timeout's queue, from its mark: `business/unpaid/leaving/1700000000/42/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaving {
    /// Start in seconds since 1970, by the clock of the broker.
    pub since_s: u64,
    /// Acks that the broker had counted on the queue; `None` if the count proves nothing.
    pub acked: Option<Acks>,
}

/// Number of acked messages of a queue, since the election of its leader or an earlier time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acks {
    /// The broker's count, which starts at zero when a node starts.
    pub count: u64,
    /// The queue's Raft term, which increases with each election, also after a restart of the leader's node.
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
    /// The topology that has marked the destination with this binding; `None` if the binding is not a mark.
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

    /// Whether the source is an exchange of marks.
    pub(super) fn is_by_a_mark(&self) -> bool {
        self.source.ends_with(SUFFIX)
    }

    /// This mark of a queue, with the start of its retirement.
    pub fn leaving(&self, leaving: Leaving) -> Self {
        Self { routing_key: format!("{}{LEAVING}{leaving}", self.role()), ..self.clone() }
    }

    /// The retirement in this mark, if there is one.
    pub(crate) fn leaves(&self) -> Option<Leaving> {
        self.mark_of()?;
        Leaving::parse(self.routing_key.strip_prefix(self.role())?.strip_prefix(LEAVING)?)
    }

    /// The routing key of a mark, without the retirement.
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

    /// The retirement of `queue` in its newest mark.
    pub(crate) fn leaving(&self, queue: &str) -> Option<Leaving> {
        self.marks_of(queue, true).filter_map(Binding::leaves).max()
    }
}
