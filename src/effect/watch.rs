//! Watches the program that closes rows today: which rows came due, when each was no longer open, and how the effect's deadline
//! compares with that.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    time::Duration,
};

use jiff::Timestamp;
use serde::Serialize;

use crate::text::{counted, length, millis};

/// Limit of rows that a report names.
const SHOWN: usize = 10;
/// Shorter durations are kept to the millisecond, longer ones to three digits: polls are no finer.
const DIGITS: u64 = 1_000;

/// The state of a row at a poll, if the row was open before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The row is open.
    Open {
        /// The deadline; `None` means never.
        due_at: Option<Timestamp>,
        /// Whether `unless` keeps the row open.
        is_kept: bool,
    },
    /// The row is not open.
    Left {
        /// Whether the row has the state that the effect sets; `None` if that state is no constant.
        is_closed: Option<bool>,
    },
    /// The row no longer exists.
    Deleted,
}

/// The way in which a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Closed after its deadline.
    Closed,
    /// Deleted after its deadline.
    Deleted,
    /// Closed before its deadline.
    ClosedEarly,
    /// Paid, cancelled or deleted before its deadline.
    LeftBefore,
    /// Left the open state after its deadline, for another state than the effect sets.
    LeftAfter,
}

/// The end of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// The key, as messages spell it.
    pub key: String,
    /// The deadline, at which the effect would have closed the row.
    pub due_at: Timestamp,
    /// The first poll that did not find the row open.
    pub seen_at: Timestamp,
    /// The way in which the row ended.
    pub ending: Ending,
}

/// An open row.
#[derive(Clone, Copy, Debug)]
struct Open {
    due_at: Timestamp,
    /// The last poll that found the row open.
    seen_open: Timestamp,
    is_kept: bool,
}

/// Open rows that are remembered, and statistics of ended ones.
#[derive(Debug)]
pub struct Watch {
    most: usize,
    began: Timestamp,
    rows: HashMap<String, Open>,
    is_full: bool,
    closed: Lateness,
    deleted: usize,
    closed_early: Lateness,
    left_before: usize,
    left_after: usize,
    without_deadline: usize,
}

impl Watch {
    /// Starts without rows; at most `most` open rows are remembered at a time.
    pub fn new(most: usize, began: Timestamp) -> Self {
        Self {
            most,
            began,
            rows: HashMap::new(),
            is_full: false,
            closed: Lateness::default(),
            deleted: 0,
            closed_early: Lateness::default(),
            left_before: 0,
            left_after: 0,
            without_deadline: 0,
        }
    }

    /// Number of remembered open rows.
    pub fn remembered(&self) -> usize {
        self.rows.len()
    }

    /// Records the rows that a poll found open. Returns the keys of remembered rows that were not among them, for
    /// [`found`](Self::found).
    pub fn open(&mut self, now: Timestamp, open: &[(String, Timestamp)]) -> Vec<String> {
        let seen: HashSet<&str> = open.iter().map(|(key, _)| key.as_str()).collect();
        let mut missing: Vec<String> =
            self.rows.keys().filter(|key| !seen.contains(key.as_str())).cloned().collect();
        missing.sort_unstable();
        for (key, due_at) in open {
            if let Some(row) = self.rows.get_mut(key) {
                (row.due_at, row.seen_open) = (*due_at, now);
            } else if self.rows.len() < self.most {
                let row = Open { due_at: *due_at, seen_open: now, is_kept: false };
                self.rows.insert(key.clone(), row);
            } else {
                self.is_full = true;
            }
        }
        missing
    }

    /// Records the state of rows by their keys. Returns the rows that have ended, by deadline.
    pub fn found(
        &mut self,
        now: Timestamp,
        asked: &[String],
        found: &BTreeMap<String, Found>,
    ) -> Vec<Ended> {
        let mut ended = Vec::new();
        for key in asked {
            let Some(row) = self.rows.get_mut(key) else { continue };
            let found = found.get(key).copied().unwrap_or(Found::Deleted);
            match found {
                Found::Open { due_at: Some(due_at), is_kept } => {
                    *row = Open { due_at, seen_open: now, is_kept };
                    continue;
                }
                Found::Open { due_at: None, .. } => self.without_deadline += 1,
                Found::Left { .. } | Found::Deleted => {
                    let ending = ending(row, now, found);
                    let (key, due_at) = (key.clone(), row.due_at);
                    ended.push(Ended { key, due_at, seen_at: now, ending });
                }
            }
            self.rows.remove(key);
        }
        for it in &ended {
            match it.ending {
                Ending::Closed => self.closed.add(between(it.due_at, now)),
                Ending::Deleted => {
                    self.deleted += 1;
                    self.closed.add(between(it.due_at, now));
                }
                Ending::ClosedEarly => self.closed_early.add(between(now, it.due_at)),
                Ending::LeftBefore => self.left_before += 1,
                Ending::LeftAfter => self.left_after += 1,
            }
        }
        ended.sort_by(|one, other| (one.due_at, &one.key).cmp(&(other.due_at, &other.key)));
        ended
    }

    /// Keys of rows that are open after their deadline.
    pub fn overdue(&self, now: Timestamp) -> Vec<String> {
        let overdue = self.rows.iter().filter(|(_, row)| row.due_at <= now);
        let mut keys: Vec<String> = overdue.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// The report of all polls until `now`.
    pub fn report(&self, now: Timestamp) -> Report {
        let mut open: Vec<_> = self.rows.iter().filter(|(_, row)| row.due_at <= now).collect();
        open.sort_by_key(|(key, row)| (row.due_at, *key));
        let examples = open.iter().take(SHOWN).map(|(key, row)| StillOpen {
            key: (*key).clone(),
            due_at: row.due_at,
            overdue_ms: millis(between(row.due_at, now)),
        });
        Report {
            version: 1,
            from: self.began,
            until: now,
            came_due: self.closed.rows + self.left_after + open.len(),
            closed: self.closed.summary(),
            deleted: self.deleted,
            left_after: self.left_after,
            still_open: open.len(),
            open_before_the_watch: open.iter().filter(|(_, row)| row.due_at < self.began).count(),
            kept_open: open.iter().filter(|(_, row)| row.is_kept).count(),
            longest_open: examples.collect(),
            closed_early: self.closed_early.summary(),
            left_before: self.left_before,
            without_deadline: self.without_deadline,
            not_yet_due: self.rows.len() - open.len(),
            forgot_rows: self.is_full,
        }
    }
}

/// Classifies the end of a row that was open at an earlier poll.
fn ending(row: &Open, now: Timestamp, found: Found) -> Ending {
    let is_over = row.due_at <= now;
    match found {
        Found::Left { is_closed: Some(true) } if is_over => Ending::Closed,
        Found::Left { is_closed: Some(true) } => Ending::ClosedEarly,
        _ if !is_over => Ending::LeftBefore,
        // The row may have been paid in time between the two polls.
        Found::Left { is_closed: Some(false) } if row.seen_open < row.due_at => Ending::LeftBefore,
        Found::Left { is_closed: Some(false) } => Ending::LeftAfter,
        Found::Deleted => Ending::Deleted,
        Found::Left { is_closed: None } | Found::Open { .. } => Ending::Closed,
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A distribution of durations, whose memory does not grow with the number of rows.
#[derive(Clone, Debug, Default)]
struct Lateness {
    rows: usize,
    /// Counts by duration, in milliseconds cut to three digits.
    counts: BTreeMap<u64, usize>,
    longest_ms: u64,
}

impl Lateness {
    fn add(&mut self, time: Duration) {
        let ms = millis(time);
        let mut unit = 1;
        while ms / unit >= DIGITS {
            unit *= 10;
        }
        self.rows += 1;
        *self.counts.entry(ms / unit * unit).or_default() += 1;
        self.longest_ms = self.longest_ms.max(ms);
    }

    /// The percentile `hundredths`, in milliseconds.
    fn percentile(&self, hundredths: usize) -> u64 {
        let mut left = (self.rows * hundredths).div_ceil(100);
        for (ms, rows) in &self.counts {
            left = left.saturating_sub(*rows);
            if left == 0 {
                return *ms;
            }
        }
        self.longest_ms
    }

    fn summary(&self) -> Summary {
        Summary {
            rows: self.rows,
            median_ms: self.percentile(50),
            p99_ms: self.percentile(99),
            longest_ms: self.longest_ms,
        }
    }
}

/// A distribution in four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of rows.
    pub rows: usize,
    /// Median, in milliseconds.
    pub median_ms: u64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: u64,
    /// Maximum, in milliseconds.
    pub longest_ms: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99, longest] = [self.median_ms, self.p99_ms, self.longest_ms].map(shown);
        write!(f, "median {median}, p99 {p99}, slowest {longest}")
    }
}

/// A row that stayed open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StillOpen {
    /// The key, as messages spell it.
    pub key: String,
    /// The deadline.
    pub due_at: Timestamp,
    /// Time since the deadline, in milliseconds.
    pub overdue_ms: u64,
}

/// A report of all polls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// The first poll.
    pub from: Timestamp,
    /// The last poll.
    pub until: Timestamp,
    /// Rows that were open after their deadline at a poll, or closed after it: the effect would have closed them.
    pub came_due: usize,
    /// Time from the deadline to the first poll after a row was closed.
    pub closed: Summary,
    /// Closed rows that were deleted.
    pub deleted: usize,
    /// Rows that left after their deadline for another state than the effect sets: paid late, for instance.
    pub left_after: usize,
    /// Rows that are open after their deadline at the end.
    pub still_open: usize,
    /// Rows still open that were overdue before the first poll.
    pub open_before_the_watch: usize,
    /// Rows still open because of `unless`.
    pub kept_open: usize,
    /// The ten rows that have been open longest after their deadline.
    pub longest_open: Vec<StillOpen>,
    /// Time from the first poll after a row was closed to its later deadline.
    pub closed_early: Summary,
    /// Rows that left before their deadline: paid or otherwise.
    pub left_before: usize,
    /// Rows whose deadline was removed.
    pub without_deadline: usize,
    /// Rows that are open before their deadline at the end.
    pub not_yet_due: usize,
    /// Whether there were more open rows than the limit.
    pub forgot_rows: bool,
}

impl Report {
    /// Compares the deadline of the effect with the times at which rows are closed today.
    pub fn comparison(&self) -> Option<String> {
        let Self { closed, closed_early, .. } = self;
        let early = shown(closed_early.median_ms);
        if closed_early.rows == 0 {
            return None;
        }
        Some(if closed_early.rows > closed.rows {
            format!("the deadline of the effect is {early} later than what closes rows today")
        } else {
            format!(
                "{} closed {early} before the deadline of the effect, and {} after it: compare their deadlines",
                counted(closed_early.rows, "row"),
                closed.rows
            )
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = |rows: usize| counted(rows, "row");
        let lasted = shown(millis(between(self.from, self.until)));
        writeln!(
            f,
            "{} came due in {lasted}; the effect would have closed each at its deadline",
            rows(self.came_due)
        )?;
        let Self { closed, deleted, closed_early, .. } = self;
        if closed.rows > 0 {
            writeln!(
                f,
                "  closed today         {} after the deadline: {closed}",
                rows(closed.rows)
            )?;
        }
        if *deleted > 0 {
            writeln!(f, "                       {deleted} of them deleted")?;
        }
        if self.left_after > 0 {
            writeln!(
                f,
                "  left after it        {}, in another state than the effect sets: paid late or otherwise",
                rows(self.left_after)
            )?;
        }
        if self.still_open > 0 {
            let mut more = Vec::new();
            if self.open_before_the_watch > 0 {
                more.push(format!("{} overdue before the first look", self.open_before_the_watch));
            }
            if self.kept_open > 0 {
                more.push(format!("{} kept open by `unless`", self.kept_open));
            }
            let more =
                if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
            writeln!(f, "  still open           {}{more}", rows(self.still_open))?;
            for StillOpen { key, due_at, overdue_ms } in &self.longest_open {
                let late = shown(*overdue_ms);
                writeln!(f, "    {key}: due {}, overdue for {late}", second(*due_at))?;
            }
            let others = self.still_open - self.longest_open.len();
            if others > 0 {
                writeln!(f, "    and {others} more")?;
            }
        }
        if closed_early.rows > 0 {
            let Summary { rows: early, median_ms, p99_ms, longest_ms } = *closed_early;
            let [median, p99, longest] = [median_ms, p99_ms, longest_ms].map(shown);
            writeln!(
                f,
                "  closed before it     {}: median {median} before, p99 {p99}, earliest {longest}",
                rows(early)
            )?;
        }
        if self.left_before > 0 {
            writeln!(f, "  left before it       {}: paid or otherwise", rows(self.left_before))?;
        }
        if self.without_deadline > 0 {
            writeln!(
                f,
                "  without a deadline   {}: it was taken away",
                rows(self.without_deadline)
            )?;
        }
        if self.not_yet_due > 0 {
            writeln!(f, "  not yet due          {}", rows(self.not_yet_due))?;
        }
        if let Some(comparison) = self.comparison() {
            writeln!(f, "{comparison}")?;
        }
        if self.forgot_rows {
            writeln!(
                f,
                "more rows were open than are remembered: rows that were due later are not in these numbers"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, due_at, seen_at, ending } = self;
        let (due, seen) = (second(*due_at), second(*seen_at));
        let late = shown(millis(between(*due_at, *seen_at)));
        write!(f, "{key}: due {due}, ")?;
        match ending {
            Ending::Closed => write!(f, "closed today at {seen} ({late} late)"),
            Ending::Deleted => write!(f, "deleted today at {seen} ({late} late)"),
            Ending::ClosedEarly => {
                let early = shown(millis(between(*seen_at, *due_at)));
                write!(f, "closed today at {seen} ({early} early)")
            }
            Ending::LeftBefore => write!(f, "no longer open at {seen}: paid or otherwise"),
            Ending::LeftAfter => write!(f, "in another state at {seen} ({late} late)"),
        }
    }
}

/// A duration, in whole seconds from ten seconds on.
fn shown(ms: u64) -> String {
    length(Duration::from_millis(if ms < 10_000 { ms } else { ms / 1_000 * 1_000 }))
}

/// A time for people, to the second.
fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).map_or_else(|_| time.to_string(), |it| it.to_string())
}
