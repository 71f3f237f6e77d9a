//! One round: orders become due while something is locked, or nothing is.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::{
    error::LocksError,
    held::Held,
    load::{Load, PaymentTimes},
    round_orders::RoundOrders,
    setup::LocksSetup,
    size::LocksSize,
};
use crate::{
    broker::Publisher,
    order_service::{basket::Order, facts::Facts},
    statistics::Percentiles,
    topology::level::Ttl,
};

/// Orders inserted by one statement.
const CHUNK: usize = 2_000;
/// Until the round sets their deadlines.
const LATER: Ttl = match Ttl::from_millis(3_600_000) {
    Some(ttl) => ttl,
    None => panic!("an hour is a TTL"),
};
/// Between two looks whether orders are closed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long an order may be late before the benchmark ends.
const PATIENCE: Duration = Duration::from_mins(3);

/// What was measured in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RoundTimes {
    /// From the deadline to the commit, of orders that need nothing that may be locked.
    pub late: Percentiles,
    /// Payments of orders that are not due.
    pub payments: Percentiles,
    /// Payments of orders that are being closed at that instant.
    pub payments_at_deadline: Percentiles,
}

/// One round.
pub(super) struct Round<'a> {
    pub(super) setup: &'a LocksSetup,
    pub(super) publisher: &'a Publisher,
    pub(super) size: &'a LocksSize,
    pub(super) held: Held,
    pub(super) orders: &'a RoundOrders,
}

impl Round<'_> {
    /// What was measured, and what is wrong.
    pub(super) async fn run(&self) -> Result<(RoundTimes, Vec<String>), LocksError> {
        let Self { setup, publisher, size, orders, .. } = *self;
        let all: Vec<&Order> = orders.all().collect();
        for chunk in all.chunks(CHUNK) {
            setup.orders.create(chunk.iter().copied(), LATER).await?;
        }
        let load = Load { setup, publisher, size, orders };
        let began = load.make_due().await?;
        let run = setup.orders.run();
        let lock = self.held.lock(&setup.holder, run, &orders.held_ids()).await?;
        let ((), payments) = tokio::try_join!(load.publish(began), load.pay(began))?;
        self.until_final(orders.others(), "beside the locks").await?;
        lock.release(&setup.holder).await?;
        self.until_final(orders.due.iter().chain(&orders.held), "after the locks").await?;
        let ids: Vec<&str> = all.iter().map(|order| order.id.as_str()).collect();
        let facts = setup.orders.facts(&ids).await?;
        let times = RoundTimes {
            late: self.lateness(&facts),
            payments: percentiles(&payments.of_others),
            payments_at_deadline: percentiles(&payments.at_deadline),
        };
        Ok((times, broken(&facts, &payments)))
    }

    async fn until_final(
        &self,
        orders: impl Iterator<Item = &Order>,
        when: &str,
    ) -> Result<(), LocksError> {
        let ids: Vec<&str> = orders.map(|order| order.id.as_str()).collect();
        let began = Instant::now();
        loop {
            let left = ids.len() - self.setup.orders.final_orders(&ids).await?.len();
            if left == 0 {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                let when = format!("{when} ({})", self.held.describe());
                return Err(LocksError::Stuck { left, when, waited: PATIENCE });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn lateness(&self, facts: &Facts) -> Percentiles {
        let others: HashSet<&str> = self.orders.others().map(|order| order.id.as_str()).collect();
        let measured = facts.orders.iter().filter(|order| others.contains(order.id.as_str()));
        let late = measured.filter_map(|order| {
            let late = order.final_at?.duration_since(order.due_at);
            Duration::try_from(late).ok()
        });
        Percentiles::of(late).unwrap_or_default()
    }
}

fn percentiles(times: &[Duration]) -> Percentiles {
    Percentiles::of(times.iter().copied()).unwrap_or_default()
}

/// Each order is closed once, or paid, and that is what the one who paid was answered.
fn broken(facts: &Facts, payments: &PaymentTimes) -> Vec<String> {
    let taken: HashSet<&str> = payments.taken.iter().map(String::as_str).collect();
    let refused: HashSet<&str> = payments.refused.iter().map(String::as_str).collect();
    let mut broken = Vec::new();
    for order in &facts.orders {
        let id = order.id.as_str();
        let expected = if taken.contains(id) { ("paid", 0) } else { ("closed", 1) };
        if (order.status.as_str(), order.closures) != expected {
            broken.push(format!("{id} is {}, with {} closures", order.status, order.closures));
        }
        if order.final_at.is_some_and(|at| at < order.due_at) {
            broken.push(format!("{id} was closed before its deadline"));
        }
        if refused.contains(id) && order.status != "closed" {
            broken.push(format!("{id} is {}, and its payment was refused", order.status));
        }
    }
    for level in &facts.stock {
        if (level.reserved, level.sold) != (level.in_unpaid, level.in_paid) {
            broken.push(format!("the stock of {} is not what its orders say", level.sku));
        }
    }
    broken
}
