//! Log events of recovered work, of completed work, and of notices with an ignored hint.

use std::time::Duration;

use tracing::{info, warn};

use super::{Label, metrics::METRICS, observed::Counts};
use crate::text::millis;

pub(crate) fn sweep_works(effect: &str) {
    info!(effect, "the sweep works again");
}

pub(crate) fn relay_works() {
    info!("the relay works again: the waiting events are published");
}

pub(crate) fn notices_work() {
    info!("scheduled notices are published again");
}

pub(crate) fn copies_work(timeout: &str) {
    info!(timeout, "messages can be put back and parked again");
}

pub(crate) fn closing_again(timeout: &str) {
    info!(timeout, "orders are closed again");
}

/// Logged once per pause; later the worker only checks whether the pause has ended.
pub(crate) fn paused(timeout: &str, reason: &str) {
    warn!(timeout, reason, "the timeout is paused: its orders stay open, their messages are kept");
}

pub(crate) fn unpaused(timeout: &str) {
    info!(timeout, "the pause has ended: orders are closed again");
}

/// The totals of a worker when it stops.
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

/// The work since the last such line, without zeros; `latest` is the highest lateness.
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

/// A notice whose `due_at` is ignored.
#[derive(Debug)]
pub(crate) struct IgnoredHint {
    pub(crate) of: Label,
    /// The text in the notice.
    pub(crate) due_at: String,
    pub(crate) app_id: Option<String>,
    pub(crate) user_id: Option<String>,
}

pub(crate) fn hint_ignored(timeout: &str) {
    METRICS.ignored_hints.add([timeout], 1);
}

pub(crate) fn hints_ignored(timeout: &str, notices: usize, first: &IgnoredHint) {
    let IgnoredHint { of, due_at, app_id, user_id } = first;
    warn!(
        timeout,
        notices,
        first_order = of.order,
        trace_id = of.trace_id,
        due_at,
        app_id,
        user_id,
        "due_at of these notices is ignored: it is not a time with a zone such as 2026-11-20T10:30:00Z; the deadline in the \
         database decides alone"
    );
}
