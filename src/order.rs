//! What an order is called, and what the database says about it.

pub(crate) mod final_state;

use std::{fmt, time::Duration};

use serde::Serialize;

pub use final_state::FinalState;

/// Longer ids are refused: with `@` and a deadline, or `#` and a delivery tag, behind it an id becomes a
/// `message-id`, and that is a short string of at most 255 bytes.
pub const MAX_ORDER_ID_BYTES: usize = 200;

/// The id of an order, as the order service writes it: 1 to 200 bytes, no white space, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct OrderId(Box<str>);

impl OrderId {
    /// Checks a text that is to be an order id.
    ///
    /// # Errors
    /// Empty, longer than [`MAX_ORDER_ID_BYTES`], or with white space or control characters
    /// (PostgreSQL's `text` takes no NUL).
    pub fn parse(text: &str) -> Result<Self, OrderIdError> {
        if text.is_empty() {
            return Err(OrderIdError::Empty);
        }
        if text.len() > MAX_ORDER_ID_BYTES {
            return Err(OrderIdError::TooLong(text.len()));
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(OrderIdError::Characters);
        }
        Ok(Self(text.into()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not an order id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is the sentence above it")]
pub enum OrderIdError {
    #[error("the order id is empty")]
    Empty,
    #[error("the order id has {0} bytes, more than {max}", max = MAX_ORDER_ID_BYTES)]
    TooLong(usize),
    #[error("the order id has white space or control characters")]
    Characters,
}

/// What the database said about one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This call brought it to its final state.
    Closed {
        /// How long after its deadline, by the database's clock.
        late: Duration,
        /// What the effect calls that state.
        state: FinalState,
    },
    /// Paid, closed before, or otherwise settled: nothing to do.
    AlreadyFinal,
    /// The deadline has not come; so long it is still to wait, by the database's clock.
    NotDue {
        /// Time to the deadline.
        remaining: Duration,
    },
    /// The database does not know it: not committed yet, or never.
    Unknown,
    /// Somebody else holds a lock that closing it needs. It is tried again until the lock is free: at once, then at
    /// most every second. That burns no retry.
    Busy,
    /// The order itself makes the effect fail; the others do not.
    Failed {
        /// What is the same for all orders that fail like this one, e.g. the SQLSTATE.
        cause: String,
        /// What PostgreSQL said.
        reason: String,
    },
    /// It failed, and probably not through any fault of its own. It is tried again much later, which burns no retry.
    Postponed {
        /// What PostgreSQL said.
        reason: String,
    },
}

impl Outcome {
    /// What the effect calls the state that it brought the order to, if this call did.
    pub(crate) const fn final_state(&self) -> Option<&FinalState> {
        match self {
            Self::Closed { state, .. } => Some(state),
            _ => None,
        }
    }
}
