//! What order services write with `schedule()`.

use super::{
    facts::{Facts, Scheduled, known},
    tables::millis,
};
use crate::{condition, diagnostic::Draft, text::counted};

/// Are scheduled notices published?
pub(crate) fn notices(facts: &Facts) -> Draft {
    known(&facts.database.scheduled, judge_scheduled)
}

/// Without the tables nobody schedules anything.
pub fn judge_scheduled(scheduled: &Scheduled) -> Draft {
    let Scheduled { lacks, notices, oldest_ms, refused, reason } = scheduled;
    match lacks {
        Some(lacks) if lacks.starts_with("there is no table") => {
            return Draft::ok(format!("not in use: {lacks}"));
        }
        Some(lacks) => {
            return Draft::warning(
                format!("what schedule() writes is not published: {lacks}"),
                "GRANT it TO the user of database.url, or set schedule.publish = \"off\"",
            );
        }
        None => {}
    }
    if *refused > 0 {
        let reason = reason.as_deref().unwrap_or_default();
        return Draft::warning(
            format!("{} cannot be published: {reason}", counted(*refused, "scheduled notice")),
            "look at scheduled_notices_refused, correct what writes them, and delete the rows",
        );
    }
    let (counted, seconds) = (counted(*notices, "notice"), oldest_ms / 1_000);
    match *notices {
        0 => Draft::ok("nothing waits"),
        _ if condition::is_old(millis(*oldest_ms)) => Draft::warning(
            format!("{counted} waiting to be published, the oldest for {seconds} s"),
            "start a worker, or look in its log for `scheduled notices`",
        ),
        _ => Draft::ok(format!("{counted} waiting, the oldest for {seconds} s")),
    }
}
