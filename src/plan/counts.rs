//! How old the broker's message counts may be, and how long to wait for newer ones.

use std::time::Duration;

/// How often the broker takes its statistics: the longer of `collect_statistics_interval` and
/// `quorum_tick_interval`, both five seconds unless somebody has changed them.
///
/// A queue reports its counts once per interval, and the reports are collected once per interval.
/// Source: <https://www.rabbitmq.com/docs/management#statistics-interval>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatisticsInterval(Duration);

/// Time to read the counts once they are there.
const READING: Duration = Duration::from_secs(1);
/// A queue without a leader gets one in less, whatever the interval is.
const ELECTION: Duration = Duration::from_mins(1);

impl Default for StatisticsInterval {
    fn default() -> Self {
        Self(Duration::from_secs(5))
    }
}

impl StatisticsInterval {
    /// A broker that takes its statistics every `interval`. One that is too short here deletes nothing wrongly that
    /// is ready in a queue, but may miss what is unacked or on its way to the dead letter exchange.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self(interval)
    }

    /// The age that a count has at the most: twice the interval.
    #[must_use]
    pub fn oldest_count(self) -> Duration {
        2 * self.0
    }

    /// What is read so long after an event has counted everything that was there before it.
    #[must_use]
    pub fn counts_settle(self) -> Duration {
        self.oldest_count() + READING
    }

    /// A queue that has not been counted for so long is one that cannot be counted: statistics are off, or it has no
    /// leader.
    #[must_use]
    pub fn uncounted_at_most(self) -> Duration {
        ELECTION.max(6 * self.oldest_count())
    }

    /// Messages that are still counted so long after the last of them was due, and after the count last fell, do not
    /// come out any more.
    #[must_use]
    pub fn stuck_after(self) -> Duration {
        3 * self.oldest_count()
    }
}
