//! Marks: bindings that record the owner of a queue.
//!
//! A name proves nothing: any program may declare a queue `orders.refunds`. Each queue of this program is therefore bound to
//! `orders.owned`, an exchange of its topology without publishers. The routing key is the role of the queue. A binding can
//! also be added to an existing queue; an argument cannot.

use std::collections::BTreeMap;

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

/// Separates the role of a queue of a removed timeout from the start of its retirement: `business/unpaid/leaving/1700000000`, in
/// seconds since 1970 by the clock of the broker.
const LEAVING: &str = "/leaving/";

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

    /// This mark of a queue, with the start of its retirement, in seconds since 1970.
    pub fn leaving(&self, since_s: u64) -> Self {
        Self { routing_key: format!("{}{LEAVING}{since_s}", self.role()), ..self.clone() }
    }

    /// The start of the retirement in this mark, if there is one.
    pub(crate) fn leaves(&self) -> Option<u64> {
        self.mark_of()?;
        since_s(self.routing_key.split_once(LEAVING)?.1)
    }

    /// The routing key of a mark, without the retirement.
    fn role(&self) -> &str {
        match self.routing_key.split_once(LEAVING) {
            Some((role, since)) if since_s(since).is_some() => role,
            _ => &self.routing_key,
        }
    }
}

/// Reads the start of a retirement; version 0.1.0 writes more numbers behind it.
fn since_s(text: &str) -> Option<u64> {
    text.split('/').next()?.parse().ok()
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

    /// The start of the retirement of `queue`, from its newest mark.
    pub fn leaving(&self, queue: &str) -> Option<u64> {
        self.marks_of(queue, true).filter_map(Binding::leaves).max()
    }
}
