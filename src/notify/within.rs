//! The time that a message may take.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::refused::Refused;

/// From the files to the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// When an answer has to be there.
#[derive(Clone, Copy)]
pub(super) struct Within(Instant);

impl Within {
    /// It begins now.
    pub(super) fn now() -> Self {
        Self(Instant::now() + PATIENCE)
    }

    /// # Errors
    /// The other side has the message by then and has not answered.
    pub(super) async fn answer<T>(self, sent: impl Future<Output = T>) -> Result<T, Refused> {
        let late = || format!("not answered within {} s", PATIENCE.as_secs());
        timeout_at(self.0, sent).await.map_err(|_| Refused::unanswered(late()))
    }
}
