//! Notices whose rows were deleted before they arrived. If most notices of a timeout find no row, a table may have been emptied, or
//! the database may be the wrong one.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::{Duration, Instant},
};

use crate::text::counted;

/// Length of the window.
const WINDOW: Duration = Duration::from_hours(1);
/// Time between two stored readings.
const KEPT_EVERY: Duration = Duration::from_mins(1);
/// Fewer notices prove nothing.
const FEWEST: u64 = 20;

/// The limit in words.
pub(super) fn limit() -> String {
    format!(
        "of the notices of a timeout with `gone = \"ack\"`, at least {FEWEST} in the last hour, more than half found no row"
    )
}

/// Notices of a timeout in the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoneNotices {
    /// The timeout's name.
    pub timeout: String,
    /// Notices that found no row.
    pub gone: u64,
    /// All settled notices.
    pub all: u64,
}

impl fmt::Display for GoneNotices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timeout, gone, all } = self;
        let all = counted(*all, "notice");
        write!(f, "{gone} of {all} of {timeout} in the last hour found no row")
    }
}

/// Notices that found no row, and all settled notices, for each timeout since the worker started.
pub type Totals = BTreeMap<String, (u64, u64)>;

/// Totals of the last hour.
#[derive(Debug, Default)]
pub struct LastHour {
    readings: VecDeque<(Instant, Totals)>,
}

impl LastHour {
    /// Starts without readings.
    pub const fn new() -> Self {
        Self { readings: VecDeque::new() }
    }

    /// Adds a reading. Returns the timeout with the most notices without a row, if these are more than half.
    pub fn read(&mut self, now: Instant, totals: Totals) -> Option<GoneNotices> {
        let is_old = |(at, _): &(Instant, Totals)| now.saturating_duration_since(*at) >= WINDOW;
        while self.readings.get(1).is_some_and(is_old) {
            self.readings.pop_front();
        }
        // No reading is an hour old in the first hour; then the totals since the worker started count.
        let before = self.readings.front().filter(|it| is_old(it)).map(|(_, totals)| totals);
        let since = |(timeout, (gone, all)): (&String, &(u64, u64))| {
            let (gone_then, all_then) =
                before.and_then(|it| it.get(timeout)).copied().unwrap_or_default();
            let (gone, all) = (gone.saturating_sub(gone_then), all.saturating_sub(all_then));
            GoneNotices { timeout: timeout.clone(), gone, all }
        };
        let wrong = totals.iter().map(since).filter(|it| it.all >= FEWEST && it.gone * 2 > it.all);
        let worst = wrong.max_by_key(|it| it.gone);
        let is_kept = self
            .readings
            .back()
            .is_none_or(|(last, _)| now.saturating_duration_since(*last) >= KEPT_EVERY);
        if is_kept {
            self.readings.push_back((now, totals));
        }
        worst
    }
}
