//! Exit codes.

pub(crate) use crate::oncall::failure::{
    CONFIGURATION, FAILED, FINDINGS, Failure, NOT_PERMITTED, PARTLY, UNAVAILABLE, USAGE,
};

/// A second signal ended the program at once (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

/// Each code and what it means, for `--help` and docs/commands.md.
#[must_use]
pub const fn exit_codes() -> [(u8, &'static str); 9] {
    [
        (0, "done"),
        (FAILED, "failed, refused, answered with no, or an invariant broke"),
        (FINDINGS, "found something: changes to make, errors, orders that are late"),
        (PARTLY, "partly applied: apply again to go on"),
        (USAGE, "the command line cannot be understood, or --yes is missing without a terminal"),
        (UNAVAILABLE, "broker or database unavailable"),
        (NOT_PERMITTED, "login refused, or a permission is missing"),
        (CONFIGURATION, "settings, topology or tables are wrong"),
        (INTERRUPTED, "interrupted twice"),
    ]
}

/// The codes, for `--help`.
pub(crate) fn help() -> String {
    let code = |(code, means): &(u8, &str)| format!("\n  {code:>3}  {means}");
    format!("Exit codes:{}", exit_codes().iter().map(code).collect::<String>())
}
