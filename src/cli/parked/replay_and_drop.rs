//! `overdue parked replay` and `overdue parked drop`: the preview, the question, and the result.

use std::{fmt, num::NonZeroU32};

use clap::Args;
use serde::Serialize;

use super::{
    super::{
        exit::Failure,
        output::{Confirm, Output, report},
        progress::Progress,
        setup,
    },
    Select, lots,
};
use crate::{
    config::Settings,
    oncall::{
        actions::Via,
        parked::{Lots, all_applied},
    },
    parking::{Reasons, Totals},
    shutdown::Stop,
    text::{counted, one_line},
};

/// The most reasons that the preview of a drop names.
const REASONS: usize = 20;

/// Publish messages again whose orders are not final; asks first
#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    confirm: Confirm,
    /// Messages per second, at most
    #[arg(long, default_value = "1000", value_name = "N")]
    rate: NonZeroU32,
    #[command(flatten)]
    output: Output,
}

/// Delete messages for good, and record them in the database; asks first
#[derive(Debug, Args)]
pub(in crate::cli) struct DropMessages {
    #[command(flatten)]
    select: Select,
    /// Reason, which is recorded with each message in the table dropped_messages
    #[arg(long, value_name = "TEXT")]
    because: String,
    /// Drop every message in the parking lot, if no other option selects messages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

/// The result of a replay.
#[derive(Serialize)]
struct Replayed<'a> {
    version: u32,
    queues: &'a [String],
    #[serde(flatten)]
    totals: &'a Totals,
}

impl fmt::Display for Replayed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "done in {}:\n{}", self.queues.join(", "), self.totals)
    }
}

#[derive(Serialize)]
struct Dropped<'a> {
    version: u32,
    queues: &'a [String],
    dropped: u64,
}

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = counted(self.dropped, "message");
        write!(f, "{messages} dropped, and recorded in the table dropped_messages")
    }
}

impl Replay {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lots = lots(settings).await?;
        let mut filter = self.select.filter();
        let (mut expected, mut counted_all) = (None, Ok(None));
        if !self.confirm.yes {
            let lock = lots.lock().await?;
            let mut progress = Progress::new("messages looked at", None);
            let (totals, which, seen) =
                lots.preview(&filter, |number| progress.add(number)).await?;
            lock.release().await;
            if totals.leaving() == 0 {
                self.answer(&lots, &totals)?;
                all_applied(&totals)?;
                return said(seen.end());
            }
            seen.unseen().into_iter().for_each(report);
            self.output.preview(format!("in {}:\n{totals}", lots.names()))?;
            self.confirm.ask(&format!(
                "take {} out of the parking lot at {}?",
                counted(totals.leaving(), "message"),
                lots.services.address
            ))?;
            // Exclude messages that are parked while the user reads the question.
            filter.selected = which;
            (expected, counted_all) = (Some(totals.total()), seen.end());
        }
        let stop = setup::stop_on_signals()?;
        let mut progress = Progress::new("messages done", expected);
        let (totals, ended) =
            lots.replay(&filter, self.rate, Via::Cli, &stop, |number| progress.add(number)).await;
        // A failure before the first message has no answer.
        if ended.is_ok() || totals.total() > 0 {
            self.answer(&lots, &totals)?;
        }
        note_of_stop(&stop);
        said(ended.and_then(|note| Ok(note.or(counted_all?))))
    }

    fn answer(&self, lots: &Lots, totals: &Totals) -> Result<(), Failure> {
        self.output.print(&Replayed { version: 1, queues: &lots.queues, totals })
    }
}

impl DropMessages {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        if self.because.trim().is_empty() {
            return Err(Failure::usage("--because is empty: say why these messages are dropped"));
        }
        let mut filter = self.select.filter();
        if filter.is_open() && !self.all {
            return Err(Failure::usage(
                "say which messages (--reason, --timeout, --order, --older-than, --newer-than), or --all",
            ));
        }
        let lots = lots(settings).await?;
        let (mut expected, mut counted_all) = (None, Ok(None));
        if !self.confirm.yes {
            let lock = lots.lock().await?;
            let (reasons, which, seen) = lots.reasons(&filter).await?;
            lock.release().await;
            self.output.preview(preview(&reasons))?;
            let total = reasons.total();
            if total == 0 {
                self.answer(&lots, 0)?;
                return said(seen.end());
            }
            seen.unseen().into_iter().for_each(report);
            let address = &lots.services.address;
            self.confirm
                .ask(&format!("drop {} of {address} for good?", counted(total, "message")))?;
            filter.selected = which;
            (expected, counted_all) = (Some(total), seen.end());
        }
        let stop = setup::stop_on_signals()?;
        let mut progress = Progress::new("messages dropped", expected);
        let because = &self.because;
        let (dropped, ended) =
            lots.drop_messages(&filter, because, Via::Cli, &stop, |n| progress.add(n)).await;
        if ended.is_ok() || dropped > 0 {
            self.answer(&lots, dropped)?;
        }
        note_of_stop(&stop);
        said(ended.and_then(|note| Ok(note.or(counted_all?))))
    }

    fn answer(&self, lots: &Lots, dropped: u64) -> Result<(), Failure> {
        self.output.print(&Dropped { version: 1, queues: &lots.queues, dropped })
    }
}

fn preview(reasons: &Reasons) -> String {
    let (each, others) = reasons.most_frequent(REASONS);
    let mut lines: Vec<String> = each
        .into_iter()
        .map(|(reason, count)| format!("{count:>8}  {}", one_line(reason)))
        .collect();
    if others > 0 {
        lines.push(format!("{others:>8}  for other reasons"));
    }
    lines.push(format!("{:>8}  would be dropped", reasons.total()));
    lines.join("\n")
}

/// Prints the note, if there is one.
fn said(ended: Result<Option<String>, Failure>) -> Result<(), Failure> {
    ended.map(|note| note.into_iter().for_each(report))
}

fn note_of_stop(stop: &Stop) {
    if stop.is_requested() {
        report("stopped: what was not looked at stays where it is");
    }
}
