//! Which of the parked messages are asked for.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::message::ParkedMessage;

/// Conditions that a message has to meet, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Its reason has this in it, whatever the case.
    pub reason: Option<String>,
    /// It is for this timeout.
    pub timeout: Option<String>,
    /// It is about one of these orders; of any order where there is none.
    pub orders: BTreeSet<String>,
    /// It was parked longer ago.
    pub older_than: Option<Duration>,
    /// It was parked since.
    pub newer_than: Option<Duration>,
}

impl Filter {
    /// Whether everything is asked for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `message` is asked for. One of unknown age is neither old nor new.
    #[must_use]
    pub fn takes(&self, message: &ParkedMessage, now: Timestamp) -> bool {
        let age = || {
            let age = now.duration_since(message.parked_at?);
            // A clock that is behind makes it new.
            Some(Duration::try_from(age).unwrap_or_default())
        };
        let order = || message.order.as_ref().is_some_and(|id| self.orders.contains(id.as_str()));
        self.reason.as_deref().is_none_or(|text| has(&message.cause.to_string(), text))
            && self.timeout.as_ref().is_none_or(|name| message.timeout.as_ref() == Some(name))
            && (self.orders.is_empty() || order())
            && self.older_than.is_none_or(|bound| age().is_some_and(|age| age >= bound))
            && self.newer_than.is_none_or(|bound| age().is_some_and(|age| age < bound))
    }
}

fn has(reason: &str, text: &str) -> bool {
    reason.to_lowercase().contains(&text.to_lowercase())
}
