//! Where log lines go, and what they look like.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal, Write},
    panic,
};

use tracing::{error, warn};
use tracing_subscriber::{
    EnvFilter,
    fmt::{MakeWriter, writer::BoxMakeWriter},
};

use super::lines::{LINES, Waiting};
use crate::{
    config::{LogFormat, LogSettings},
    text::printable_json,
};

/// Who writes the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Who logs them: where nobody takes what is on standard error, it waits.
    AtOnce,
    /// A thread of its own: where nobody takes them, they are lost, and everything else goes on. [`flush_log`] waits for the
    /// last ones.
    Beside,
}

/// Installs the subscriber; log lines go to standard error.
///
/// # Errors
/// The filter cannot be read, or there is no thread for the log.
pub(crate) fn install(settings: &LogSettings, writing: Writing) -> Result<(), String> {
    // lapin reports at error level what it returns as well; the one who gets the error says it once.
    // tokio_postgres passes on the server's notices, which `IF NOT EXISTS` gives for each thing that exists.
    let directives = format!("lapin=off,tokio_postgres=warn,{}", settings.filter);
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("log.filter: {error}"))?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let stderr = match writing {
        Writing::AtOnce => BoxMakeWriter::new(io::stderr),
        Writing::Beside => {
            LINES.begin(lines_lost).map_err(|error| format!("the log: {error}"))?;
            // The usual one waits for standard error.
            panic::set_hook(Box::new(|what| panicked(&what.to_string(), &Backtrace::capture())));
            BoxMakeWriter::new(|| Waiting)
        }
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        // It would say so with `eprintln!`, which panics where standard error is what cannot be written.
        .log_internal_errors(false);
    let installed = match settings.format {
        LogFormat::Text => subscriber.with_target(false).with_writer(stderr).try_init(),
        LogFormat::Json => subscriber.json().with_writer(AsJsonLines(stderr)).try_init(),
    };
    // A test process installs it more than once.
    installed.or(Ok(()))
}

/// Waits until every line is written, for a second at the most; whether they are.
pub(crate) fn flush_log() -> bool {
    LINES.flush()
}

/// Waits for the last lines when it is dropped.
pub(crate) struct LogEnd;

impl Drop for LogEnd {
    fn drop(&mut self) {
        let _nobody_takes_them = flush_log();
    }
}

fn lines_lost(lines: usize) {
    warn!(lines, "log lines were lost: standard error did not take them");
}

fn panicked(what: &str, backtrace: &Backtrace) {
    if backtrace.status() == BacktraceStatus::Captured {
        error!(what, %backtrace, "a defect of this program");
    } else {
        error!(what, "a defect of this program");
    }
}

struct AsJsonLines(BoxMakeWriter);

impl<'a> MakeWriter<'a> for AsJsonLines {
    type Writer = JsonLines<<BoxMakeWriter as MakeWriter<'a>>::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        JsonLines(self.0.make_writer())
    }
}

/// A log of JSON lines, in which orders and brokers put what they like: safe for a terminal as well.
struct JsonLines<W>(W);

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable_json(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
