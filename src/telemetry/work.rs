//! What works again, and what was done: lines for those who look whether all is well.

use std::time::Duration;

use tracing::{info, warn};

use super::observed::Counts;
use crate::text::millis;

pub(crate) fn sweep_works(effect: &str) {
    info!(effect, "the sweep works again");
}

pub(crate) fn relay_works() {
    info!("the relay works again: the events that waited are published");
}

pub(crate) fn notices_work() {
    info!("scheduled notices are published again");
}

pub(crate) fn copies_work(timeout: &str) {
    info!(timeout, "messages can be put back and parked again");
}

pub(crate) fn closing_again(timeout: &str) {
    info!(timeout, "orders can be closed again");
}

/// Says so once: then it is only looked whether it has ended.
pub(crate) fn paused(timeout: &str, reason: &str) {
    warn!(timeout, reason, "orders are not closed: the timeout is paused; their messages are kept");
}

pub(crate) fn unpaused(timeout: &str) {
    info!(timeout, "the pause has ended: orders are closed again");
}

/// Until it stopped.
pub(crate) fn stopped(work: Counts) {
    let Counts { closed, already_final, held, guarded, put_back, .. } = work;
    let Counts { retried, parked, gone, burst, swept, .. } = work;
    info!(
        closed,
        already_final,
        held,
        guarded,
        put_back,
        retried,
        parked,
        gone,
        burst,
        swept,
        "worker stopped"
    );
}

/// Between two of these lines, without what did not happen; `latest` is the longest from a deadline to its closing.
pub(crate) fn worked(before: Counts, now: Counts, latest: Duration) {
    let more = |of: fn(Counts) -> u64| Some(of(now) - of(before)).filter(|count| *count > 0);
    info!(
        closed = more(|it| it.closed),
        already_final = more(|it| it.already_final),
        held = more(|it| it.held),
        guarded = more(|it| it.guarded),
        put_back = more(|it| it.put_back),
        retried = more(|it| it.retried),
        parked = more(|it| it.parked),
        gone = more(|it| it.gone),
        burst = more(|it| it.burst),
        swept = more(|it| it.swept),
        latest_ms = Some(millis(latest)).filter(|latest| *latest > 0),
        "worked"
    );
}
