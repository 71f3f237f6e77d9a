//! What an effect calls the state that it brings orders to.

use std::{borrow::Cow, collections::BTreeSet, fmt};

/// Enough for a word; it stands in logs.
const MAX_BYTES: usize = 40;
/// Those of the built-in effects, which cost no memory per order.
const KNOWN: [&str; 4] = ["closed", "cancelled", "completed", "done"];

/// `closed`, `cancelled`, …: 1 to 40 lower-case letters, digits and `_`, a letter first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FinalState(Cow<'static, str>);

impl FinalState {
    /// What `close` brings orders to.
    pub const CLOSED: Self = Self(Cow::Borrowed("closed"));

    /// Reads the `outcome` of an order that the effect has carried out: `done:` and a word, `done` alone, or `closed`.
    /// None for everything else: a misspelt `already_final` must not pass for a state.
    #[must_use]
    pub fn of_outcome(outcome: &str) -> Option<Self> {
        let word = match outcome.strip_prefix("done:") {
            Some(word) => word,
            None if matches!(outcome, "closed" | "done") => outcome,
            None => return None,
        };
        let known = KNOWN.into_iter().find(|known| *known == word);
        is_word(word)
            .then(|| Self(known.map_or_else(|| Cow::Owned(word.to_owned()), Cow::Borrowed)))
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FinalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.len() <= MAX_BYTES
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(allowed)
}

/// The states that the orders of a batch were brought to: one, as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FinalStates(BTreeSet<FinalState>);

impl FinalStates {
    pub(crate) fn add<'a>(&mut self, states: impl Iterator<Item = &'a FinalState>) {
        for state in states {
            if !self.0.contains(state) {
                self.0.insert(state.clone());
            }
        }
    }
}

impl fmt::Display for FinalStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(FinalState::as_str).collect();
        f.write_str(&words.join(","))
    }
}
