//! `overdue bench all`: every benchmark, one after the other.

use std::fmt;

use clap::{Args, Command, FromArgMatches, Subcommand};
use serde::Serialize;

use super::{finished::PartReport, part::Part};
use crate::{
    cli::{
        exit::Failure,
        output::{Output, report_step},
    },
    config::Settings,
};

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;
/// About ten minutes on two cores.
const USUAL: [&str; 8] = [
    "close",
    "burst --rounds 3",
    "steady --rates 10,200,1000 --seconds 10 --rounds 1",
    "relay --rounds 3",
    "publish --rounds 3",
    "delay --rounds 1",
    "locks --rounds 1",
    "change --messages 50000 --level 20s",
];
/// Small: it shows that everything runs, and says nothing of speed.
const QUICK: [&str; 8] = [
    "close --orders 200 --batch 100",
    "burst --orders 200 --rounds 1 --only overdue,plain-sql,poller",
    "steady --rates 100 --rivals-at 100 --seconds 1 --rounds 1 --idle 1 --only overdue,poller",
    "relay --events 500 --rounds 1",
    "publish --messages 200 --rounds 1",
    "delay --messages 50 --rounds 1",
    "locks --rate 40 --seconds 1 --rounds 1 --burst 200",
    "change --messages 200 --level 1s --change timeout-added",
];

/// Runs every benchmark, one after the other, with settings that end within about ten minutes. A benchmark whose invariants are
/// broken does not stop the others; the command fails then.
///
/// Each works in a schema and a topology of its own, which are removed at its end.
#[derive(Debug, Args)]
pub(in crate::cli) struct All {
    /// Much smaller: whether everything runs, and nothing about speed
    #[arg(long)]
    quick: bool,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// The results of all benchmarks.
#[derive(Debug, Serialize)]
struct AllReport {
    schema: u32,
    parts: Vec<PartReport>,
}

impl fmt::Display for AllReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, PartReport { command, text, .. }) in self.parts.iter().enumerate() {
            let gap = if place > 0 { "\n" } else { "" };
            writeln!(f, "{gap}$ {command}\n{}", text.trim_end())?;
        }
        Ok(())
    }
}

impl All {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lines = if self.quick { QUICK } else { USUAL };
        let mut report = AllReport { schema: SCHEMA, parts: Vec::new() };
        let ended = measure(&lines, settings, &mut report).await;
        if ended.is_ok() || !report.parts.is_empty() {
            self.output.print(&report)?;
        }
        ended?;
        let wrong = report.parts.iter().filter(|part| part.wrong.is_some());
        let wrong: Vec<&str> = wrong.map(|part| part.command.as_str()).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::failed(format!("something is wrong: see above, {}", wrong.join(", "))))
    }
}

async fn measure(
    lines: &[&str],
    settings: &Settings,
    report: &mut AllReport,
) -> Result<(), Failure> {
    for line in lines {
        let command = format!("overdue bench {line}");
        report_step(&command);
        let part = Box::pin(part(line)?.measure(&command, settings)).await?;
        report.parts.push(part);
    }
    Ok(())
}

fn part(line: &str) -> Result<Part, Failure> {
    let command = Part::augment_subcommands(Command::new("bench").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace());
    let part = matches.and_then(|matches| Part::from_arg_matches(&matches));
    part.map_err(|error| Failure::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_command() {
        for line in USUAL.iter().chain(&QUICK) {
            part(line).unwrap();
        }
    }
}
