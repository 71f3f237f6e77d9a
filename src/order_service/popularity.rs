//! How often each SKU is ordered: by Zipf, as in a large shop. The second SKU is ordered half as often as the first, the
//! third a third as often, and so on.

use rand::{Rng, RngExt, distr::weighted::WeightedIndex};

use super::basket::Item;

/// How popular the SKUs of a large shop are.
#[derive(Clone, Debug)]
pub(crate) struct Popularity {
    skus: usize,
    /// None where there are no SKUs.
    weights: Option<WeightedIndex<f64>>,
}

impl Popularity {
    /// SKUs by Zipf, with the exponent 1; the first is the most popular.
    #[must_use]
    pub(crate) fn zipf(skus: usize) -> Self {
        let ranks = (1..=u32::try_from(skus).unwrap_or(u32::MAX)).map(f64::from);
        let weights = WeightedIndex::new(ranks.map(f64::recip)).ok();
        Self { skus, weights }
    }

    /// A basket of `size` different SKUs, fewer where there are fewer.
    #[must_use]
    pub(crate) fn basket(&self, rng: &mut impl Rng, size: usize) -> Vec<Item> {
        let Some(weights) = &self.weights else { return Vec::new() };
        let mut items: Vec<Item> = Vec::with_capacity(size);
        while items.len() < size.min(self.skus) {
            let sku = rng.sample(weights);
            if items.iter().all(|item| item.sku != sku) {
                items.push(Item { sku, qty: rng.random_range(1..=3) });
            }
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn popular_skus_are_ordered_as_often_as_zipf_says_and_a_basket_has_each_once() {
        let (mut rng, popularity) = (StdRng::seed_from_u64(7), Popularity::zipf(10_000));
        let mut ordered = vec![0_u32; 10_000];
        for _ in 0..50_000 {
            let basket = popularity.basket(&mut rng, 2);
            assert!(basket.len() == 2 && basket[0].sku != basket[1].sku, "{basket:?}");
            for item in &basket {
                ordered[item.sku] += 1;
            }
        }
        // Of 100,000 items: the sum of 1/k up to 10,000 is 9.79. A basket has the first one once, so a little less.
        assert!((9_000..10_500).contains(&ordered[0]), "{}", ordered[0]);
        let halves = f64::from(ordered[0]) / f64::from(ordered[1]);
        assert!((1.8..2.2).contains(&halves), "{halves}");
        let unpopular: u32 = ordered[5_000..].iter().sum();
        assert!((6_000..8_500).contains(&unpopular), "{unpopular}");
    }

    #[test]
    fn a_basket_is_never_larger_than_the_shop() {
        let mut rng = StdRng::seed_from_u64(7);
        assert_eq!(Popularity::zipf(3).basket(&mut rng, 5).len(), 3);
        assert_eq!(Popularity::zipf(0).basket(&mut rng, 5), []);
    }
}
