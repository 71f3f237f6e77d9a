//! How many messages lie in the parking lot for which reason.

use std::collections::BTreeMap;

use super::cause::Cause;

/// Reasons that are counted one by one. What an effect says may be another text for each order.
const MOST: usize = 200;
/// Characters of a reason.
const LONGEST: usize = 200;

/// Messages by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    counted: BTreeMap<String, u64>,
    others: u64,
}

impl Reasons {
    /// One more message.
    pub fn add(&mut self, cause: &Cause) {
        let reason: String = cause.in_general().chars().take(LONGEST).collect();
        if self.counted.len() < MOST || self.counted.contains_key(&reason) {
            *self.counted.entry(reason).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    /// Messages in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counted.values().sum::<u64>() + self.others
    }

    /// The `most` frequent reasons, most frequent first, and how many messages have none of them.
    #[must_use]
    pub fn most_frequent(&self, most: usize) -> (Vec<(&str, u64)>, u64) {
        let mut sorted: Vec<(&str, u64)> =
            self.counted.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        sorted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        let rest = sorted.iter().skip(most).map(|(_, count)| count).sum::<u64>();
        sorted.truncate(most);
        (sorted, rest + self.others)
    }
}
