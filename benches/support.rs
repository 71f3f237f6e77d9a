//! Common parts of the benchmarks: options, their own schema and virtual host, the shop, the closers of its orders, and the
//! report.

#![allow(unreachable_pub, dead_code, reason = "each benchmark uses another part")]

pub mod closers;
pub mod gate;
pub mod options;
pub mod process;
pub mod report;
pub mod rivals;
pub mod shop;
pub mod stage;
pub mod usage;

use std::{error::Error, process::ExitCode, time::Duration};

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use self::{options::Options, report::Report, stage::Stage};

/// Why the benchmark could not be measured.
pub type Failure = Box<dyn Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Failure>;

/// Limit of every wait: for a worker that starts, the last of many orders.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// A benchmark: its options, and its measurement.
pub trait Benchmark: Parser {
    fn options(&self) -> &Options;

    /// Makes the benchmark as small as possible.
    fn shrink(&mut self);

    fn measure(&self, stage: &Stage) -> impl Future<Output = Result<Report>>;
}

/// Reads the command line, measures, prints, and removes schema and virtual host, also after a signal.
pub fn run<B: Benchmark>() -> ExitCode {
    let mut benchmark = B::parse();
    if benchmark.options().quick {
        benchmark.shrink();
    }
    let runtime = tokio::runtime::Runtime::new();
    let ended =
        runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(ended(&benchmark)));
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            let mut cause: Option<&dyn Error> = Some(&*failure);
            while let Some(error) = cause {
                say(&format!("error: {error}"));
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the result is right.
async fn ended<B: Benchmark>(benchmark: &B) -> Result<bool> {
    let options = benchmark.options();
    if let Some(rival) = options.rival {
        return rivals::run(rival, options).await.map(|never| match never {});
    }
    let stage = Stage::open(options).await?;
    let mut terminated = signal(SignalKind::terminate())?;
    let measured = tokio::select! {
        measured = benchmark.measure(&stage) => measured,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminated.recv() => Err("interrupted".into()),
    };
    let closed = stage.close().await;
    let report = measured?;
    report.print(options.output)?;
    closed?;
    Ok(report.is_right())
}

/// Reports progress on standard error.
#[allow(clippy::print_stderr, reason = "the result alone goes to standard output")]
pub fn say(what: &str) {
    eprintln!("{what}");
}

/// Calls `look` at this interval until it has an answer, for at most [`PATIENCE`].
pub async fn until<T>(
    what: &str,
    every: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let looking = async {
        loop {
            if let Some(seen) = look().await? {
                return Ok(seen);
            }
            tokio::time::sleep(every).await;
        }
    };
    let gave_up = |_| format!("gave up after {} s: {what}", PATIENCE.as_secs());
    tokio::time::timeout(PATIENCE, looking).await.map_err(gave_up)?
}
