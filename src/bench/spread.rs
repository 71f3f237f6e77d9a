//! A number that was measured in several rounds.

use std::fmt;

use serde::Serialize;

/// The median of the rounds, and how far they are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The one in the middle; of an even number the greater.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

impl Spread {
    /// Of nothing it is 0.
    #[must_use]
    pub(crate) fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        let at = |place: usize| numbers.get(place).copied().unwrap_or_default();
        Self {
            median: at(numbers.len() / 2),
            least: at(0),
            most: numbers.last().copied().unwrap_or_default(),
        }
    }

    /// Of those that were counted; `None` where none was.
    #[must_use]
    pub(crate) fn of_counted(numbers: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let numbers: Vec<f64> = numbers.flatten().collect();
        (!numbers.is_empty()).then(|| Self::of(numbers.into_iter()))
    }

    /// How many times as great as `other`, in hundredths; 0 where that is 0.
    #[must_use]
    pub(crate) fn ratio_to(self, other: Self) -> f64 {
        if other.median == 0.0 {
            return 0.0;
        }
        (self.median / other.median * 100.0).round() / 100.0
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} ({:.1} to {:.1})", self.median, self.least, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_for_the_rounds_and_nothing_is_divided_by_nothing() {
        let spread = Spread::of([3.0, 1.0, 8.0].into_iter());
        assert_eq!(spread, Spread { median: 3.0, least: 1.0, most: 8.0 });
        assert_eq!(spread.to_string(), "3.0 (1.0 to 8.0)");
        let usual = Spread::of([2.0].into_iter());
        assert!((spread.ratio_to(usual) - 1.5).abs() < f64::EPSILON);
        assert!(spread.ratio_to(Spread::of(std::iter::empty())) == 0.0);
    }
}
