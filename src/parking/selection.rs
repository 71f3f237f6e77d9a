//! Messages that an operator selected, one by one.

use std::{collections::BTreeMap, iter::repeat_n};

/// Selected messages by [`print`](super::ParkedMessage::print), with the count of each: equal messages cannot be told
/// apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selection(BTreeMap<u64, usize>);

impl Selection {
    /// Adds a message.
    pub fn add(&mut self, print: u64) {
        *self.0.entry(print).or_default() += 1;
    }

    /// Removes a message; false if no equal one is left.
    pub fn remove(&mut self, print: u64) -> bool {
        let Some(count) = self.0.get_mut(&print) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&print);
        }
        true
    }

    /// Whether an equal message is selected.
    pub fn contains(&self, print: u64) -> bool {
        self.0.contains_key(&print)
    }

    /// Whether no message is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of all selected messages.
    pub fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// Each message; equal ones follow each other.
    pub fn prints(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(print, count)| repeat_n(*print, *count))
    }
}

impl FromIterator<u64> for Selection {
    fn from_iter<I: IntoIterator<Item = u64>>(prints: I) -> Self {
        let mut selection = Self::default();
        prints.into_iter().for_each(|print| selection.add(print));
        selection
    }
}
