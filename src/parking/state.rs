//! What the database says of an order, in a few words.

use crate::{order::Outcome, text::about};

/// What the order of a message is now, for a line; none where the database was not asked.
#[must_use]
pub fn state(now: Option<&Outcome>) -> String {
    match now {
        None => "not asked".to_owned(),
        Some(Outcome::Closed { late, .. }) => format!("overdue by {}", about(*late)),
        Some(Outcome::AlreadyFinal) => "final".to_owned(),
        Some(Outcome::NotDue { remaining }) if remaining.is_zero() => "guarded".to_owned(),
        Some(Outcome::NotDue { remaining }) => format!("due in {}", about(*remaining)),
        Some(Outcome::Unknown) => "not in the database".to_owned(),
        Some(Outcome::Busy) => "locked".to_owned(),
        Some(Outcome::Failed { .. } | Outcome::Postponed { .. }) => "its effect fails".to_owned(),
    }
}

/// The same as one word, for programs.
#[must_use]
pub const fn state_word(now: &Outcome) -> &'static str {
    match now {
        Outcome::Closed { .. } => "overdue",
        Outcome::AlreadyFinal => "final",
        Outcome::NotDue { remaining } if remaining.is_zero() => "guarded",
        Outcome::NotDue { .. } => "not_due",
        Outcome::Unknown => "unknown",
        Outcome::Busy => "locked",
        Outcome::Failed { .. } | Outcome::Postponed { .. } => "effect_fails",
    }
}
