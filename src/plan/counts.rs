//! How old the broker's message counts may be, and how long to wait for newer ones.

use std::time::Duration;

/// How often the broker takes its statistics: the longer of `collect_statistics_interval` and `quorum_tick_interval`, both five
/// seconds by default.
///
/// A queue reports its counts once per interval, and the reports are collected once per interval.
/// Source: <https://www.rabbitmq.com/docs/management#statistics-interval>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatisticsInterval(Duration);

/// Time to read the counts after the broker has them.
const READING: Duration = Duration::from_secs(1);
/// Time within which a queue without a leader elects one, for any interval.
const ELECTION: Duration = Duration::from_mins(1);

impl Default for StatisticsInterval {
    fn default() -> Self {
        Self(Duration::from_secs(5))
    }
}

impl StatisticsInterval {
    /// Statistics that the broker takes every `interval`. If this value is too short, `verify` judges too early; no queue is
    /// deleted because of it.
    pub const fn new(interval: Duration) -> Self {
        Self(interval)
    }

    /// The maximum age of a count: twice the interval.
    pub fn oldest_count(self) -> Duration {
        2 * self.0
    }

    /// Time after an event from which counts include everything that happened before the event.
    pub fn counts_settle(self) -> Duration {
        self.oldest_count() + READING
    }

    /// Like [`counts_settle`](Self::counts_settle), for an irreversible decision: an interval shorter than `least` may be a
    /// mistake.
    pub fn surely_settle(self, least: Duration) -> Duration {
        Self(self.0.max(least)).counts_settle()
    }

    /// Time after which a queue without a count cannot be counted: statistics are off, or it has no leader.
    pub fn uncounted_at_most(self) -> Duration {
        ELECTION.max(6 * self.oldest_count())
    }
}

/// Shows from a quorum queue's own reports, for any interval, that its counts are newer than an event.
///
/// The queue's process reports its counts together with its reductions (the work that it has done), which grow with each
/// report. The first replacement of a report after the event was collected after the event. The second replacement
/// was therefore made after the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountReports {
    last: Option<CountReport>,
    new: u8,
}

/// A report of a queue, with the fields that differ between reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountReport {
    /// The node whose process reported.
    pub leader: String,
    /// The work that the process had done.
    pub reductions: u64,
}

impl CountReports {
    /// Records the report that the broker shows now, after the event.
    pub fn seen(&mut self, report: CountReport) {
        match &self.last {
            Some(last) if last.leader != report.leader => self.new = 0,
            Some(last) if *last != report => self.new = self.new.saturating_add(1),
            Some(_) | None => {}
        }
        self.last = Some(report);
    }

    /// Whether a report was seen at all.
    pub fn any(&self) -> bool {
        self.last.is_some()
    }

    /// Whether the latest report was made after the event.
    pub fn are_newer(&self) -> bool {
        self.new >= 2
    }
}
