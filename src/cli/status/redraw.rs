//! A screen that is drawn over itself, so that nothing flickers: each line is written over the one that was there.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
};

use super::super::{
    exit::Failure,
    output::{print, write_control},
};
use crate::text::printable;

/// The alternate screen, without a cursor (ECMA-48 and xterm); what was there before comes back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";

/// One screen follows the other where standard output is not a terminal.
pub(super) struct Screen {
    terminal: bool,
}

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let terminal = io::stdout().is_terminal();
        if terminal {
            write_control(OPEN)?;
        }
        Ok(Self { terminal })
    }

    pub(super) fn draw(&self, shown: &impl Display) -> Result<(), Failure> {
        let text = shown.to_string();
        if !self.terminal {
            return print(format!("{text}\n"));
        }
        let mut drawn = HOME.to_owned();
        for line in text.lines() {
            drawn.push_str(&printable(line));
            drawn.push_str(END_OF_LINE);
            drawn.push_str("\r\n");
        }
        drawn.push_str(BELOW);
        write_control(&drawn)
    }

    pub(super) fn close(self) {
        if self.terminal {
            // Where it cannot be written, nobody looks any more.
            let _closed = write_control(CLOSE);
        }
    }
}
