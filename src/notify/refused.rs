//! Why a message was not taken, and what that means for the next attempt.

use std::time::Duration;

/// A message that was not taken, as far as is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// In one line and without the URL: its path may be a secret.
    pub(crate) reason: String,
    /// The other side has all of it and has not said no: it may have taken it.
    pub(super) maybe_taken: bool,
    /// When it wants to be asked again.
    pub(super) retry_after: Option<Duration>,
}

impl Refused {
    /// A message that was sent and not answered.
    pub(super) const fn unanswered(reason: String) -> Self {
        Self { reason, maybe_taken: true, retry_after: None }
    }
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self { reason, maybe_taken: false, retry_after: None }
    }
}
