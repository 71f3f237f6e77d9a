//! The result of `overdue bench change`: a table for each change, and whether every message was received in time.

use std::fmt::{self, Display};

use serde::Serialize;

use super::{measured::MeasuredChange, size::ChangeSize};
use crate::{statistics::Percentiles, text::row};

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 2;

/// The result of the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// Messages that were published before each change.
    pub messages: usize,
    /// The level they waited in.
    pub level: String,
    /// One for each change.
    pub lines: Vec<MeasuredChange>,
}

impl ChangeReport {
    /// Nothing is measured yet.
    #[must_use]
    pub fn new(size: &ChangeSize) -> Self {
        let level = size.levels.level.name().to_owned();
        Self { schema: SCHEMA, messages: size.messages, level, lines: Vec::new() }
    }

    /// Whether no message was lost or early, in no change.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.lines.iter().all(|line| line.broken().is_empty())
    }
}

impl Display for ChangeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, level, .. } = self;
        writeln!(
            f,
            "topology changes while {messages} messages wait in level {level}, and more are published"
        )?;
        for line in &self.lines {
            writeln!(f)?;
            line.fmt(f)?;
            if line.counts.waiting < messages / 2 {
                writeln!(
                    f,
                    "hint: many were due before the change began; choose a longer --level"
                )?;
            }
        }
        writeln!(f)?;
        for line in &self.lines {
            for broken in line.broken() {
                writeln!(f, "BROKEN: {}: {broken}", line.kind.name())?;
            }
        }
        if self.is_right() { writeln!(f, "no message lost, none early") } else { Ok(()) }
    }
}

impl Display for MeasuredChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts, change, .. } = self;
        writeln!(f, "{}: {}", self.kind.name(), self.what)?;
        row(f, "plan", format_args!("{} steps", change.steps), &change.plan)?;
        let switched = "until nothing new came into what was retired";
        row(f, "changed", format_args!("{} s", change.switched_s), switched)?;
        let applied = "until the plan was carried out";
        row(f, "applied", format_args!("{} s", change.applied_s), applied)?;
        let gone = "until what was retired had drained and was gone";
        row(f, "old queues gone", format_args!("{} s", change.old_queues_gone_s), gone)?;
        if let Some(refused) = self.refused_while_occupied {
            let (value, more) = if refused {
                ("refused", "and nothing was changed")
            } else {
                ("NOT RIGHT", "it was not refused, or something was changed")
            };
            row(f, "while occupied", value, more)?;
        }
        let rate = format!("before the change at {}/s", self.published_per_s);
        row(f, "published", counts.published, &rate)?;
        row(f, "waiting", counts.waiting, "when the change began")?;
        row(f, "received", counts.received, &format!("{} messages", counts.distinct))?;
        row(
            f,
            "duplicates",
            counts.duplicates,
            "copies, of messages that came while old and new were bound",
        )?;
        row(f, "parked", counts.parked, "published to what was removed")?;
        if let Some(Percentiles { p50_ms, p99_ms, max_ms }) = self.lateness {
            row(f, "lateness p50", format_args!("{p50_ms} ms"), "from due to received")?;
            row(f, "lateness p99", format_args!("{p99_ms} ms"), "")?;
            row(f, "lateness max", format_args!("{max_ms} ms"), "")?;
        }
        row(f, "lost", counts.lost, "")?;
        row(f, "early", counts.early, "")
    }
}
