//! What a run is to play: pure, and the same again for the same seed.

use std::time::Duration;

use rand::{Rng, RngExt};

use crate::{
    order::{OrderId, OrderIdError},
    order_service::{
        basket::{self, Order},
        run_id::RunId,
    },
    topology::level::Ttl,
};

/// What has to become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Its payment comes in time.
    Paid,
    /// It is not paid in time, or never.
    Closed,
    /// Its payment comes so close to the deadline that a few milliseconds decide.
    Boundary,
    /// Not known before; the invariants hold all the same.
    Either,
}

/// One order of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptedOrder {
    /// Its id, with the run in front, and its items.
    pub order: Order,
    /// When it is paid, counted from its creation; `None` is never.
    pub pay_after: Option<Duration>,
    /// What has to become of it.
    pub expected: Expected,
}

/// All orders of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// The beginning of every id and SKU.
    pub run: RunId,
    /// From creation to deadline.
    pub after: Ttl,
    /// Payments within this time of the deadline, before or after, may go either way; `None` where nothing is
    /// expected of any order.
    pub boundary: Option<Duration>,
    /// In the order of their creation.
    pub orders: Vec<ScriptedOrder>,
    /// An order without items or payment, created and published after all others. Levels are first in, first
    /// out: when a message has closed it, no earlier message of the run waits any more.
    pub last: Order,
}

/// How many orders a demo makes, and when they are paid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DemoShape {
    /// At least 1.
    pub orders: usize,
    /// From creation to deadline.
    pub after: Ttl,
    /// Share paid well before the deadline, 0 to 1.
    pub paid_share: f64,
    /// Share paid within 50 ms of the deadline, on either side, 0 to 1.
    pub late_share: f64,
}

/// Half of the window around the deadline in which last-moment payments come.
const LAST_MOMENT: Duration = Duration::from_millis(50);

impl ScriptedOrder {
    /// An order of the run called `name`, with one to four items.
    pub(crate) fn new(
        run: &RunId,
        name: &str,
        pay_after: Option<Duration>,
        expected: Expected,
        rng: &mut impl Rng,
    ) -> Result<Self, OrderIdError> {
        let size = rng.random_range(1..=4);
        let order = Order { id: run.order_id(name)?, items: basket::basket(rng, size) };
        Ok(Self { order, pay_after, expected })
    }
}

impl Script {
    /// The orders of a demo: some are paid early, some at the last moment, the rest never.
    ///
    /// # Errors
    /// The run's id makes no order id.
    pub(crate) fn demo(
        run: RunId,
        shape: DemoShape,
        rng: &mut impl Rng,
    ) -> Result<Self, OrderIdError> {
        let orders = (1..=shape.orders).map(|number| {
            let pay_after = demo_payment(shape, rng);
            ScriptedOrder::new(&run, &format!("{number:07}"), pay_after, Expected::Either, rng)
        });
        let orders = orders.collect::<Result<_, _>>()?;
        Self::new(run, shape.after, None, orders)
    }

    pub(crate) fn new(
        run: RunId,
        after: Ttl,
        boundary: Option<Duration>,
        orders: Vec<ScriptedOrder>,
    ) -> Result<Self, OrderIdError> {
        let last = Order { id: OrderId::parse(&format!("{run}.last"))?, items: Vec::new() };
        Ok(Self { run, after, boundary, orders, last })
    }

    /// An order by its place; one past the end is [`Script::last`].
    #[must_use]
    pub(crate) fn order(&self, index: usize) -> &Order {
        self.orders.get(index).map_or(&self.last, |scripted| &scripted.order)
    }

    /// The id of an order by its place.
    #[must_use]
    pub(crate) fn id(&self, index: usize) -> &str {
        self.order(index).id.as_str()
    }

    /// The ids of all orders but the last one.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.orders.iter().map(|scripted| scripted.order.id.as_str())
    }

    /// The stock of the run before the first order; the index is the SKU.
    #[must_use]
    pub(crate) fn initial_stock(&self) -> Vec<i64> {
        basket::initial_stock(self.orders.iter().map(|scripted| &scripted.order))
    }
}

fn demo_payment(shape: DemoShape, rng: &mut impl Rng) -> Option<Duration> {
    let after = shape.after.as_duration();
    let lot: f64 = rng.random();
    if lot < shape.paid_share {
        Some(after.mul_f64(rng.random_range(0.05..0.8)))
    } else if lot < shape.paid_share + shape.late_share {
        let window = LAST_MOMENT * 2;
        Some((after + window.mul_f64(rng.random())).saturating_sub(LAST_MOMENT))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    fn demo(seed: u64) -> Script {
        let after = Ttl::from_millis(10_000).unwrap();
        let shape = DemoShape { orders: 1_000, after, paid_share: 0.5, late_share: 0.1 };
        Script::demo(RunId::new("demo", 1), shape, &mut StdRng::seed_from_u64(seed)).unwrap()
    }

    #[test]
    fn the_same_seed_writes_the_same_script() {
        assert_eq!(demo(3), demo(3));
        assert_ne!(demo(3), demo(4));
    }

    #[test]
    fn about_the_asked_shares_are_paid_early_and_at_the_last_moment() {
        let script = demo(3);
        let paid: Vec<Duration> =
            script.orders.iter().filter_map(|order| order.pay_after).collect();
        let last_moment = paid.iter().filter(|at| **at >= Duration::from_millis(9_950)).count();
        assert!((550..650).contains(&paid.len()), "{} paid", paid.len());
        assert!((70..130).contains(&last_moment), "{last_moment} at the last moment");
        assert!(paid.iter().all(|at| *at <= Duration::from_millis(10_050)));
    }
}
