//! What a run is to play: pure, and the same again for the same seed.

use std::{fmt, time::Duration};

use rand::{Rng, RngExt};

use super::{
    basket::{self, Item},
    drill::{self, RealOrder},
};
use crate::{
    order::{OrderId, OrderIdError},
    topology::level::Ttl,
};

/// In front of everything a run makes, e.g. `demo-3f9a1c2b`: a kind, and eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// The run `number` of a kind, `demo` or `drill`.
    #[must_use]
    pub fn new(kind: &str, number: u32) -> Self {
        Self(format!("{kind}-{number:08x}"))
    }

    /// Reads an id that a run has printed.
    ///
    /// # Errors
    /// It is none; the text says how one looks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("demo-").or_else(|| text.strip_prefix("drill-"));
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        match number {
            Some(number) if number.len() == 8 && number.chars().all(is_digit) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err("a run id looks like `demo-3f9a1c2b`".to_owned()),
        }
    }

    /// As text; also the prefix of its order ids and SKUs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a SKU of this run.
    #[must_use]
    pub fn sku(&self, index: usize) -> String {
        format!("{}-sku-{index:02}", self.0)
    }

    /// The id of an order of this run.
    ///
    /// # Errors
    /// With the run in front it is none.
    pub fn order_id(&self, name: &str) -> Result<OrderId, OrderIdError> {
        OrderId::parse(&format!("{}-{name}", self.0))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What has to become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Its payment comes in time.
    Paid,
    /// It is not paid in time, or never.
    Closed,
    /// Its payment comes so close to the deadline that a few milliseconds decide.
    Boundary,
    /// Nobody says; the invariants hold all the same.
    Either,
}

/// One order of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedOrder {
    /// Its id, with the run in front.
    pub id: OrderId,
    /// What is in it.
    pub items: Vec<Item>,
    /// When it is paid, counted from its creation; `None` is never.
    pub pay_after: Option<Duration>,
    /// What has to become of it.
    pub expected: Expected,
}

/// All orders of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Whose orders.
    pub run: RunId,
    /// From creation to deadline.
    pub after: Ttl,
    /// In the order of their creation.
    pub orders: Vec<ScriptedOrder>,
    /// An order without items or payment, created and published after all others. Levels are first in, first
    /// out: when a message has closed it, no earlier message of the run waits any more.
    pub last: OrderId,
}

/// How many orders a demo makes, and when they are paid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemoShape {
    /// Orders.
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
/// A drill's payments that come later than this past the deadline are sent at this time: they meet a closed order.
pub const LATEST_PAYMENT: Duration = Duration::from_secs(5);

impl Script {
    /// The orders of a demo: some are paid early, some at the last moment, the rest never.
    ///
    /// # Errors
    /// The run's id makes no order id.
    pub fn demo(run: RunId, shape: DemoShape, rng: &mut impl Rng) -> Result<Self, OrderIdError> {
        let orders = (1..=shape.orders).map(|number| {
            Ok(ScriptedOrder {
                id: run.order_id(&format!("{number:07}"))?,
                items: items(rng),
                pay_after: demo_payment(shape, rng),
                expected: Expected::Either,
            })
        });
        let orders = orders.collect::<Result<_, _>>()?;
        Self::new(run, shape.after, orders)
    }

    /// Real orders, `speed` times faster; `level` is `after` at that speed.
    ///
    /// # Errors
    /// An order's id cannot be one with the run's id in front.
    pub fn drill(
        run: RunId,
        real: &[RealOrder],
        (after, speed, level): (Ttl, u32, Ttl),
        rng: &mut impl Rng,
    ) -> Result<Self, OrderIdError> {
        let latest = level.as_duration() + LATEST_PAYMENT;
        let orders = real.iter().map(|order| {
            Ok(ScriptedOrder {
                id: run.order_id(&order.id)?,
                items: items(rng),
                pay_after: order.lag.map(|lag| (lag / speed).min(latest)),
                expected: drill::expected(order.lag, after.as_duration()),
            })
        });
        let orders = orders.collect::<Result<_, _>>()?;
        Self::new(run, level, orders)
    }

    fn new(run: RunId, after: Ttl, orders: Vec<ScriptedOrder>) -> Result<Self, OrderIdError> {
        let last = OrderId::parse(&format!("{run}.last"))?;
        Ok(Self { run, after, orders, last })
    }

    /// The id of an order by its place; one past the end is [`Script::last`].
    #[must_use]
    pub fn id(&self, index: usize) -> &OrderId {
        self.orders.get(index).map_or(&self.last, |order| &order.id)
    }

    /// What is on the run's shelves before the first order; the index is the SKU.
    #[must_use]
    pub fn shelves(&self) -> Vec<i64> {
        basket::shelves(self.orders.iter().map(|order| order.items.as_slice()))
    }
}

fn items(rng: &mut impl Rng) -> Vec<Item> {
    let size = rng.random_range(1..=4);
    basket::basket(rng, size)
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

    #[test]
    fn a_run_id_is_read_back() {
        let run = RunId::new("drill", 0x3f9a_1c2b);
        assert_eq!(RunId::parse("drill-3f9a1c2b"), Ok(run));
        for wrong in ["demo-", "demo-3f9a1c2", "demo-3F9A1C2B", "x-3f9a1c2b", "demo-3f9a1c2b-1", ""]
        {
            assert!(RunId::parse(wrong).is_err(), "{wrong}");
        }
    }
}
