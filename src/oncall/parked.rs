//! The parking lots of a topology: lists, replays and drops their messages.

mod gathering;
mod leaving;
mod listing;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    failure::Failure,
    services::{Services, now},
};
use crate::{
    administration::TopologyLock,
    messaging::{
        Link,
        parking_lot::{ParkingLot, Place},
    },
    order::{OrderId, Outcome},
    parking::{Filter, ParkedMessage, Reasons, Selection},
    plan::own_queues::parking_lots,
    shutdown::Stop,
    store::StoreError,
    topology::level_routes::LevelRoutes,
    verify::effective_settings::delivery_limit,
    wire::Received,
};
pub(crate) use gathering::{Gathered, Kept};
pub(crate) use leaving::all_applied;
pub(crate) use listing::{Entry, ListEnd, Listed, ReasonCount};

/// Messages that are looked up, published or recorded together.
const BATCH: usize = 200;
/// The name of the connection in the management UI. Two readers at the same time would each see only a part, and publish messages
/// that the other has unacked.
const LOCK_PURPOSE: &str = "overdue parked: holds the lock of a parking lot";

/// The parking lots of a topology, read batch by batch; a message that is not acked returns to its queue.
pub(crate) struct Lots {
    pub(crate) services: Arc<Services>,
    routes: LevelRoutes,
    /// The current parking lot, and those that it has replaced.
    pub(crate) queues: Vec<String>,
    /// Messages in these queues, as the broker counted them some seconds ago.
    pub(crate) waiting: u64,
    /// Whether another command takes messages out.
    is_locked: bool,
}

/// How many messages of the parking lots were read.
pub(crate) struct Seen {
    read: u64,
    /// Messages that were ready, but were not delivered.
    missed: u64,
    /// Whether another consumer may have had some messages.
    is_shared: bool,
    /// Selected messages that were not delivered.
    selected: Selection,
}

/// A message that the filter takes.
struct Found {
    place: Place,
    received: Received,
    message: ParkedMessage,
}

/// Messages of one parking lot.
struct Batch<'a, 'link> {
    queue: &'a str,
    lot: &'a mut ParkingLot<'link>,
    found: Vec<Found>,
}

/// Receives the messages that the filter takes, batch by batch: acked messages leave, all others return to their queue.
trait Reader: Send {
    /// An error ends the reading.
    fn take(&mut self, batch: Batch<'_, '_>) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl Reader for (Reasons, Selection) {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        for Found { message, .. } in &batch.found {
            self.0.add(&message.cause);
            self.1.add(message.print);
        }
        Ok(())
    }
}

impl Seen {
    const fn is_whole(&self) -> bool {
        self.missed == 0 && !self.is_shared
    }

    /// Whether all selected messages were delivered.
    fn is_complete(&self, filter: &Filter) -> bool {
        !filter.selected.is_empty() && self.selected.is_empty()
    }

    /// Reports unseen messages.
    pub(crate) fn unseen(&self) -> Option<String> {
        let unseen = match self.missed {
            0 if !self.is_shared => return None,
            0 => "messages that another client has unacked were".to_owned(),
            1 => "1 message that was there when this began was".to_owned(),
            missed => format!("{missed} messages that were there when this began were"),
        };
        Some(format!(
            "{unseen} not read: another client reads the parking lot now, or has taken them out; run this again"
        ))
    }

    /// Fails if messages were missed. If that is only possible, returns a note, because a consumer that never returns its
    /// messages would make each run fail.
    pub(crate) fn end(&self) -> Result<Option<String>, Failure> {
        match self.unseen() {
            Some(missed) if self.missed > 0 => Err(Failure::failed(missed)),
            note => Ok(note),
        }
    }
}

impl Lots {
    /// Finds the parking lots; fails if one has a delivery limit, which reading would use up.
    pub(crate) async fn open(services: Arc<Services>) -> Result<Self, Failure> {
        let Services { topology, management, .. } = &*services;
        let observed = management.observe().await?;
        let stats = management.stats_and_policies().await?;
        let queues = parking_lots(topology, &observed.objects);
        if queues.is_empty() {
            let queue = topology.parked_queue();
            return Err(Failure::configuration(format!(
                "the broker has no queue {queue}, which is the parking lot: run `overdue apply`"
            )));
        }
        for queue in queues.iter().filter_map(|name| observed.objects.queues.get(name)) {
            if let Some(limit) = delivery_limit(queue, stats.get(&queue.name)) {
                return Err(limited(&queue.name, limit));
            }
        }
        let routes = LevelRoutes::of_objects(topology, &observed.objects);
        let counted = queues.iter().filter_map(|queue| stats.get(queue)?.messages);
        let waiting = counted.sum();
        let is_locked = observed.objects.queues.contains_key(&topology.parking_lock_queue());
        Ok(Self { services, routes, queues, waiting, is_locked })
    }

    /// Names of the queues, for an answer.
    pub(crate) fn names(&self) -> String {
        self.queues.join(", ")
    }

    /// Takes the lock for taking messages out. Without it, a reader sees only the messages that the holder has left.
    pub(crate) async fn lock(&self) -> Result<TopologyLock, Failure> {
        let queue = self.services.topology.parking_lock_queue();
        let lock = TopologyLock::try_acquire(&self.services.address, &queue, LOCK_PURPOSE).await?;
        lock.ok_or_else(|| {
            Failure::failed(format!(
                "another `overdue parked replay` or `drop` is taking messages out of {}; nothing was done, run this again \
                 when it has finished",
                self.names()
            ))
        })
    }

    /// Fails while another command takes messages out: a mere reading would hide messages from it.
    pub(crate) fn undisturbed(&self) -> Result<(), Failure> {
        if self.is_locked {
            return Err(Failure::failed(format!(
                "`overdue parked replay` or `drop` is taking messages out of {}: look again when it has finished",
                self.names()
            )));
        }
        Ok(())
    }

    /// Counts the reasons of the messages that `filter` takes; returns also which messages these are.
    pub(crate) async fn reasons(
        &self,
        filter: &Filter,
    ) -> Result<(Reasons, Selection, Seen), Failure> {
        let mut counted = (Reasons::default(), Selection::default());
        let seen = self.read(filter, &Stop::new(), &mut counted).await?;
        Ok((counted.0, counted.1, seen))
    }

    /// Reads all present messages, and gives those that `filter` takes to `reader`. Ends early if a stop is requested, or all
    /// selected messages were delivered.
    async fn read(
        &self,
        filter: &Filter,
        stop: &Stop,
        reader: &mut impl Reader,
    ) -> Result<Seen, Failure> {
        let link = Link::open(&self.services.address, "overdue parked: reading").await?;
        let now = now();
        let selected = filter.selected.clone();
        let mut seen = Seen { read: 0, missed: 0, is_shared: false, selected };
        for queue in &self.queues {
            if seen.is_complete(filter) {
                break;
            }
            let Some(mut lot) = ParkingLot::open(&link, queue).await? else { continue };
            let done = async {
                loop {
                    let (found, more) = self.batch(&mut lot, filter, stop, now, &mut seen).await?;
                    if !found.is_empty() {
                        reader.take(Batch { queue, lot: &mut lot, found }).await?;
                    }
                    if !more {
                        return Ok::<_, Failure>(());
                    }
                }
            }
            .await;
            seen.missed += lot.missed;
            // After a stop, the user knows that not everything was read.
            seen.is_shared |= lot.is_shared && !stop.is_requested();
            // When the channel closes, the broker requeues all unacked messages.
            let closed = lot.close().await;
            done?;
            closed?;
        }
        link.close().await;
        if seen.is_complete(filter) {
            (seen.missed, seen.is_shared) = (0, false);
        }
        Ok(seen)
    }

    async fn batch(
        &self,
        lot: &mut ParkingLot<'_>,
        filter: &Filter,
        stop: &Stop,
        now: Timestamp,
        seen: &mut Seen,
    ) -> Result<(Vec<Found>, bool), Failure> {
        let mut found = Vec::new();
        while found.len() < BATCH && (found.is_empty() || !lot.is_full()) {
            let next = tokio::select! {
                biased;
                () = stop.requested() => None,
                next = lot.next() => next?,
            };
            let Some((place, received)) = next else { return Ok((found, false)) };
            seen.read += 1;
            let message = ParkedMessage::read(&self.services.topology, &received);
            if filter.takes_next(&message, now, &mut seen.selected) {
                found.push(Found { place, received, message });
                if seen.is_complete(filter) {
                    return Ok((found, false));
                }
            }
        }
        Ok((found, true))
    }

    /// The present outcome for each message's order; none if the message has no order or no timeout.
    async fn outcomes(
        &self,
        messages: &[&ParkedMessage],
    ) -> Result<Vec<Option<Outcome>>, StoreError> {
        let Services { topology, store, effects, .. } = &*self.services;
        let key = |message: &ParkedMessage| {
            let rule = message.rule(topology)?;
            Some((rule.effect.clone(), message.order.clone()?))
        };
        let mut asked: BTreeMap<String, BTreeSet<OrderId>> = BTreeMap::new();
        for (effect, id) in messages.iter().filter_map(|message| key(message)) {
            asked.entry(effect).or_default().insert(id);
        }
        let mut known = BTreeMap::new();
        for (name, ids) in asked {
            let Some(effect) = effects.get(&name) else { continue };
            let ids: Vec<OrderId> = ids.into_iter().collect();
            let standings = store.rehearse(effect, &ids).await?;
            let outcomes = standings.into_iter().map(|standing| standing.outcome);
            known.extend(ids.into_iter().map(|id| (name.clone(), id)).zip(outcomes));
        }
        Ok(messages.iter().map(|message| known.get(&key(message)?).cloned()).collect())
    }
}

fn limited(queue: &str, limit: i64) -> Failure {
    Failure::configuration(format!(
        "a message that is read more than {limit} times would be lost: {queue} has a delivery limit, by a policy or its \
         arguments. Nothing was read; remove it, `overdue verify` says where it comes from"
    ))
}
