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
    /// A broker that takes its statistics every `interval`. One that is too short here makes `verify` judge
    /// too early; nothing is deleted for it.
    pub const fn new(interval: Duration) -> Self {
        Self(interval)
    }

    /// The age that a count has at the most: twice the interval.
    pub fn oldest_count(self) -> Duration {
        2 * self.0
    }

    /// What is read so long after an event has counted everything that was there before it.
    pub fn counts_settle(self) -> Duration {
        self.oldest_count() + READING
    }

    /// The same for a decision that cannot be taken back: an interval shorter than `least` may be a mistake.
    pub fn surely_settle(self, least: Duration) -> Duration {
        Self(self.0.max(least)).counts_settle()
    }

    /// A queue that has not been counted for so long is one that cannot be counted: statistics are off, or it has no
    /// leader.
    pub fn uncounted_at_most(self) -> Duration {
        ELECTION.max(6 * self.oldest_count())
    }
}

/// Shows from a quorum queue's own reports, whatever the intervals are, that its counts are newer than some event.
///
/// The process of such a queue reports its counts together with its reductions (the work it has done so far), which
/// grow with each report. The second report that is *seen* for the first time after the event was made after it: the
/// one seen before it was collected after the event, so what replaced that was made later still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountReports {
    last: Option<CountReport>,
    new: u8,
}

/// One report of a queue, as it differs from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountReport {
    /// The node whose process reported.
    pub leader: String,
    /// The work that process had done.
    pub reductions: u64,
}

impl CountReports {
    /// The report that is to be seen now, after the event.
    pub fn seen(&mut self, report: CountReport) {
        match &self.last {
            Some(last) if last.leader != report.leader => self.new = 0,
            Some(last) if *last != report => self.new = self.new.saturating_add(1),
            Some(_) | None => {}
        }
        self.last = Some(report);
    }

    /// True if any report was seen at all.
    pub fn any(&self) -> bool {
        self.last.is_some()
    }

    /// True if what was seen last was counted after the event.
    pub fn are_newer(&self) -> bool {
        self.new >= 2
    }
}
