//! Asking before something is done that a preview has shown.

use std::io::{IsTerminal, Write};

use super::{exit::Failure, output::print};
use crate::text::printable;

/// Whether to go on: a person is asked, and a pipeline has to say `--yes`.
pub(super) fn agreed(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        print("nothing was done: add --yes to do it")?;
        return Ok(false);
    }
    let unreadable =
        |error: std::io::Error| Failure::failed(format!("cannot read the answer: {error}"));
    let mut stderr = std::io::stderr();
    write!(stderr, "{} [y/N] ", printable(question)).map_err(unreadable)?;
    stderr.flush().map_err(unreadable)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(unreadable)?;
    let agreed = matches!(answer.trim(), "y" | "Y" | "yes");
    if !agreed {
        print("nothing was done")?;
    }
    Ok(agreed)
}
