//! Where log lines go, and what they look like.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use crate::{
    config::{LogFormat, LogSettings},
    text::printable_json,
};

/// Installs the subscriber; log lines go to standard error.
///
/// # Errors
/// The filter cannot be read.
pub(crate) fn install(settings: &LogSettings) -> Result<(), String> {
    // lapin reports at error level what it returns as well; the one who gets the error says it once.
    // tokio_postgres passes on the server's notices, which `IF NOT EXISTS` gives for each thing that exists.
    let directives = format!("lapin=off,tokio_postgres=warn,{}", settings.filter);
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("log.filter: {error}"))?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_writer(io::stderr)
        // It would say so with `eprintln!`, which panics where standard error is what cannot be written.
        .log_internal_errors(false);
    let installed = match settings.format {
        LogFormat::Text => subscriber.with_target(false).try_init(),
        LogFormat::Json => subscriber.json().with_writer(|| JsonLines(io::stderr())).try_init(),
    };
    // A test process installs it more than once.
    installed.or(Ok(()))
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
