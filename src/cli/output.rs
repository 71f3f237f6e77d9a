//! How a command answers: a table for people, or JSON for programs.

use clap::ValueEnum;
use serde::Serialize;

use super::exit::Failure;

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
    #[expect(clippy::print_stdout, reason = "the answer of a command")]
    pub(super) fn print<T: Serialize + std::fmt::Display>(self, answer: &T) -> Result<(), Failure> {
        match self {
            Self::Text => println!("{}", answer.to_string().trim_end()),
            Self::Json => {
                let json = serde_json::to_string_pretty(answer)
                    .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
                println!("{json}");
            }
        }
        Ok(())
    }
}
