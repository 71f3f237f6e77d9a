//! Where log lines go, and what they look like.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter,
    fmt::{MakeWriter, writer::BoxMakeWriter},
};

use crate::{
    config::{LogFormat, LogSettings},
    text::printable_json,
};

/// Lines that may wait for standard error; what is written beyond them is lost, and counted.
const LINES: usize = 4_096;

static WRITING: Mutex<Option<WorkerGuard>> = Mutex::new(None);
static LOST: OnceLock<ErrorCounter> = OnceLock::new();
static LOST_BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Who writes the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Who logs them: where nobody takes what is on standard error, it waits.
    AtOnce,
    /// A thread of its own: where nobody takes them, they are lost, and everything else goes on. To be ended with
    /// [`end_log`].
    Beside,
}

/// Installs the subscriber; log lines go to standard error.
///
/// # Errors
/// The filter cannot be read.
pub(crate) fn install(settings: &LogSettings, writing: Writing) -> Result<(), String> {
    // lapin reports at error level what it returns as well; the one who gets the error says it once.
    // tokio_postgres passes on the server's notices, which `IF NOT EXISTS` gives for each thing that exists.
    let directives = format!("lapin=off,tokio_postgres=warn,{}", settings.filter);
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("log.filter: {error}"))?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let stderr = match writing {
        Writing::AtOnce => BoxMakeWriter::new(io::stderr),
        Writing::Beside => BoxMakeWriter::new(beside()),
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

fn beside() -> NonBlocking {
    let builder = NonBlockingBuilder::default().buffered_lines_limit(LINES).thread_name("log");
    let (writer, guard) = builder.finish(io::stderr());
    LOST.get_or_init(|| writer.error_counter());
    *WRITING.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    writer
}

/// Waits until every line is written, for about a second at the most; what is logged afterwards is lost.
pub(crate) fn end_log() {
    drop(WRITING.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Lines that were lost since this was asked.
pub(super) fn lost_lines() -> usize {
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    lost - LOST_BEFORE.swap(lost, Ordering::Relaxed).min(lost)
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
