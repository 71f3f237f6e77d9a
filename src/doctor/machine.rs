//! This process and its machine.

use super::{Verdict, facts::Facts};

/// A worker needs a few dozen; what is below this is a limit somebody set too low.
const FILES: u64 = 1_024;

/// May the process open enough files?
pub fn open_files(facts: &Facts) -> Verdict {
    Verdict::of(&facts.machine.open_files, |limit| judge_open_files(*limit))
}

/// Sockets count as files.
pub fn judge_open_files(limit: u64) -> Verdict {
    match limit {
        u64::MAX => Verdict::green("no limit"),
        FILES.. => Verdict::green(format!("{limit} at the most")),
        _ => Verdict::amber(
            format!("{limit} at the most"),
            format!("ulimit -n {FILES}, or LimitNOFILE={FILES} in the unit file"),
        ),
    }
}

/// Is there a core for the heartbeat while the other one works?
pub fn cores(facts: &Facts) -> Verdict {
    judge_cores(facts.machine.cores)
}

/// One is enough to work, and makes bursts and heartbeats compete.
pub fn judge_cores(cores: usize) -> Verdict {
    match cores {
        0 | 1 => {
            Verdict::amber("1", "give the worker two cores: a burst competes with its heartbeats")
        }
        many => Verdict::green(many.to_string()),
    }
}
