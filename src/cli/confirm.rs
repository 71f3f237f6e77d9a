//! Asking before something is done that was shown.

use std::io::{IsTerminal, Write};

use clap::Args;

use super::exit::Failure;
use crate::text::printable;

/// Of every command that shows first what it would change.
#[derive(Debug, Args)]
pub(super) struct Confirm {
    /// Do not ask; without a terminal nothing is done unless this is set
    #[arg(long)]
    pub(super) yes: bool,
}

impl Confirm {
    /// Asks whether to go on.
    ///
    /// # Errors
    /// `USAGE` when there is no terminal to ask at, `FAILED` when the answer is not yes.
    pub(super) fn ask(&self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "nothing was changed: without a terminal nobody can be asked; add --yes to do what is printed above",
            ));
        }
        let unreadable =
            |error: std::io::Error| Failure::failed(format!("cannot read the answer: {error}"));
        let mut stderr = std::io::stderr();
        write!(stderr, "{} [y/N] ", printable(question)).map_err(unreadable)?;
        stderr.flush().map_err(unreadable)?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(unreadable)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(Failure::failed("nothing was changed"))
    }
}
