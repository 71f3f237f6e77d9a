//! Waiting for the broker: a look now and then, until it took too long.

use std::time::{Duration, Instant};

use super::{error::MeasureError, scenario::Scenario, size::ChangeSize};

/// How often `overdue apply --wait` looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Since when something is waited for, and for how long at most.
pub(super) struct Deadline {
    pub(super) since: Instant,
    limit: Duration,
}

impl Deadline {
    /// The longest level, three minutes for the counts and deletions, and 500 messages per second, where 10,000 are usual.
    pub(super) fn new(size: &ChangeSize, scenario: &Scenario) -> Self {
        let messages = u64::try_from(size.messages).unwrap_or(u64::MAX);
        let receiving = Duration::from_secs(messages / 500);
        let limit = scenario.waiting.ttl.as_duration() + Duration::from_mins(3) + receiving;
        Self { since: Instant::now(), limit }
    }

    /// Waits until the next look, or fails with `what` is waited for once it took too long.
    pub(super) async fn wait(&self, what: impl FnOnce() -> String) -> Result<(), MeasureError> {
        let waited = self.since.elapsed();
        if waited > self.limit {
            return Err(MeasureError::Stuck { what: what(), waited });
        }
        tokio::time::sleep(LOOK_EVERY).await;
        Ok(())
    }
}
