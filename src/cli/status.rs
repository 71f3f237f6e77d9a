//! `overdue status`: one screen for people on call. Asks database and broker, and the worker at `worker.listen` if one answers.

use std::{
    fmt::{self, Display},
    io::{self, IsTerminal},
    sync::Arc,
};

use clap::Args;
use serde::Serialize;

use super::{
    exit::{self, Failure},
    output::{Output, print_again, print_line, write_control},
    setup::{self, Services},
};
use crate::{
    config::Settings,
    oncall::status::StatusQuestion,
    shutdown::Stop,
    status::{Reading, State, StatusLevel},
    text::printable,
    topology::level::Ttl,
};

/// Opens the alternate screen without a cursor (ECMA-48 and xterm); `CLOSE` restores the previous screen.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";

/// Show whether orders are closed on time, why not, and what to type
#[derive(Debug, Args)]
pub(super) struct Status {
    /// Exit with 2 if the first word is not OK
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// Show it again and again, until Ctrl-C or until its reader is gone
    #[arg(long)]
    watch: bool,
    /// Time between two screens of --watch
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch")]
    every: Ttl,
    #[command(flatten)]
    output: Output,
}

/// JSON for programs: the reading, and the state that follows from it.
#[derive(Serialize)]
struct StatusAnswer<'a> {
    version: u32,
    state: State,
    #[serde(flatten)]
    reading: &'a Reading,
}

impl<'a> StatusAnswer<'a> {
    fn of(reading: &'a Reading) -> Self {
        Self { version: 1, state: State::of(reading), reading }
    }
}

impl Display for StatusAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reading.fmt(f)
    }
}

impl Status {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let services = Arc::new(Services::open(settings)?);
        let asked = StatusQuestion::new(settings, services);
        if self.watch {
            return self.watch(&asked).await;
        }
        let reading = asked.read().await;
        let answer = StatusAnswer::of(&reading);
        self.output.print(&answer)?;
        if self.check && answer.state.word != StatusLevel::Ok {
            return Err(Failure { code: exit::FINDINGS, text: answer.state.reason });
        }
        Ok(())
    }

    async fn watch(&self, asked: &StatusQuestion) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let screen = Screen::open()?;
        let shown = self.redraw(asked, &screen, &stop).await;
        screen.close();
        shown
    }

    async fn redraw(
        &self,
        asked: &StatusQuestion,
        screen: &Screen,
        stop: &Stop,
    ) -> Result<(), Failure> {
        loop {
            let reading = tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                reading = asked.read() => reading,
            };
            let is_read = if self.output.is_json() {
                print_line(&StatusAnswer::of(&reading))?
            } else {
                screen.draw(&reading)?
            };
            if !is_read || !stop.pause(self.every.as_duration()).await {
                return Ok(());
            }
        }
    }
}

/// A screen that does not flicker: each line is written over the old one.
///
/// If standard output is not a terminal, screens are printed one after the other.
struct Screen {
    terminal: bool,
}

impl Screen {
    fn open() -> Result<Self, Failure> {
        let terminal = io::stdout().is_terminal();
        if terminal {
            write_control(OPEN)?;
        }
        Ok(Self { terminal })
    }

    fn draw(&self, shown: &impl Display) -> Result<bool, Failure> {
        let text = shown.to_string();
        if !self.terminal {
            return print_again(format!("{text}\n"));
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

    fn close(self) {
        if self.terminal {
            // If the write fails, the terminal is gone.
            let _closed = write_control(CLOSE);
        }
    }
}
