//! The program: arguments, runtime, exit code.

use std::process::ExitCode;

use clap::{
    Parser,
    error::{ContextKind, ErrorKind},
};

use super::{Cli, exit, report_failure};
use crate::telemetry;

/// Runs the command of this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(error),
    };
    // Also where a panic ends it.
    let _log = telemetry::LogEnd;
    let threads = threads(&cli);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(cli.run());
            // A file or a name that is still being looked for is nobody's business any more.
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(exit::Failure::failed(format!("cannot start the runtime: {error}"))),
    };
    // Who does not take the log does not take this either, and it would wait.
    let is_heard = telemetry::flush_log();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if is_heard {
                report_failure(&failure);
            }
            failure.exit_code()
        }
    }
}

/// A worker mostly waits, and each thread that another one has to wake costs more than what it then does: half of the cores are
/// left to the threads of the AMQP client. Benchmarks and others have two at least.
fn threads(cli: &Cli) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    if cli.is_worker() { (cores / 2).max(1) } else { cores.max(2) }
}

/// Help and version go to standard output with 0; a mistake is 64, not clap's 2, which means findings here.
fn usage(mut error: clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::ArgumentConflict {
        // It would be made of whatever stands beside the conflict.
        error.remove(ContextKind::Usage);
    }
    // Where standard output is closed nobody reads it.
    let _printed = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}
