//! Output of commands: text for people or JSON for programs, and the confirmation before a change.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::exit::Failure;
use crate::text::{printable, printable_json};

/// Output options of each command that reports.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Output {
    /// Form of the answer
    #[arg(short = 'o', long = "output", value_name = "FORM", value_enum, default_value_t)]
    form: Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people
    #[default]
    Text,
    /// A JSON object for programs
    Json,
}

impl Output {
    pub(super) fn is_json(self) -> bool {
        self.form == Form::Json
    }

    pub(super) fn print<T: Serialize + Display>(self, answer: &T) -> Result<(), Failure> {
        match self.form {
            Form::Text => print(answer.to_string().trim_end()),
            Form::Json => print_json(answer),
        }
    }

    /// Prints what the command would change; with JSON to standard error, because programs read standard output.
    pub(super) fn preview(self, text: impl Display) -> Result<(), Failure> {
        match self.form {
            Form::Text => print(text),
            Form::Json => {
                report(text);
                Ok(())
            }
        }
    }
}

/// Options of each command that shows first what it would change.
#[derive(Clone, Debug, Args)]
pub(super) struct Confirm {
    /// Do not ask; without a terminal the command needs this option
    #[arg(long)]
    pub(super) yes: bool,
}

impl Confirm {
    /// Asks whether to continue. Fails with `USAGE` without a terminal, and with `FAILED` if the answer is not yes.
    pub(super) fn ask(&self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::usage(
                "nothing was changed: without a terminal the command cannot ask; add --yes to do what is printed above",
            ));
        }
        let unreadable =
            |error: io::Error| Failure::failed(format!("cannot read the answer: {error}"));
        let mut stderr = io::stderr();
        write!(stderr, "{} [y/N] ", printable(question)).map_err(unreadable)?;
        stderr.flush().map_err(unreadable)?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(unreadable)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(Failure::failed("nothing was changed"))
    }
}

/// A JSON object with a long list, which is written entry by entry.
pub(super) struct JsonList {
    is_empty: bool,
}

impl JsonList {
    pub(super) fn begin(name: &str) -> Result<Self, Failure> {
        print_part(&format!("{{\n\"version\": 1,\n\"{name}\": ["))?;
        Ok(Self { is_empty: true })
    }

    pub(super) fn entry(&mut self, entry: &impl Serialize) -> Result<(), Failure> {
        let separator = if self.is_empty { "\n" } else { ",\n" };
        self.is_empty = false;
        print_part(&format!("{separator}{}", in_one_line(entry)?))
    }

    /// Writes the fields of `rest`, an object with at least one field.
    pub(super) fn end(self, rest: &impl Serialize) -> Result<(), Failure> {
        let rest = in_one_line(rest)?;
        let end = if self.is_empty { "]" } else { "\n]" };
        print(format!("{end},\n{}", rest.trim_start_matches('{')))
    }
}

/// Writes text to standard output, safe for a terminal, with a line break at its end.
///
/// The reader may be gone (`overdue check | head -1`): then the rest of the text is dropped, and the command continues to its own
/// end and exit code. `println!` would panic there.
pub(super) fn print(text: impl Display) -> Result<(), Failure> {
    print_again(text).map(drop)
}

/// Prints like [`print`]; returns false if the reader is gone, so that an endless output can stop.
pub(super) fn print_again(text: impl Display) -> Result<bool, Failure> {
    let mut text = text.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    write_control(&printable(&text))
}

/// Prints without a line break at the end.
fn print_part(text: &str) -> Result<(), Failure> {
    write_control(&printable(text)).map(drop)
}

/// Writes text with terminal control sequences; it must have no text from outside. Returns false if the reader is gone.
pub(super) fn write_control(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("cannot write to standard output: {error}"))),
    }
}

pub(super) fn print_json(answer: &impl Serialize) -> Result<(), Failure> {
    print(printable_json(&serde_json::to_string_pretty(answer).map_err(not_json)?))
}

/// Prints a value as JSON in one line; returns false if the reader is gone.
pub(super) fn print_line(answer: &impl Serialize) -> Result<bool, Failure> {
    print_again(in_one_line(answer)?)
}

fn in_one_line(answer: &impl Serialize) -> Result<String, Failure> {
    Ok(printable_json(&serde_json::to_string(answer).map_err(not_json)?).into_owned())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_json(error: serde_json::Error) -> Failure {
    Failure::failed(format!("cannot write JSON: {error}"))
}

/// Writes a line to standard error, safe for a terminal: progress, notes. A failed write is ignored.
pub(super) fn report(text: impl Display) {
    let _nobody_reads = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}
