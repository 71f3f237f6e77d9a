//! The parking lots of a topology, read batch by batch: what was read goes back unless it is acked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::{exit::Failure, publish::line::now as clock, setup};
use crate::{
    broker::{
        BrokerAddress, Link,
        command_lock::CommandLock,
        parking_lot::{ParkingLot, Place},
    },
    config::Settings,
    order::{OrderId, Outcome},
    parking::{Filter, ParkedMessage},
    plan::own_queues::parking_lots,
    shutdown::Stop,
    store::{Store, StoreError, orders::Effect},
    topology::{Topology, level_routes::LevelRoutes},
    verify::limits::delivery_limit,
    wire::Received,
};

/// Messages that are looked up, published or recorded together.
const BATCH: usize = 200;
/// The name of the connection in the management UI. Two at once would each see half of a parking lot, and publish what the
/// other holds.
const LOCK_PURPOSE: &str = "overdue parked: holds the lock of a parking lot";

/// What the commands work with.
pub(super) struct Lots {
    pub(super) topology: Topology,
    pub(super) address: BrokerAddress,
    pub(super) store: Store,
    pub(super) routes: LevelRoutes,
    /// The parking lot in use, and those that it has replaced.
    pub(super) queues: Vec<String>,
    effects: BTreeMap<String, Effect>,
}

/// A message that is asked for.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) received: Received,
    pub(super) message: ParkedMessage,
}

/// Messages of one parking lot.
pub(super) struct Batch<'a, 'link> {
    pub(super) queue: &'a str,
    pub(super) lot: &'a mut ParkingLot<'link>,
    pub(super) found: Vec<Found>,
}

impl Lots {
    /// Looks which parking lots there are, and that reading them costs no message anything.
    pub(super) async fn open(settings: &Settings) -> Result<Self, Failure> {
        let topology = setup::topology(settings)?;
        let effects = setup::effects(settings, &topology)?;
        let management = setup::management(settings)?;
        let observed = management.observe().await?;
        let stats = management.stats_and_policies().await?;
        let queues = parking_lots(&topology, &observed.objects);
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
        Ok(Self {
            routes: LevelRoutes::of_objects(&topology, &observed.objects),
            address: management.address().clone(),
            store: setup::store(settings)?,
            topology,
            queues,
            effects,
        })
    }

    /// The right to take messages out.
    pub(super) async fn lock(&self) -> Result<CommandLock, Failure> {
        let queue = self.topology.parking_lock_queue();
        let lock = CommandLock::acquire(&self.address, &queue, LOCK_PURPOSE).await?;
        lock.ok_or_else(|| {
            Failure::failed(format!(
                "another `overdue parked replay` or `drop` is taking messages out of {}; nothing was done, run this again \
                 when it has finished",
                self.queues.join(", ")
            ))
        })
    }

    /// Reads everything that is there now, and gives what `filter` takes to `each`; what is not acked goes back.
    /// Ends early when a stop is requested. Gives how many were read.
    pub(super) async fn read(
        &self,
        filter: &Filter,
        stop: &Stop,
        mut each: impl AsyncFnMut(Batch<'_, '_>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let link = Link::open(&self.address, "overdue parked: reading").await?;
        let now = clock();
        let mut read = 0;
        for queue in &self.queues {
            let Some((mut lot, _)) = ParkingLot::open(&link, queue).await? else { continue };
            let done = async {
                loop {
                    let (found, more) = self.batch(&mut lot, filter, stop, now, &mut read).await?;
                    if !found.is_empty() {
                        each(Batch { queue, lot: &mut lot, found }).await?;
                    }
                    if !more {
                        return Ok::<_, Failure>(());
                    }
                }
            }
            .await;
            // Where the channel is gone, everything goes back by itself.
            let closed = lot.close().await;
            done?;
            closed?;
        }
        link.close().await;
        Ok(read)
    }

    async fn batch(
        &self,
        lot: &mut ParkingLot<'_>,
        filter: &Filter,
        stop: &Stop,
        now: Timestamp,
        read: &mut u64,
    ) -> Result<(Vec<Found>, bool), Failure> {
        let mut found = Vec::new();
        while found.len() < BATCH && (found.is_empty() || !lot.is_full()) {
            let next = tokio::select! {
                biased;
                () = stop.requested() => None,
                next = lot.next() => next?,
            };
            let Some((place, received)) = next else { return Ok((found, false)) };
            *read += 1;
            let message = ParkedMessage::read(&self.topology, &received);
            if filter.takes(&message, now) {
                found.push(Found { place, received, message });
            }
        }
        Ok((found, true))
    }

    /// What the database says of the order of each message now; none where it has no order or no timeout.
    pub(super) async fn outcomes(
        &self,
        messages: impl Iterator<Item = &ParkedMessage> + Clone,
    ) -> Result<Vec<Option<Outcome>>, StoreError> {
        let key = |message: &ParkedMessage| {
            let rule = message.rule(&self.topology)?;
            Some((rule.effect.clone(), message.order.clone()?))
        };
        let mut asked: BTreeMap<String, BTreeSet<OrderId>> = BTreeMap::new();
        for (effect, id) in messages.clone().filter_map(key) {
            asked.entry(effect).or_default().insert(id);
        }
        let mut known = BTreeMap::new();
        for (name, ids) in asked {
            let Some(effect) = self.effects.get(&name) else { continue };
            let ids: Vec<OrderId> = ids.into_iter().collect();
            let outcomes = self.store.rehearse(effect, &ids).await?;
            known.extend(ids.into_iter().map(|id| (name.clone(), id)).zip(outcomes));
        }
        Ok(messages.map(|message| known.get(&key(message)?).cloned()).collect())
    }
}

fn limited(queue: &str, limit: i64) -> Failure {
    Failure::configuration(format!(
        "a message that is read more than {limit} times would be lost: {queue} has a delivery limit, by a policy or its \
         arguments. Nothing was read; remove it, `overdue verify` says where it comes from"
    ))
}
