//! `overdue parked`: look into the parking lots of a topology, put messages back, and drop what is of no use.

mod list;
mod replay_and_drop;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::{
    exit::Failure,
    setup::{Services, now},
};
use crate::{
    administration::TopologyLock,
    config::Settings,
    messaging::{
        Link,
        parking_lot::{ParkingLot, Place},
    },
    order::{OrderId, Outcome},
    parking::{Filter, ParkedMessage, Reasons},
    plan::own_queues::parking_lots,
    shutdown::Stop,
    store::StoreError,
    topology::{level::Ttl, level_routes::LevelRoutes},
    verify::effective_settings::delivery_limit,
    wire::Received,
};

/// Messages that are looked up, published or recorded together.
const BATCH: usize = 200;
/// The name of the connection in the management UI. Two at once would each see half of a parking lot, and publish what the
/// other holds.
const LOCK_PURPOSE: &str = "overdue parked: holds the lock of a parking lot";

/// Look into the parking lot, put messages back, drop them
#[derive(Debug, Subcommand)]
pub(super) enum Parked {
    List(list::List),
    Replay(replay_and_drop::Replay),
    Drop(replay_and_drop::DropMessages),
}

impl Parked {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(settings).await,
            Self::Replay(replay) => replay.run(settings).await,
            Self::Drop(drop) => drop.run(settings).await,
        }
    }
}

/// How many messages lie there for which reason; takes nothing out.
pub(super) async fn reasons(settings: &Settings) -> Result<Reasons, Failure> {
    Lots::open(settings).await?.reasons(&Filter::default()).await
}

/// Which messages; all conditions have to be met.
#[derive(Clone, Debug, Args)]
struct Select {
    /// Only messages whose reason has this text in it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only messages of this timeout
    #[arg(long, value_name = "NAME")]
    timeout: Option<String>,
    /// Only messages about this order; may be repeated
    #[arg(long = "order", value_name = "ORDER_ID")]
    orders: Vec<String>,
    /// Only messages that were parked longer ago, e.g. 1h
    #[arg(long, value_name = "DURATION")]
    older_than: Option<Ttl>,
    /// Only messages that were parked since, e.g. 10m
    #[arg(long, value_name = "DURATION")]
    newer_than: Option<Ttl>,
}

impl Select {
    fn filter(&self) -> Filter {
        let duration = |ttl: Option<Ttl>| -> Option<Duration> { ttl.map(Ttl::as_duration) };
        Filter {
            reason: self.reason.clone(),
            timeout: self.timeout.clone(),
            orders: self.orders.iter().cloned().collect(),
            older_than: duration(self.older_than),
            newer_than: duration(self.newer_than),
        }
    }
}

/// The parking lots of a topology, read batch by batch: what was read goes back unless it is acked.
struct Lots {
    services: Services,
    routes: LevelRoutes,
    /// The parking lot in use, and those that it has replaced.
    queues: Vec<String>,
}

/// A message that is asked for.
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

impl Lots {
    /// Looks which parking lots there are, and that reading them costs no message anything.
    async fn open(settings: &Settings) -> Result<Self, Failure> {
        let services = Services::open(settings)?;
        let Services { topology, management, .. } = &services;
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
        Ok(Self { services, routes, queues })
    }

    /// As they are written in an answer.
    fn names(&self) -> String {
        self.queues.join(", ")
    }

    /// The right to take messages out.
    async fn lock(&self) -> Result<TopologyLock, Failure> {
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

    /// How many messages that `filter` takes lie there for which reason.
    async fn reasons(&self, filter: &Filter) -> Result<Reasons, Failure> {
        let mut reasons = Reasons::default();
        self.read(filter, &Stop::new(), async |batch| {
            batch.found.iter().for_each(|found| reasons.add(&found.message.cause));
            Ok(())
        })
        .await?;
        Ok(reasons)
    }

    /// Reads everything that is there now, and gives what `filter` takes to `each`; what is not acked goes back.
    /// Ends early when a stop is requested. Gives how many were read.
    async fn read(
        &self,
        filter: &Filter,
        stop: &Stop,
        mut each: impl AsyncFnMut(Batch<'_, '_>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let link = Link::open(&self.services.address, "overdue parked: reading").await?;
        let now = now();
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
            // When the channel is gone, everything goes back automatically.
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
            let message = ParkedMessage::read(&self.services.topology, &received);
            if filter.takes(&message, now) {
                found.push(Found { place, received, message });
            }
        }
        Ok((found, true))
    }

    /// What the database says of the order of each message now; none if it has no order or no timeout.
    async fn outcomes(&self, found: &[Found]) -> Result<Vec<Option<Outcome>>, StoreError> {
        let Services { topology, store, effects, .. } = &self.services;
        let key = |message: &ParkedMessage| {
            let rule = message.rule(topology)?;
            Some((rule.effect.clone(), message.order.clone()?))
        };
        let mut asked: BTreeMap<String, BTreeSet<OrderId>> = BTreeMap::new();
        for (effect, id) in found.iter().filter_map(|found| key(&found.message)) {
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
        let outcome = |found: &Found| known.get(&key(&found.message)?).cloned();
        Ok(found.iter().map(outcome).collect())
    }
}

fn limited(queue: &str, limit: i64) -> Failure {
    Failure::configuration(format!(
        "a message that is read more than {limit} times would be lost: {queue} has a delivery limit, by a policy or its \
         arguments. Nothing was read; remove it, `overdue verify` says where it comes from"
    ))
}
