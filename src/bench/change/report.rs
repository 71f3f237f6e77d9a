//! The result of `overdue bench change`: a table for each change, and whether every message was received in time.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use serde::Serialize;

use super::{
    ChangeSize,
    kind::ChangeKind,
    message_log::{MessageCounts, MessageLog},
};
use crate::demo::report::{Spread, per_second, spread};

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

/// The result of one change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredChange {
    /// As in `--change`.
    pub kind: ChangeKind,
    /// In words.
    pub what: String,
    /// What became of the messages.
    #[serde(flatten)]
    pub counts: MessageCounts,
    /// From due to received.
    pub lateness: Option<Spread>,
    /// Messages confirmed per second, before the change.
    pub published_per_s: f64,
    /// The plan's summary.
    pub plan: String,
    /// Steps of the plan.
    pub steps: usize,
    /// Seconds from planning until nothing new came into what was retired.
    pub switched_s: f64,
    /// Seconds from planning until the plan was carried out.
    pub applied_s: f64,
    /// Seconds from planning until what was retired was gone.
    pub old_queues_gone_s: f64,
    /// Where a timeout was removed: whether that was refused, and changed nothing, while messages were in its queue.
    pub refused_while_occupied: Option<bool>,
}

/// How the change was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedChange {
    /// The plan's summary.
    pub summary: String,
    /// Steps of the plan.
    pub steps: usize,
    /// Until nothing new came into what was retired.
    pub switched: Duration,
    /// Until the plan was carried out.
    pub applied: Duration,
    /// Until what was retired was gone.
    pub gone: Duration,
}

impl MeasuredChange {
    /// The result of a change that is over; `filled` is how long it took to publish the messages that waited.
    #[must_use]
    pub fn new(
        kind: ChangeKind,
        size: &ChangeSize,
        log: &MessageLog,
        filled: Duration,
        change: &AppliedChange,
        refused_while_occupied: Option<bool>,
    ) -> Self {
        Self {
            kind,
            what: kind.describe(&size.levels),
            counts: log.counts(),
            lateness: spread(log.lateness()),
            published_per_s: per_second(size.messages, filled),
            plan: change.summary.clone(),
            steps: change.steps,
            switched_s: seconds(change.switched),
            applied_s: seconds(change.applied),
            old_queues_gone_s: seconds(change.gone),
            refused_while_occupied,
        }
    }

    /// Everything that should not be.
    fn broken(&self) -> Vec<String> {
        let MessageCounts { lost, early, misdirected, foreign, .. } = self.counts;
        let counts = [
            (lost, "messages lost"),
            (early, "copies received before they were due"),
            (misdirected, "messages parked that should have been received"),
            (foreign, "messages that nobody published"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut broken: Vec<String> =
            counts.map(|(count, what)| format!("{what}: {count}")).collect();
        if self.refused_while_occupied == Some(false) {
            broken.push("a queue with messages was not left alone".to_owned());
        }
        broken
    }
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
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
        let counts = &self.counts;
        writeln!(f, "{}: {}", self.kind.name(), self.what)?;
        row(f, "plan", format_args!("{} steps", self.steps), &self.plan)?;
        let switched = "until nothing new came into what was retired";
        row(f, "changed", format_args!("{} s", self.switched_s), switched)?;
        let applied = "until the plan was carried out";
        row(f, "applied", format_args!("{} s", self.applied_s), applied)?;
        let gone = "until what was retired had drained and was gone";
        row(f, "old queues gone", format_args!("{} s", self.old_queues_gone_s), gone)?;
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
        if let Some(Spread { p50_ms, p99_ms, max_ms }) = self.lateness {
            row(f, "lateness p50", format_args!("{p50_ms} ms"), "from due to received")?;
            row(f, "lateness p99", format_args!("{p99_ms} ms"), "")?;
            row(f, "lateness max", format_args!("{max_ms} ms"), "")?;
        }
        row(f, "lost", counts.lost, "")?;
        row(f, "early", counts.early, "")
    }
}

fn row(f: &mut fmt::Formatter<'_>, what: &str, value: impl Display, more: &str) -> fmt::Result {
    // Padding works on text only, whatever `value` is.
    let line = format!("{what:<18} {:>10}   {more}", value.to_string());
    writeln!(f, "{}", line.trim_end())
}
