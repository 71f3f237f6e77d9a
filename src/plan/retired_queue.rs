//! Retires a queue: unbinds it first, and deletes it when it is empty. Only `--discard` deletes a queue with messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Change, Contents, DrainStatus, Draining, Note, Plan, Reason, Refusal,
    generation::{Resolved, is_of, number_of},
    own_queues::{DelayQueueKind, Kind, message_ttl, named},
    snapshot::{Clock, Snapshot},
    way,
};
use crate::{
    objects::{Binding, Queue, mark::mark},
    topology::{
        Timeout, Topology,
        level::{MAX_TTL_MS, Ttl},
        strategy::DELAYED_EXCHANGE_TYPE,
    },
};

/// A mark may be newer than the broker's clock by this many seconds: the nodes of a cluster have several clocks.
const CLOCK_SKEW_S: u64 = 60;

/// A marked queue that the topology no longer has.
pub(super) struct RetiredQueue<'a> {
    pub(super) topology: &'a Topology,
    pub(super) observed: &'a Snapshot,
    pub(super) resolved: &'a Resolved,
    pub(super) discard: &'a BTreeSet<String>,
    pub(super) queue: &'a Queue,
    pub(super) kind: Kind<'a>,
}

impl RetiredQueue<'_> {
    pub(super) fn plan(&self, plan: &mut Plan) {
        let queue = self.queue.name.clone();
        // A queue with a foreign consumer is in use, whatever the topology says.
        if let Some(consumers) = self.observed.foreign_consumers.get(&queue).copied() {
            plan.notes.push(Note::Consumed { queue, consumers });
            return;
        }
        let messages = self.observed.messages_in(&queue);
        // Messages without a count are never discarded.
        let discarded = self.removed() && messages.is_some() && self.discard.contains(&queue);
        if self.removed() && self.discard.contains(&queue) {
            let exchange = self.delaying_source().map(str::to_owned);
            if exchange.is_some() || messages.is_none() {
                plan.refusals.push(Refusal::NotCounted { queue, exchange });
                return;
            }
        }
        if !discarded && let Some(drains) = self.stays(plan) {
            plan.draining.push(Draining { queue, messages, drains });
            return;
        }
        let (stays, goes): (Vec<&Binding>, Vec<&Binding>) =
            self.incoming().partition(|binding| !discarded && self.goes_with_its_exchange(binding));
        for binding in goes {
            plan.step(Change::Unbind(binding.clone()), self.reason(discarded));
        }
        let fed = matches!(self.drains(), DrainStatus::Fed { .. });
        if !fed && stays.is_empty() && (messages == Some(0) || discarded) {
            let lost = messages.unwrap_or_default();
            let reason = if discarded { Reason::Discarded } else { Reason::RetiredAndEmpty };
            plan.step(Change::DeleteQueue { queue, lost }, reason);
        } else {
            plan.draining.push(Draining { queue, messages, drains: self.drains() });
        }
    }

    /// How the queue drains while it stays bound for messages on their way to it; `None` without such messages, or if another
    /// queue gets them. Retired queues that lead to the queue are deleted first.
    fn stays(&self, plan: &mut Plan) -> Option<DrainStatus> {
        let is_digit = matches!(self.kind, Kind::Delay(DelayQueueKind::Digit(_)))
            && self.successor().is_none();
        if !(is_digit || self.removed()) || self.incoming().next().is_none() {
            return None;
        }
        // The plugin drops a due message without a route.
        if let Some(exchange) = self.delaying_source() {
            return Some(DrainStatus::Fed { exchange: exchange.to_owned() });
        }
        let mut before = BTreeMap::new();
        let way = way::longest(&self.observed.objects, self.queue, &mut before);
        let is_first = before.into_keys().all(|name| !self.is_retired_delay(name));
        if !is_digit {
            return self.leaves(way, is_first, plan);
        }
        let own = message_ttl(self.queue).map(Ttl::as_duration);
        let within = own.and_then(|own| at_most(way + own));
        let drains =
            within.map_or(DrainStatus::Never, |within| DrainStatus::AlongTheLadder { within });
        (!is_first).then_some(drains)
    }

    /// The queue of a removed timeout stays bound for `way` and [`Clock::stays_s`] after its mark. The mark is renewed until the
    /// last retired queue that leads to the queue is gone.
    fn leaves(&self, way: Duration, is_first: bool, plan: &mut Plan) -> Option<DrainStatus> {
        let Snapshot { objects, clock, .. } = self.observed;
        let name = &self.queue.name;
        // A mark from the future was set by a wrong clock, and would count for too long.
        let is_future = |since_s: &u64| clock.is_some_and(|it| *since_s > it.now_s + CLOCK_SKEW_S);
        let (since_s, future): (Option<u64>, Option<u64>) = match objects.leaving(name) {
            Some(since_s) if is_future(&since_s) => (None, Some(since_s)),
            since_s => (since_s, None),
        };
        let left = clock.filter(|_| is_first).map(|Clock { now_s, stays_s }| {
            let passed = since_s.map_or(0, |since_s| now_s.saturating_sub(since_s));
            (way + Duration::from_secs(stays_s)).saturating_sub(Duration::from_secs(passed))
        });
        if since_s.is_some() && left == Some(Duration::ZERO) {
            return None;
        }
        if !is_first || future.is_some() {
            let marks = objects.bindings.iter().filter(|it| it.destination == *name);
            for old in marks.filter(|it| it.leaves().is_some()) {
                plan.step(Change::Unbind(old.clone()), Reason::TimeoutLeaving);
            }
        }
        if is_first
            && since_s.is_none()
            && let Some(mark) = mark(&self.topology.name, name)
        {
            plan.step(Change::Leave(mark), Reason::TimeoutLeaving);
        }
        Some(DrainStatus::Leaving { within: left.and_then(at_most) })
    }

    /// Whether `queue` delays messages, is ours, and is no longer in the topology.
    fn is_retired_delay(&self, queue: &str) -> bool {
        let objects = &self.observed.objects;
        let kind = objects.queues.get(queue).and_then(|it| named(self.topology, it));
        !self.resolved.objects.queues.contains_key(queue)
            && objects.owner_of(queue) == Some(&self.topology.name)
            && matches!(kind, Some(Kind::Delay(_)))
    }

    /// Our exchange of the delayed message plugin that leads to the queue, if there is one.
    fn delaying_source(&self) -> Option<&str> {
        let sources = way::leading_to(&self.observed.objects, &self.queue.name);
        sources.into_iter().find(|it| self.is_delaying(it) && self.is_ours(it))
    }

    /// Whether the topology no longer has the queue's timeout.
    pub(super) fn removed(&self) -> bool {
        self.kind == Kind::Business && self.successor().is_none()
    }

    /// Bindings through which messages of this topology arrive.
    fn incoming(&self) -> impl Iterator<Item = &Binding> {
        self.bindings().filter(|binding| self.is_ours(&binding.source))
    }

    /// A foreign exchange that is bound to the queue: deleting the queue would lose its messages.
    fn foreign_source(&self) -> Option<&str> {
        let foreign = self.bindings().find(|binding| !self.is_ours(&binding.source));
        foreign.map(|binding| binding.source.as_str())
    }

    /// Bindings through which messages can arrive: without the binding of the default exchange, and without marks.
    fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.observed.objects.bindings.iter().filter(|binding| {
            binding.to_queue
                && binding.destination == self.queue.name
                && !binding.source.is_empty()
                && binding.mark_of().is_none()
        })
    }

    /// Whether the exchange is desired or has the topology's mark. A name is no proof: `orders.legacy` can be a foreign exchange.
    fn is_ours(&self, exchange: &str) -> bool {
        let marked = self.observed.objects.owner_of_exchange(exchange);
        self.resolved.objects.exchanges.contains_key(exchange)
            || marked == Some(&self.topology.name)
    }

    /// Whether the source of `binding` is a retired exchange of the delayed message plugin. The binding is deleted with it.
    fn goes_with_its_exchange(&self, binding: &Binding) -> bool {
        self.is_delaying(&binding.source)
            && !self.resolved.objects.exchanges.contains_key(&binding.source)
    }

    fn is_delaying(&self, exchange: &str) -> bool {
        let exchange = self.observed.objects.exchanges.get(exchange);
        exchange.is_some_and(|it| it.kind == DELAYED_EXCHANGE_TYPE)
    }

    /// The queue, or the exchange of shards, that replaces this queue; `None` without a replacement.
    fn successor(&self) -> Option<String> {
        let topology = self.topology;
        let mut bases = topology.objects().queues.into_keys();
        let base = bases.find(|base| number_of(base, &self.queue.name).is_some());
        let base = base.or_else(|| {
            let of_it = |it: &&Timeout| is_of(&topology.business_queue(it), &self.queue.name);
            let timeout = topology.timeouts.iter().find(of_it)?;
            Some(match timeout.shards {
                Some(_) => topology.shards_exchange(timeout),
                None => topology.business_queue(timeout),
            })
        })?;
        let mut queues = self.resolved.objects.queues.keys();
        let in_use = queues.find(|name| number_of(&base, name).is_some());
        Some(in_use.cloned().unwrap_or(base))
    }

    fn reason(&self, discarded: bool) -> Reason {
        let contents = match self.observed.messages_in(&self.queue.name) {
            Some(0) => Contents::Empty,
            Some(messages) if discarded => Contents::Discarded { messages },
            messages => Contents::Draining { messages, drains: self.drains() },
        };
        match (self.successor(), self.kind) {
            (Some(successor), _) => Reason::Succeeded { successor, contents },
            (None, Kind::Delay(DelayQueueKind::Level(level))) => {
                Reason::LevelRemoved { level: level.to_owned(), contents }
            }
            (None, Kind::Delay(DelayQueueKind::Digit(_))) => Reason::LadderRemoved { contents },
            (None, Kind::Business | Kind::Parked) => Reason::TimeoutRemoved { contents },
        }
    }

    /// How the queue empties after it is unbound.
    fn drains(&self) -> DrainStatus {
        if let Some(exchange) = self.foreign_source() {
            return DrainStatus::Fed { exchange: exchange.to_owned() };
        }
        match self.kind {
            Kind::Delay(hold) => self.expires(hold),
            // A worker with the old topology consumes the queue.
            Kind::Business if self.observed.consumed.contains(&self.queue.name) => {
                DrainStatus::Consumed
            }
            Kind::Business if self.removed() => {
                DrainStatus::Unconsumed { queue: self.queue.name.clone() }
            }
            Kind::Business => DrainStatus::Consumed,
            Kind::Parked => DrainStatus::Parked,
        }
    }

    /// How a delay queue empties, by its own arguments, which can differ from the topology's.
    fn expires(&self, hold: DelayQueueKind<'_>) -> DrainStatus {
        let Some(within) = message_ttl(self.queue) else { return DrainStatus::Never };
        match self.queue.dead_letter_exchange() {
            _ if matches!(hold, DelayQueueKind::Digit(_)) => DrainStatus::AlongTheLadder { within },
            Some(exchange)
                if exchange == self.topology.due_exchange()
                    || exchange == self.topology.compat_due_exchange() =>
            {
                DrainStatus::WhenDue { within }
            }
            exchange => DrainStatus::Elsewhere { exchange: exchange.map(str::to_owned) },
        }
    }
}

/// Converts a duration to a TTL, at most the longest TTL: the longest way through a ladder may be longer.
fn at_most(time: Duration) -> Option<Ttl> {
    Ttl::from_millis(u64::try_from(time.as_millis()).unwrap_or(MAX_TTL_MS).min(MAX_TTL_MS))
}
