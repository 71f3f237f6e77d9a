//! Orders as a large shop has them, the same in every run.

use rand::{SeedableRng, rngs::StdRng};

use super::Load;
use crate::{
    order::OrderIdError,
    order_service::{basket::Order, popularity::Popularity, run_id::RunId},
};

/// SKUs of the shop.
pub(crate) const SKUS: usize = 10_000;
/// Items of an order.
pub(crate) const ITEMS: usize = 2;
/// The same orders each time.
const SEED: u64 = 9;

/// Makes orders.
pub(crate) struct Generator {
    run: RunId,
    popularity: Popularity,
    rng: StdRng,
}

impl Generator {
    /// Each of these makes the same orders.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            run: RunId::new("bench", 0),
            popularity: Popularity::zipf(SKUS),
            rng: StdRng::seed_from_u64(SEED),
        }
    }

    /// What gives orders and SKUs their names.
    #[must_use]
    pub(crate) const fn run(&self) -> &RunId {
        &self.run
    }

    /// `count` orders, the deadline of each by its place.
    ///
    /// # Errors
    /// `name` cannot be part of an order id.
    pub(crate) fn load(
        &mut self,
        name: &str,
        count: usize,
        due_us: impl Fn(usize) -> i64,
    ) -> Result<Load, OrderIdError> {
        let order = |place: usize| {
            let id = self.run.order_id(&format!("{name}-{place:07}"))?;
            Ok(Order { id, items: self.popularity.basket(&mut self.rng, ITEMS) })
        };
        let orders = (0..count).map(order).collect::<Result<_, OrderIdError>>()?;
        let prefix = format!("{}-{name}-", self.run);
        Ok(Load { prefix, orders, due_us: (0..count).map(due_us).collect() })
    }
}
