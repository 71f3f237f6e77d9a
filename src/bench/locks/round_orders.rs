//! The orders of one round.

use rand::Rng;

use super::{
    held::{HELD_ORDERS, HELD_SKU, Held},
    size::LocksSize,
};
use crate::{
    order::{OrderId, OrderIdError},
    order_service::{
        basket::{Order, basket},
        run_id::RunId,
    },
};

/// Items of an order, half of them in five hot SKUs, as in the demo.
const ITEMS: usize = 3;
/// Of so many orders that become due, one is paid at that instant.
const PAID_AT_DEADLINE: usize = 10;
/// For so many orders that become due, one other order is paid.
const OTHERS_PAID: usize = 4;

/// The orders of one round.
pub(super) struct RoundOrders {
    /// They become due one after the other.
    pub(super) due: Vec<Order>,
    /// They are due when the round begins, and locked where orders are.
    pub(super) held: Vec<Order>,
    /// They are due much later, and paid meanwhile; none needs the SKU that may be locked.
    pub(super) paid: Vec<Order>,
}

impl RoundOrders {
    pub(super) fn new(
        run: &RunId,
        round: usize,
        held: Held,
        size: &LocksSize,
        rng: &mut impl Rng,
    ) -> Result<Self, OrderIdError> {
        let seconds = usize::try_from(size.round.as_secs()).unwrap_or(1).max(1);
        let due = size.rate * seconds;
        let mut some = |name: &str, count: usize, any: bool| -> Result<Vec<Order>, OrderIdError> {
            let mut orders = Vec::with_capacity(count);
            while orders.len() < count {
                let id = run.order_id(&format!("{round}-{held:?}-{name}-{}", orders.len()))?;
                let order = Order { id, items: basket(rng, ITEMS) };
                if any || !needs_held_sku(&order) {
                    orders.push(order);
                }
            }
            Ok(orders)
        };
        Ok(Self {
            due: some("due", due, true)?,
            held: some("held", HELD_ORDERS, false)?,
            paid: some("paid", due.div_ceil(OTHERS_PAID), false)?,
        })
    }

    /// The orders whose lateness is measured, in every round the same kind: they need nothing that may be locked.
    pub(super) fn others(&self) -> impl Iterator<Item = &Order> {
        self.due.iter().filter(|order| !needs_held_sku(order))
    }

    /// Places in `due` of orders that are paid at their deadline.
    pub(super) fn paid_at_deadline(&self) -> impl Iterator<Item = usize> {
        let places = self.due.iter().enumerate().filter(|(_, order)| !needs_held_sku(order));
        places.map(|(place, _)| place).step_by(PAID_AT_DEADLINE)
    }

    /// Every order of the round.
    pub(super) fn all(&self) -> impl Iterator<Item = &Order> + Clone {
        self.due.iter().chain(&self.held).chain(&self.paid)
    }

    pub(super) fn held_ids(&self) -> Vec<OrderId> {
        self.held.iter().map(|order| order.id.clone()).collect()
    }
}

fn needs_held_sku(order: &Order) -> bool {
    order.items.iter().any(|item| item.sku == HELD_SKU)
}
