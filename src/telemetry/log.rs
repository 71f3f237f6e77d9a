//! The log: where its lines are written, and their format.
//!
//! A thread writes the lines of a worker. The lines wait if standard error is blocked (a terminal that was stopped with Ctrl-S, a
//! collector that is stuck), and are then lost and counted. The worker never waits for them.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    collections::VecDeque,
    io::{self, IsTerminal, Write},
    panic, thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tracing::{error, warn};
use tracing_subscriber::{
    EnvFilter,
    fmt::{MakeWriter, writer::BoxMakeWriter},
};

use crate::{
    config::{LogFormat, LogSettings},
    text::printable_json,
};

/// The thread that writes the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// The thread that logs: it waits if standard error is blocked.
    AtOnce,
    /// A separate thread: if standard error is blocked, lines are lost and everything else continues. [`flush_log`] waits for the
    /// last ones.
    Beside,
}

/// Installs the subscriber; log lines go to standard error.
pub(crate) fn install(settings: &LogSettings, writing: Writing) -> Result<(), String> {
    // lapin logs at error level the errors that it also returns; the caller reports them once.
    // tokio_postgres logs the server's notices, which `IF NOT EXISTS` raises for each existing object.
    let directives = format!("lapin=off,tokio_postgres=warn,{}", settings.filter);
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("log.filter: {error}"))?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let stderr = match writing {
        Writing::AtOnce => BoxMakeWriter::new(io::stderr),
        Writing::Beside => {
            LINES.begin(lines_lost).map_err(|error| format!("the log: {error}"))?;
            // The default hook waits for standard error.
            panic::set_hook(Box::new(|what| panicked(&what.to_string(), &Backtrace::capture())));
            BoxMakeWriter::new(|| Waiting)
        }
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        // The subscriber would report its own errors with `eprintln!`, which panics if standard error cannot be written.
        .log_internal_errors(false);
    let installed = match settings.format {
        LogFormat::Text => subscriber.with_target(false).with_writer(stderr).try_init(),
        LogFormat::Json => subscriber.json().with_writer(AsJsonLines(stderr)).try_init(),
    };
    // A test process installs the subscriber more than once.
    installed.or(Ok(()))
}

/// Waits up to a second until every line is written. Returns whether all are.
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
    warn!(lines, "log lines were lost: standard error did not take them in time");
}

fn panicked(what: &str, backtrace: &Backtrace) {
    if backtrace.status() == BacktraceStatus::Captured {
        error!(what, %backtrace, "overdue has a defect: please report this line");
    } else {
        error!(what, "overdue has a defect: please report this line");
    }
}

struct AsJsonLines(BoxMakeWriter);

impl<'a> MakeWriter<'a> for AsJsonLines {
    type Writer = JsonLines<<BoxMakeWriter as MakeWriter<'a>>::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        JsonLines(self.0.make_writer())
    }
}

/// A log of JSON lines. Values come from orders and brokers, so control characters are escaped for terminals.
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

/// Limit of waiting bytes; a line has about 200.
const MOST_BYTES: usize = 1024 * 1024;
/// Limit of the wait for the last lines of a process.
const LAST: Duration = Duration::from_secs(1);

/// The lines of this process.
pub(super) static LINES: Lines = Lines::new();

/// Lines in the order in which they were logged.
#[derive(Debug)]
pub(super) struct Lines {
    queue: Mutex<Queue>,
    /// Notified when a line was added or removed.
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    is_writing: bool,
    lost: usize,
    /// Lost lines that the metric has counted.
    counted: usize,
    /// Lost lines that the log has reported.
    reported: usize,
}

/// Writes a line into the queue.
struct Waiting;

impl Lines {
    const fn new() -> Self {
        let waiting = VecDeque::new();
        let queue =
            Queue { waiting, bytes: 0, is_writing: false, lost: 0, counted: 0, reported: 0 };
        Self { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    fn add(&self, line: &[u8]) {
        let mut queue = self.queue.lock();
        if queue.bytes > 0 && queue.bytes + line.len() > MOST_BYTES {
            queue.lost += 1;
            return;
        }
        queue.bytes += line.len();
        queue.waiting.push_back(line.to_vec());
        self.changed.notify_all();
    }

    /// Waits for the next line.
    fn next(&self) -> Vec<u8> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(line) = queue.waiting.pop_front() {
                queue.is_writing = true;
                return line;
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Records whether the line was written. Returns the lines lost since the last written line.
    fn done(&self, line: &[u8], written: bool) -> usize {
        let mut queue = self.queue.lock();
        queue.is_writing = false;
        queue.bytes -= line.len();
        queue.lost += usize::from(!written);
        self.changed.notify_all();
        if !written {
            return 0;
        }
        let lost = queue.lost;
        lost - std::mem::replace(&mut queue.reported, lost)
    }

    /// Writes lines as they arrive. `on_loss` is called with the number of lost lines when the output accepts lines again.
    fn write_to(&self, mut output: impl Write, on_loss: impl Fn(usize)) {
        loop {
            let line = self.next();
            let written = output.write_all(&line).is_ok();
            let lost = self.done(&line, written);
            if lost > 0 {
                on_loss(lost);
            }
        }
    }

    /// Starts the thread that writes.
    fn begin(&'static self, on_loss: fn(usize)) -> io::Result<()> {
        let write = move || self.write_to(io::stderr(), on_loss);
        thread::Builder::new().name("log".to_owned()).spawn(write).map(drop)
    }

    /// Waits up to a second until all lines are written. Returns whether all are.
    fn flush(&self) -> bool {
        let is_left = |queue: &mut Queue| queue.is_writing || !queue.waiting.is_empty();
        let mut queue = self.queue.lock();
        self.changed.wait_while_for(&mut queue, is_left, LAST);
        !is_left(&mut queue)
    }

    /// Lines that were lost since the last call.
    pub(super) fn lost(&self) -> usize {
        let mut queue = self.queue.lock();
        let lost = queue.lost;
        lost - std::mem::replace(&mut queue.counted, lost)
    }
}

impl Write for Waiting {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LINES.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes a line when the test allows it, or fails.
    struct Slow {
        may: mpsc::Receiver<bool>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if !self.may.recv().unwrap_or(true) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.send(line.to_vec()).unwrap();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_wait_are_lost_and_come_in_their_order() {
        let lines: &'static Lines = Box::leak(Box::new(Lines::new()));
        let (may, is_allowed) = mpsc::channel();
        let (written, log) = mpsc::channel();
        let (loss, losses) = mpsc::channel();
        assert!(lines.flush(), "there is nothing to be written");
        thread::spawn(move || {
            let output = Slow { may: is_allowed, written };
            lines.write_to(output, |lost| loss.send(lost).unwrap());
        });
        let half = vec![b'x'; MOST_BYTES / 2];
        for line in [b"first", &half[..], b"second", &half[..], b"third"] {
            lines.add(line);
        }
        assert_eq!((lines.lost(), lines.lost()), (1, 0), "one half was too much");
        assert!(!lines.flush(), "nobody takes them");
        for allowed in [true, true, false, true] {
            may.send(allowed).unwrap();
        }
        let seen: Vec<Vec<u8>> = log.iter().take(3).collect();
        assert_eq!(seen, [b"first", &half[..], b"third"]);
        assert_eq!(losses.iter().take(2).collect::<Vec<_>>(), [1, 1]);
        assert!(lines.flush());
        assert_eq!(lines.lost(), 1, "what was refused is lost, too");
        // A single line is written however long it is.
        lines.add(&vec![b'y'; 2 * MOST_BYTES]);
        may.send(true).unwrap();
        assert_eq!(log.recv().unwrap().len(), 2 * MOST_BYTES);
    }
}
