//! How a command answers: a table for people, or JSON for programs.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

use clap::ValueEnum;
use serde::Serialize;

use super::exit::Failure;
use crate::text::{printable, printable_json};

/// The form of the answer on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table
    #[default]
    Text,
    /// One JSON object
    Json,
}

impl Output {
    pub(super) fn print<T: Serialize + Display>(self, answer: &T) -> Result<(), Failure> {
        match self {
            Self::Text => print(answer.to_string().trim_end()),
            Self::Json => print_json(answer),
        }
    }
}

/// Writes text to standard output, safe for a terminal, with a line break at its end.
///
/// Whoever read it may be gone (`overdue check | head -1`): then nobody wants the rest, and the command goes on to
/// its own end and exit code. `println!` would panic there.
///
/// # Errors
/// It cannot be written for another reason, e.g. on a full disk.
pub(super) fn print(text: impl Display) -> Result<(), Failure> {
    let mut text = text.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    print_part(&text)
}

/// The same without a line break at the end, for an answer that comes piece by piece.
///
/// # Errors
/// As [`print`].
pub(super) fn print_part(text: &str) -> Result<(), Failure> {
    write_control(&printable(text))
}

/// Writes what a terminal is to act on: nothing of others may be in it.
///
/// # Errors
/// As [`print`].
pub(super) fn write_control(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// As [`print`].
pub(super) fn print_json(answer: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(answer)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    print(printable_json(&json))
}

/// The same in one line, for one answer after the other.
///
/// # Errors
/// As [`print`].
pub(super) fn print_line(answer: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(answer)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    print(printable_json(&json))
}

/// Writes a line to standard error, safe for a terminal: progress, notes. A line that cannot be written there is dropped.
pub(super) fn report(text: impl Display) {
    let _nobody_reads = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}
