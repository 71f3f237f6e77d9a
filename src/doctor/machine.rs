//! This process, its machine, and the clocks: the database decides whether orders are due, order services set deadlines,
//! people compare logs.

use super::facts::{Facts, MachineFacts, ProbeError, Skew, known};
use crate::{
    diagnostic::Draft,
    text::{counted, quote},
};

/// The lowest good limit: a worker needs a few dozen files.
const FILES: u64 = 1_024;

/// Is the limit of open files high enough?
pub(crate) fn open_files(facts: &Facts) -> Draft {
    known(&facts.machine.open_files, |limit| judge_open_files(*limit))
}

/// Sockets count as files.
fn judge_open_files(limit: u64) -> Draft {
    match limit {
        u64::MAX => Draft::ok("no limit"),
        FILES.. => Draft::ok(format!("{limit} at the most")),
        _ => Draft::warning(
            format!("{limit} at the most"),
            format!("ulimit -n {FILES}, or LimitNOFILE={FILES} in the unit file"),
        ),
    }
}

/// Is there a core for heartbeats while another core works?
pub(crate) fn cores(facts: &Facts) -> Draft {
    judge_cores(facts.machine.cores)
}

/// Bursts and heartbeats compete for a single core.
fn judge_cores(cores: usize) -> Draft {
    match cores {
        0 | 1 => {
            Draft::warning("1", "give the worker two cores: a burst competes with its heartbeats")
        }
        many => Draft::ok(many.to_string()),
    }
}

/// Are files with passwords and keys unreadable for other users?
pub(crate) fn secret_files(facts: &Facts) -> Draft {
    let MachineFacts { secret_files, exposed_files, .. } = &facts.machine;
    if exposed_files.is_empty() {
        let files = counted(*secret_files, "file");
        return Draft::ok(format!("{files} with a password or a key, closed to others"));
    }
    let said = exposed_files.iter().map(|file| format!("{} ({:04o})", file.path, file.mode));
    let fix = exposed_files.iter().map(|it| format!("chmod {:o} {}", it.enough, quote(&it.path)));
    Draft::warning(
        format!("others can read or write {}", said.collect::<Vec<_>>().join(", ")),
        fix.collect::<Vec<_>>().join("; "),
    )
}

/// The difference above which a clock is suspicious.
const AMBER_MS: i64 = 1_000;
/// The difference above which orders look late or early to people.
const RED_MS: i64 = 5_000;

const FIX: &str = "let chrony or systemd-timesyncd keep the clock on every machine";

/// The broker's clock, compared with this machine's.
pub(crate) fn broker_clock(facts: &Facts) -> Draft {
    known(&facts.broker.api.clock, |skew| judge_clock(*skew, "this machine's"))
}

/// The database's clock, compared with this machine's.
pub(crate) fn database_clock(facts: &Facts) -> Draft {
    known(&facts.database.clock, |skew| judge_clock(*skew, "this machine's"))
}

/// The database's clock, compared with the broker's.
pub(crate) fn clocks_agree(facts: &Facts) -> Draft {
    match (&facts.database.clock, &facts.broker.api.clock) {
        (Ok(database), Ok(broker)) => judge_clock(between(*database, *broker), "the broker's"),
        (Err(ProbeError { reason, fix, .. }), _) | (_, Err(ProbeError { reason, fix, .. })) => {
            Draft::warning(format!("not known: {reason}"), fix.clone())
        }
    }
}

/// How much the first clock is ahead of the second, from their differences to this machine's clock.
const fn between(first: Skew, second: Skew) -> Skew {
    Skew {
        ahead_ms: first.ahead_ms.saturating_sub(second.ahead_ms),
        margin_ms: first.margin_ms.saturating_add(second.margin_ms),
    }
}

/// Counts only the part of the difference that exceeds the error of measurement.
fn judge_clock(skew: Skew, other: &str) -> Draft {
    let Skew { ahead_ms, margin_ms } = skew;
    let certain_ms = ahead_ms.saturating_abs().saturating_sub(margin_ms).max(0);
    let direction = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let finding =
        format!("{} ms {direction} {other} (give or take {margin_ms} ms)", ahead_ms.unsigned_abs());
    match certain_ms {
        0..=AMBER_MS => Draft::ok(finding),
        1_001..=RED_MS => Draft::warning(finding, FIX),
        _ => Draft::error(finding, FIX),
    }
}
