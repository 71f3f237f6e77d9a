//! Orders and what is in them: half of the items are of a few hot SKUs, as in a shop on a day of sales.

use rand::{Rng, RngExt, seq::index::sample};

use crate::order::OrderId;

/// SKUs that half of all items are of.
pub(crate) const HOT_SKUS: usize = 5;
/// All SKUs of a run.
pub(crate) const SKUS: usize = 100;

/// A number of pieces of one SKU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Which SKU of the run: below [`HOT_SKUS`] it is hot, always below [`SKUS`].
    pub sku: usize,
    /// How many, 1 to 3.
    pub qty: i64,
}

/// An order that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// It begins with the id of the run.
    pub id: OrderId,
    /// Different SKUs; none is fine too.
    pub items: Vec<Item>,
}

/// A basket of `size` different SKUs, at most [`HOT_SKUS`].
#[must_use]
pub(crate) fn basket(rng: &mut impl Rng, size: usize) -> Vec<Item> {
    let size = size.min(HOT_SKUS);
    let hot = (0..size).filter(|_| rng.random_bool(0.5)).count();
    let mut skus = sample(rng, HOT_SKUS, hot).into_vec();
    let others = sample(rng, SKUS - HOT_SKUS, size - hot);
    skus.extend(others.into_iter().map(|index| HOT_SKUS + index));
    skus.into_iter().map(|sku| Item { sku, qty: rng.random_range(1..=3) }).collect()
}

/// The stock that these orders need of every SKU, and ten pieces more; the index is the SKU.
#[must_use]
pub(crate) fn initial_stock<'a>(orders: impl IntoIterator<Item = &'a Order>) -> Vec<i64> {
    const SPARE: i64 = 10;
    let mut quantities = vec![SPARE; SKUS];
    for item in orders.into_iter().flat_map(|order| &order.items) {
        if let Some(quantity) = quantities.get_mut(item.sku) {
            *quantity += item.qty;
        }
    }
    quantities
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn baskets_hold_different_skus_and_half_of_the_items_are_hot() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut hot = 0;
        for _ in 0..1_000 {
            let basket = basket(&mut rng, 3);
            let mut skus: Vec<usize> = basket.iter().map(|item| item.sku).collect();
            hot += skus.iter().filter(|sku| **sku < HOT_SKUS).count();
            skus.sort_unstable();
            skus.dedup();
            assert_eq!(skus.len(), 3);
        }
        assert!((1_350..1_650).contains(&hot), "{hot} of 3000 items are hot");
    }
}
