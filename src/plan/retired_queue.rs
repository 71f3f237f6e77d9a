//! Taking a queue out of use: unbound first, deleted once it is empty, never with messages that nobody gave up.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Change, Contents, Draining, Drains, Note, Plan, Reason, Refusal,
    generation::{Resolved, is_of, number_of},
    own_queues::{Hold, Kind, is_marked, kind, message_ttl},
    snapshot::{SLOTS, Snapshot},
    way::Ways,
};
use crate::{
    objects::{
        Binding, Objects, Queue,
        mark::{Acks, Leaving, mark},
        shard::CONSISTENT_HASH,
    },
    topology::{
        Timeout, Topology,
        delays::MAX_DELAY_MS,
        level::{MAX_TTL_MS, Ttl},
        strategy::DELAYED_EXCHANGE_TYPE,
    },
};

/// A queue of ours that the topology no longer wants.
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
        let name = &self.queue.name;
        // What somebody else reads is in use, whatever the topology says.
        if let Some(consumers) = self.observed.foreign_consumers.get(name).copied() {
            plan.notes.push(Note::Consumed { queue: name.clone(), consumers });
            return;
        }
        let messages = self.observed.messages_in(name);
        // What nobody has counted is not given up for lost.
        let discarded = self.removed() && messages.is_some() && self.discard.contains(name);
        if !discarded && self.leaves() {
            self.mark_leaving(plan);
            plan.draining.push(Draining { queue: name.clone(), messages, drains: self.drains() });
            return;
        }
        // One that nothing comes into any more is out of use already: what still waits in it must not
        // hold up the rest.
        if self.removed() && self.incoming().next().is_some() && messages != Some(0) && !discarded {
            if self.leaving().is_some() {
                // What was on its way is in it by now, and waits for a worker or a person.
                let drains = self.drains();
                plan.draining.push(Draining { queue: name.clone(), messages, drains });
            } else {
                plan.refusals.push(Refusal::Occupied { queue: name.clone(), messages });
            }
            return;
        }
        // What waits before it in its ladder comes through its bindings.
        if self.way_to_it().is_some() {
            plan.draining.push(Draining { queue: name.clone(), messages, drains: self.drains() });
            return;
        }
        let (stays, goes): (Vec<&Binding>, Vec<&Binding>) =
            self.incoming().partition(|binding| !discarded && self.goes_with_its_exchange(binding));
        for binding in goes {
            plan.step(Change::Unbind(binding.clone()), self.reason());
        }
        let fed = matches!(self.drains(), Drains::Fed { .. });
        if !fed && stays.is_empty() && (messages == Some(0) || discarded) {
            let lost = messages.unwrap_or_default();
            let reason = if discarded { Reason::Discarded } else { Reason::RetiredAndEmpty };
            plan.step(Change::DeleteQueue { queue: name.clone(), lost }, reason);
        } else {
            plan.draining.push(Draining { queue: name.clone(), messages, drains: self.drains() });
        }
    }

    /// Whether its timeout is gone, and messages for it may still be on their way: on the broker they cannot be counted.
    fn leaves(&self) -> bool {
        self.removed()
            && self.incoming().next().is_some()
            && match self.leaving() {
                None => self.in_levels() != Some(0),
                Some(leaving) => !self.is_over(leaving) || !self.has_left(leaving),
            }
    }

    /// Whether it is to be marked, or with a new time. What workers put back was in a queue of this timeout before, and was
    /// acked there afterwards. So an older generation is emptied first, and each ack may have been for one.
    fn begins_to_leave(&self) -> bool {
        if self.delays_drain() {
            return false;
        }
        match self.leaving() {
            None => {
                self.other_generations().all(|it| self.observed.messages_in(&it.name) == Some(0))
            }
            Some(leaving) => self.acked().is_some() && self.is_over(leaving),
        }
    }

    /// Marks it with the time of now, or takes a mark away that says nothing any more.
    fn mark_leaving(&self, plan: &mut Plan) {
        let reason = || Reason::TimeoutLeaving { in_levels: self.in_levels() };
        let begins = self.begins_to_leave();
        if let Some(mark) = mark(&self.topology.name, &self.queue.name).filter(|_| begins) {
            plan.step(Change::Leave(mark), reason());
        }
        let bindings = self.observed.objects.bindings.iter();
        let old = bindings.filter(|it| it.destination == self.queue.name && it.leaves().is_some());
        for old in old.filter(|_| begins || self.delays_drain()) {
            plan.step(Change::Unbind(old.clone()), reason());
        }
    }

    fn leaving(&self) -> Option<Leaving> {
        self.observed.objects.leaving(&self.queue.name)
    }

    /// Whether everything that was on its way at that time has come out.
    fn is_over(&self, leaving: Leaving) -> bool {
        let clock = self.observed.clock;
        let passed = clock.map(|clock| clock.now_s.saturating_sub(leaving.since_s));
        let over = |(passed, takes): (u64, Duration)| Duration::from_secs(passed) >= takes;
        passed.zip(self.takes()).is_some_and(over) && self.blocked().is_none()
    }

    /// A level of which all slots may be taken by what is for others: then nothing comes out of it.
    fn blocked(&self) -> Option<&Queue> {
        let slots = self.observed.dead_letter_slots.unwrap_or(SLOTS);
        let dead_letters = &self.observed.dead_letters;
        self.delays().find(|level| dead_letters.get(&level.name).is_some_and(|it| *it >= slots))
    }

    /// Whether nothing was put back since then, or nothing is anywhere that could come out. What was counted in another term
    /// may have been counted from zero.
    fn has_left(&self, leaving: Leaving) -> bool {
        let acked = self.acked();
        self.in_levels() == Some(0) || acked.is_some() && acked == leaving.acked
    }

    /// How long what is published now can take to come to it, at the most, and to be counted; `None` if nobody knows.
    ///
    /// A level that is counted as empty after that has nothing from before. In a ladder counts are not enough: a message
    /// may have moved from a queue that was counted later to one that was counted earlier.
    fn takes(&self) -> Option<Duration> {
        let counted = Duration::from_secs(self.observed.clock?.counts_settle_s);
        if self.in_levels() == Some(0) {
            return Some(counted);
        }
        if self.delays_drain() {
            return None;
        }
        let mut ways = Ways::of(&self.observed.objects);
        let mut longest = Duration::ZERO;
        for queue in self.delays() {
            let before = ways.to(queue).unwrap_or_default();
            let own = match self.observed.messages_in(&queue.name) {
                Some(0) => Duration::ZERO,
                _ => message_ttl(queue)?.as_duration(),
            };
            longest = longest.max(before + own);
        }
        if self.delayed().any(|messages| messages != Some(0)) {
            longest = longest.max(Duration::from_millis(MAX_DELAY_MS.into()));
        }
        Some(longest + counted)
    }

    /// Whether delay queues are taken out of use. What comes out of one may go on through another one that is in use, and
    /// once it is deleted nothing says how long its way was: the time begins when all of them are gone. One without a mark stays.
    fn delays_drain(&self) -> bool {
        self.delays().any(|queue| {
            !self.resolved.objects.queues.contains_key(&queue.name)
                && is_marked(self.topology, &self.observed.objects, queue)
        })
    }

    fn acked(&self) -> Option<Acks> {
        self.observed.acked.get(&self.queue.name).copied()
    }

    /// The queues that have the same timeout, without shards in use: what is put back from one of these keeps that one bound.
    fn other_generations(&self) -> impl Iterator<Item = &Queue> {
        let role = |name: &str| mark(&self.topology.name, name).map(|mark| mark.routing_key);
        let own = role(&self.queue.name);
        let queues = self.observed.objects.queues.values();
        let others = queues.filter(move |it| it.name != self.queue.name && own == role(&it.name));
        others.filter(|it| !self.is_a_shard_in_use(&it.name))
    }

    fn is_a_shard_in_use(&self, queue: &str) -> bool {
        let Objects { exchanges, bindings, .. } = &self.observed.objects;
        let shares = |source| exchanges.get(source).is_some_and(|it| it.kind == CONSISTENT_HASH);
        bindings.iter().any(|it| it.to_queue && it.destination == queue && shares(&it.source))
    }

    /// Whether its timeout is gone from the topology.
    pub(super) fn removed(&self) -> bool {
        self.kind == Kind::Business && self.successor().is_none()
    }

    /// Bindings through which messages of this topology come in.
    fn incoming(&self) -> impl Iterator<Item = &Binding> {
        self.bindings().filter(|binding| self.is_ours(&binding.source))
    }

    /// An exchange of somebody else that is bound to it: deleting the queue would lose what comes that way.
    fn foreign_source(&self) -> Option<&str> {
        let foreign = self.bindings().find(|binding| !self.is_ours(&binding.source));
        foreign.map(|binding| binding.source.as_str())
    }

    /// Its bindings through which something can come in: not the one that every queue has, and no mark.
    fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.observed.objects.bindings.iter().filter(|binding| {
            binding.to_queue
                && binding.destination == self.queue.name
                && !binding.source.is_empty()
                && binding.mark_of().is_none()
        })
    }

    /// A name that begins as ours do is not enough: `orders.legacy` is somebody else's.
    fn is_ours(&self, exchange: &str) -> bool {
        let marked = self.observed.objects.owner_of_exchange(exchange);
        self.resolved.objects.exchanges.contains_key(exchange)
            || marked == Some(&self.topology.name)
    }

    /// The delayed message plugin drops what it has no route for when it is due, so no binding of a retired exchange is
    /// taken away before the exchange itself is deleted.
    fn goes_with_its_exchange(&self, binding: &Binding) -> bool {
        let source = self.observed.objects.exchanges.get(&binding.source);
        source.is_some_and(|exchange| exchange.kind == DELAYED_EXCHANGE_TYPE)
            && !self.resolved.objects.exchanges.contains_key(&binding.source)
    }

    /// How long what waits before it takes to come to it, at most; none where nothing does, or where another queue takes
    /// its place.
    fn way_to_it(&self) -> Option<Duration> {
        let is_digit = matches!(self.kind, Kind::Delay(Hold::Digit(_)));
        let ways = || Ways::of_messages(self.observed).to(self.queue);
        (is_digit && self.successor().is_none()).then(ways)?
    }

    /// The queue that took its place, if any, or the exchange of the shards that did.
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

    fn reason(&self) -> Reason {
        let contents = self.contents();
        match (self.successor(), self.kind) {
            (Some(successor), _) => Reason::Succeeded { successor, contents },
            (None, Kind::Delay(Hold::Level(level))) => {
                Reason::LevelRemoved { level: level.to_owned(), contents }
            }
            (None, Kind::Delay(Hold::Digit(_))) => Reason::LadderRemoved { contents },
            (None, Kind::Business | Kind::Parked) => {
                // What waits there now was published when it was leaving already.
                let in_levels = if self.leaves() {
                    let counts = self.delays().map(|it| self.observed.messages_in(&it.name));
                    counts.chain(self.delayed()).flatten().sum()
                } else {
                    0
                };
                Reason::TimeoutRemoved { contents, in_levels }
            }
        }
    }

    /// What waits in every level; `None` where one of them is not counted.
    fn in_levels(&self) -> Option<u64> {
        let queues = self.delays().map(|level| self.observed.messages_in(&level.name));
        queues.chain(self.delayed()).sum()
    }

    /// What exchanges of the delayed message plugin hold; `None` for one that does not say.
    fn delayed(&self) -> impl Iterator<Item = Option<u64>> {
        let exchanges = self.observed.objects.exchanges.values();
        let ours = exchanges.filter(|exchange| {
            exchange.kind == DELAYED_EXCHANGE_TYPE && self.is_ours(&exchange.name)
        });
        ours.map(|exchange| self.observed.delayed.get(&exchange.name).copied())
    }

    /// Every level, current or retired.
    fn delays(&self) -> impl Iterator<Item = &Queue> {
        let objects = &self.observed.objects;
        let is_level =
            |queue: &&Queue| matches!(kind(self.topology, objects, queue), Some(Kind::Delay(_)));
        objects.queues.values().filter(is_level)
    }

    fn contents(&self) -> Contents {
        match self.observed.messages_in(&self.queue.name) {
            Some(0) => Contents::Empty,
            // Nobody takes a removed queue out of use while something is in it, unless it is to be discarded.
            Some(messages) if self.removed() => Contents::Discarded { messages },
            messages => Contents::Draining { messages, drains: self.drains() },
        }
    }

    fn drains(&self) -> Drains {
        if let Some(exchange) = self.foreign_source() {
            return Drains::Fed { exchange: exchange.to_owned() };
        }
        match self.kind {
            Kind::Delay(_) => self.expires(),
            Kind::Business if self.leaves() => self.leaves_within(),
            // A worker with the old topology has them, or will have.
            Kind::Business if self.observed.consumed.contains(&self.queue.name) => Drains::Consumed,
            Kind::Business if self.removed() => {
                Drains::Unconsumed { queue: self.queue.name.clone() }
            }
            Kind::Business => Drains::Consumed,
            Kind::Parked => Drains::Parked,
        }
    }

    fn leaves_within(&self) -> Drains {
        let leaving = self.leaving().filter(|leaving| !self.is_over(*leaving));
        let passed = leaving.zip(self.observed.clock);
        let passed = passed.map_or(0, |(since, clock)| clock.now_s.saturating_sub(since.since_s));
        let known = self.acked().is_some() || self.in_levels() == Some(0);
        let goes_on = leaving.is_some() || self.begins_to_leave();
        let takes = self.takes().filter(|_| known && goes_on);
        let mut within = takes.map(|takes| takes.saturating_sub(Duration::from_secs(passed)));
        // Its time is over, and newer counts may say that it was a short burst.
        let blocked = within.filter(Duration::is_zero).and_then(|_| self.blocked());
        if let (Some(_), Some(clock)) = (blocked, self.observed.clock) {
            within = Some(Duration::from_secs(clock.counts_settle_s));
        }
        Drains::Leaving {
            in_levels: self.in_levels(),
            within: within.and_then(Ttl::of),
            blocked: blocked.map(|level| level.name.clone()),
        }
    }

    /// Of a delay queue: as its own arguments say, which may be others than the topology's.
    fn expires(&self) -> Drains {
        let Some(within) = message_ttl(self.queue) else { return Drains::Never };
        if matches!(self.kind, Kind::Delay(Hold::Digit(_))) {
            let before = self.way_to_it().unwrap_or_default().as_millis();
            let ms = u64::try_from(before).unwrap_or(MAX_TTL_MS).saturating_add(within.as_millis());
            return match Ttl::from_millis(ms.min(MAX_TTL_MS)) {
                Some(within) => Drains::AlongTheLadder { within },
                None => Drains::Never,
            };
        }
        match self.queue.dead_letter_exchange() {
            Some(exchange)
                if exchange == self.topology.due_exchange()
                    || exchange == self.topology.compat_due_exchange() =>
            {
                Drains::WhenDue { within }
            }
            exchange => Drains::Elsewhere { exchange: exchange.map(str::to_owned) },
        }
    }
}
