//! What a benchmark has measured, and what is wrong with it.

use std::fmt::Display;

use serde::Serialize;

use crate::cli::{exit::Failure, output::Output};

/// What a benchmark has measured.
pub(super) struct Finished<R> {
    pub(super) report: R,
    /// What the figures are worth nothing for; `None` where every invariant holds.
    pub(super) wrong: Option<String>,
}

/// The same of any benchmark.
#[derive(Debug, Serialize)]
pub(super) struct PartReport {
    /// What measured it.
    pub(super) command: String,
    /// What is wrong.
    pub(super) wrong: Option<String>,
    /// As `-o json` of that command has it.
    pub(super) report: serde_json::Value,
    #[serde(skip)]
    pub(super) text: String,
}

impl<R: Serialize + Display> Finished<R> {
    /// A result whose invariants are listed where they do not hold.
    pub(super) fn of(report: R, is_right: bool) -> Self {
        let wrong = (!is_right).then(|| "an invariant is broken: see above".to_owned());
        Self { report, wrong }
    }

    /// Prints it; fails where something is wrong.
    pub(super) fn print(self, output: Output) -> Result<(), Failure> {
        output.print(&self.report)?;
        self.wrong.map_or(Ok(()), |wrong| Err(Failure::failed(wrong)))
    }

    pub(super) fn part(self, command: &str) -> Result<PartReport, Failure> {
        let report = serde_json::to_value(&self.report)
            .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
        let (command, text) = (command.to_owned(), self.report.to_string());
        Ok(PartReport { command, wrong: self.wrong, report, text })
    }
}
