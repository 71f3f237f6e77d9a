//! The result of a run: a table for people, JSON for programs.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::{
    order_service::outcome::{Invariant, Outcome, Percentiles},
    text::row,
};

/// Increased when a field is removed or changes its meaning.
pub(super) const VERSION: u32 = 1;

/// Whether the rows of a run were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rows {
    /// The demo removed the rows.
    Removed,
    /// The rows remain, as requested.
    Kept,
    /// The rows remain, because messages of the run may still wait.
    Needed,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it, with their unit")]
pub(crate) struct DemoReport {
    pub version: u32,
    pub run: String,
    pub after_ms: u64,
    pub created_per_s: f64,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub payments_refused: usize,
    /// Messages that came early and were delayed again by the worker of this process, also of other runs.
    pub put_back: Option<u64>,
    pub run_time_s: f64,
    /// Checked invariants, kept or broken.
    pub invariants: Vec<Invariant>,
    pub interrupted: bool,
    /// Whether no message of the run waits in its level.
    pub drained: bool,
    pub rows: Rows,
}

impl DemoReport {
    /// Counts the broken invariants.
    pub(crate) fn broken(&self) -> usize {
        self.invariants.iter().filter(|invariant| invariant.broken > 0).count()
    }
}

impl Display for DemoReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let outcome = &self.outcome;
        row(f, "orders", outcome.orders, &format!("created at {}/s", self.created_per_s))?;
        let late = format!(
            "{} after the deadline, by at most {} ms",
            outcome.paid_late, outcome.paid_late_max_ms
        );
        row(f, "paid", outcome.paid, if outcome.paid_late > 0 { &late } else { "" })?;
        row(f, "payments refused", self.payments_refused, "")?;
        let paths = format!(
            "at {}/s; by message {}, in a burst {}, by sweep {}",
            outcome.closed_per_s,
            outcome.closed_by_message,
            outcome.closed_in_burst,
            outcome.closed_by_sweep
        );
        row(f, "closed", outcome.closed, &paths)?;
        row(f, "still unpaid", outcome.still_unpaid, "")?;
        if let Some(Percentiles { p50_ms, p99_ms, max_ms }) = outcome.lateness {
            let clock = if outcome.lateness_by_commit {
                "from due to committed, by the database's commit times"
            } else {
                "from due to closed_at: this database keeps no commit times (track_commit_timestamp)"
            };
            row(f, "lateness p50", format_args!("{p50_ms} ms"), clock)?;
            row(f, "lateness p99", format_args!("{p99_ms} ms"), "")?;
            row(f, "lateness max", format_args!("{max_ms} ms"), "")?;
        }
        if let Some(put_back) = self.put_back {
            row(f, "put back", put_back, "")?;
        }
        row(f, "run time", format_args!("{} s", self.run_time_s), "")?;
        for invariant in &self.invariants {
            writeln!(f, "{invariant}")?;
        }
        self.rows(f)
    }
}

impl DemoReport {
    fn rows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let why = match self.rows {
            Rows::Removed => return Ok(()),
            Rows::Kept => "stay, because of --keep; remove them with",
            Rows::Needed => {
                "stay, because its messages may still be on their way; remove them later with"
            }
        };
        writeln!(f, "the rows of {run} {why}: overdue demo --remove {run}", run = self.run)
    }
}
