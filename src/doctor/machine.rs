//! This process and its machine.

use super::facts::{Facts, known};
use crate::diagnostic::Draft;

/// A worker needs a few dozen; what is below this is a limit somebody set too low.
const FILES: u64 = 1_024;

/// May the process open enough files?
pub(crate) fn open_files(facts: &Facts) -> Draft {
    known(&facts.machine.open_files, |limit| judge_open_files(*limit))
}

/// Sockets count as files.
pub fn judge_open_files(limit: u64) -> Draft {
    match limit {
        u64::MAX => Draft::ok("no limit"),
        FILES.. => Draft::ok(format!("{limit} at the most")),
        _ => Draft::warning(
            format!("{limit} at the most"),
            format!("ulimit -n {FILES}, or LimitNOFILE={FILES} in the unit file"),
        ),
    }
}

/// Is there a core for the heartbeat while the other one works?
pub(crate) fn cores(facts: &Facts) -> Draft {
    judge_cores(facts.machine.cores)
}

/// One is enough to work, and makes bursts and heartbeats compete.
pub fn judge_cores(cores: usize) -> Draft {
    match cores {
        0 | 1 => {
            Draft::warning("1", "give the worker two cores: a burst competes with its heartbeats")
        }
        many => Draft::ok(many.to_string()),
    }
}
