//! What happens in a round: notices are published, orders become due, payments come, each at its instant.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{error::LocksError, round_orders::RoundOrders, setup::LocksSetup, size::LocksSize};
use crate::{
    broker::Publisher,
    order_service::basket::Order,
    topology::route::Delay,
    wire::{DueNotice, Message},
};

/// From the beginning of a round to the first notice.
const LEAD: Duration = Duration::from_millis(500);
/// Of the topology's level.
const LEVEL: Duration = Duration::from_secs(1);
/// Timers at the same time.
const TIMERS: usize = 1_000;

/// How long payments took.
pub(super) struct PaymentTimes {
    pub(super) of_others: Vec<Duration>,
    pub(super) at_deadline: Vec<Duration>,
    /// The orders whose payment was taken.
    pub(super) taken: Vec<String>,
    /// The orders whose payment was refused.
    pub(super) refused: Vec<String>,
}

/// The load of one round.
pub(super) struct Load<'a> {
    pub(super) setup: &'a LocksSetup,
    pub(super) publisher: &'a Publisher,
    pub(super) size: &'a LocksSize,
    pub(super) orders: &'a RoundOrders,
}

/// A payment that has come back.
struct Paid<'a> {
    order: &'a Order,
    taken: bool,
    took: Duration,
}

impl<'a> Load<'a> {
    /// From one deadline to the next.
    fn step(&self) -> Duration {
        Duration::from_secs(1) / u32::try_from(self.size.rate).unwrap_or(u32::MAX)
    }

    fn published_at(&self, began: Instant, place: usize) -> Instant {
        began + LEAD + self.step() * u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// Sets every deadline; the instant that they count from.
    pub(super) async fn make_due(&self) -> Result<Instant, LocksError> {
        const SQL: &str = include_str!("../../../sql/bench_due.sql");
        let store = &self.setup.worker.store;
        let client = store.client().await?;
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let lead_ms = micros(LEAD + LEVEL) / 1_000;
        let ids = |orders: &[Order]| -> Vec<String> {
            orders.iter().map(|order| order.id.to_string()).collect()
        };
        let (held, due) = (ids(&self.orders.held), ids(&self.orders.due));
        store.named("bench_due", client.execute(SQL, &[&held, &0_i64, &0_i64]).await)?;
        let began = Instant::now();
        let step = micros(self.step());
        store.named("bench_due", client.execute(SQL, &[&due, &lead_ms, &step]).await)?;
        Ok(began)
    }

    /// Publishes each notice so that it comes out of its level at the deadline.
    pub(super) async fn publish(&self, began: Instant) -> Result<(), LocksError> {
        let route = self.setup.worker.topology.route("unpaid", &Delay::Usual)?;
        let publish = async |order: &Order, at: Instant| {
            tokio::time::sleep_until(at.into()).await;
            let notice = DueNotice { order_id: order.id.clone(), due_at: None };
            self.publisher.publish(Message::notice(route.clone(), &notice)).await
        };
        let held = self.orders.held.iter().map(|order| (order, began));
        let due = self.orders.due.iter().enumerate();
        let due = due.map(|(place, order)| (order, self.published_at(began, place)));
        let publishing = stream::iter(held.chain(due)).map(|(order, at)| publish(order, at));
        publishing.buffer_unordered(TIMERS).try_for_each(async |()| Ok(())).await?;
        Ok(())
    }

    /// Pays other orders all the time, and some at their deadline.
    pub(super) async fn pay(&self, began: Instant) -> Result<PaymentTimes, LocksError> {
        let others = self.orders.paid.len();
        let pause = self.size.round / u32::try_from(others).unwrap_or(u32::MAX).max(1);
        let others = self.orders.paid.iter().enumerate().map(|(place, order)| {
            (order, began + LEAD + LEVEL + pause * u32::try_from(place).unwrap_or(u32::MAX))
        });
        let due = &self.orders.due;
        let at_deadline = self
            .orders
            .paid_at_deadline()
            .map(|place| (&due[place], self.published_at(began, place) + LEVEL));
        let (others, at_deadline) =
            tokio::try_join!(self.pay_each(others), self.pay_each(at_deadline))?;
        let of = |taken: bool| -> Vec<String> {
            let both = others.iter().chain(&at_deadline).filter(|paid| paid.taken == taken);
            both.map(|paid| paid.order.id.to_string()).collect()
        };
        Ok(PaymentTimes {
            taken: of(true),
            refused: of(false),
            of_others: others.iter().map(|paid| paid.took).collect(),
            at_deadline: at_deadline.iter().map(|paid| paid.took).collect(),
        })
    }

    async fn pay_each(
        &self,
        orders: impl Iterator<Item = (&'a Order, Instant)>,
    ) -> Result<Vec<Paid<'a>>, LocksError> {
        let pay = async |order: &'a Order, at: Instant| -> Result<Paid<'a>, LocksError> {
            tokio::time::sleep_until(at.into()).await;
            let began = Instant::now();
            let answer = self.setup.payments.pay(&order.id).await?;
            Ok(Paid { order, taken: answer.taken, took: began.elapsed() })
        };
        stream::iter(orders)
            .map(|(order, at)| pay(order, at))
            .buffer_unordered(TIMERS)
            .try_collect()
            .await
    }
}
