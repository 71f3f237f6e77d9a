//! Every event of the program, by name: a message for people, fields for queries, the unit in the field's name. What can be
//! counted is counted here as well ([`metrics`]), so that log and metric are about the same things.

pub(crate) mod alerts;
pub(crate) mod events;
pub(crate) mod exposition;
pub(crate) mod history;
mod install;
pub(crate) mod labels;
pub(crate) mod lately;
mod lines;
pub(crate) mod metric;
pub(crate) mod metrics;
mod millis;
pub(crate) mod notices;
pub(crate) mod observed;
pub(crate) mod sweep;

use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::order::{FinalStates, Outcome};
pub(crate) use install::{LogEnd, Writing, flush_log, install};
use labels::ParkReason;
use metric::number;
use metrics::METRICS;
use millis::millis;

/// The worker has its connections and consumes.
pub(crate) fn worker_ready(queues: &[String], broker: &str, database: &str) {
    METRICS.sessions.add([], 1);
    info!(queues = queues.join(","), broker, database, "worker ready");
}

/// A connection or the database is gone; everything unsettled went back to its queue. `cause` is one of
/// [`labels::CAUSES`].
pub(crate) fn session_ended(cause: &str, reason: &str, retry_in: Duration) {
    METRICS.session_ends.add([cause], 1);
    error!(
        reason,
        retry_in_ms = millis(retry_in),
        "session ended; everything unsettled is given back"
    );
}

/// Somebody else is changing the topology; this worker adds its part after that.
pub(crate) fn waiting_for_lock() {
    info!("another overdue is changing the topology: waiting until it is done");
}

/// Levels let go earlier or later before their time than the file says; nothing is early or late by it.
pub(crate) fn other_leads(queues: &[String]) {
    warn!(
        queues = queues.join(","),
        "these levels have another lead than the topology file: run `overdue apply`"
    );
}

/// Queues are there that were not there before, or that could not be consumed.
pub(crate) fn queues_changed(queues: &[String]) {
    info!(queues = queues.join(","), "the queues have changed: consuming from these as well");
}

/// A queue cannot be consumed at present; the others can.
pub(crate) fn queue_lost(queue: &str, reason: &str) {
    METRICS.queue_losses.add([], 1);
    warn!(
        queue,
        reason, "this queue is not consumed at present: it is tried again, the others go on"
    );
}

/// A consumer has bound its queue to the old name of an exchange that was taken over.
pub(crate) fn binding_moved(queue: &str, exchange: &str) {
    warn!(
        queue,
        exchange, "this queue was bound where messages are not due yet: the binding was moved"
    );
}

/// The same, and it could not be changed.
pub(crate) fn binding_not_moved(queue: &str, exchange: &str, reason: &str) {
    error!(
        queue,
        exchange,
        reason,
        "this queue gets messages before they are due: its binding could not be moved"
    );
}

/// A timeout of the topology file has no queue, for example because `overdue apply` has removed it.
pub(crate) fn queue_missing(timeout: &str, queue: &str) {
    warn!(
        timeout,
        queue, "this timeout has no queue: it is looked for again, the other timeouts go on"
    );
}

/// The broker routes to levels of the topology file no more, for example because `overdue apply` has removed them.
/// `parked` messages were put there since it was looked last: the alternate exchange may have parked them.
pub(crate) fn levels_gone(routes: &[String], parked: usize) {
    let routes = routes.join(",");
    warn!(
        routes,
        parked,
        "the broker does not route to these levels: messages wait in the others; those that were put there since the last \
         look are counted as parked"
    );
}

/// The broker routes to levels again.
pub(crate) fn levels_back(routes: &[String]) {
    info!(routes = routes.join(","), "the broker routes to these levels again");
}

/// An effect cannot be used as it is; the timeouts with other effects go on.
pub(crate) fn effect_unusable(effect: &str, reason: &str) {
    error!(
        effect,
        reason, "this effect cannot be used: the messages of its timeouts wait, the others go on"
    );
}

/// The database closes none of a timeout's orders.
pub(crate) fn closing_failed(timeout: &str, orders: usize, reason: &str, retry_in: Duration) {
    METRICS.closing_failures.add([timeout], 1);
    error!(
        timeout,
        orders,
        reason,
        retry_in_ms = millis(retry_in),
        "orders cannot be closed; their messages are kept and tried again"
    );
}

/// The database closes orders again.
pub(crate) fn closing_again(timeout: &str) {
    info!(timeout, "orders can be closed again");
}

/// Copies for a level or the parking lot are not confirmed; what needs no copy goes on.
pub(crate) fn copies_wait(timeout: &str, messages: usize, reason: &str) {
    METRICS.copy_failures.add([timeout], 1);
    warn!(timeout, messages, reason, "messages wait until they can be put back or parked");
}

/// Workers have died, or lost their connection, with these messages in hand.
pub(crate) fn suspected(timeout: &str, deliveries: u32) {
    METRICS.suspects.add([timeout], 1);
    warn!(
        timeout,
        deliveries,
        "messages were delivered again and again without being settled: they are taken one at a time"
    );
}

/// Overdue orders that the effect says are not due.
pub(crate) fn guarded(timeout: &str, orders: usize, first_order: &str) {
    warn!(
        timeout,
        orders,
        first_order,
        "overdue, and the effect says not_due: their messages come back after the retry levels"
    );
}

/// A batch was committed. `path` is what made its orders due, `closures.path`; `timeout` is one or, where the database was
/// asked for all orders of an effect, those of the effect.
pub(crate) fn batch_closed(timeout: &str, path: &str, outcomes: &[Outcome], took: Duration) {
    let labels = [timeout, path];
    let late = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Closed { late, .. } => Some(*late),
        _ => None,
    });
    METRICS.lateness.observe(labels, late.clone().map(|late| late.as_secs_f64()));
    METRICS.batch_orders.observe(labels, [number(outcomes.len())]);
    METRICS.batch_duration.observe(labels, [took.as_secs_f64()]);
    for (outcome, orders) in labels::counted(outcomes) {
        METRICS.outcomes.add([timeout, path, outcome], orders);
    }
    let (closed, latest) =
        late.fold((0_usize, Duration::ZERO), |(n, max), late| (n + 1, max.max(late)));
    lately::closed(latest);
    let mut states = FinalStates::default();
    states.add(outcomes.iter().filter_map(Outcome::final_state));
    debug!(
        timeout,
        path,
        orders = outcomes.len(),
        closed,
        %states,
        took_ms = millis(took),
        latest_ms = millis(latest),
        "batch committed"
    );
}

/// A message is kept unacked for a short while. Too many for the log.
pub(crate) fn message_held(timeout: &str) {
    METRICS.held.add([timeout], 1);
}

/// The copy of a message that waits again was confirmed. Too many for the log, which has each when it is published.
pub(crate) fn put_back(timeout: &str) {
    METRICS.put_back.add([timeout], 1);
}

/// The same, for a retry.
pub(crate) fn retried(timeout: &str) {
    METRICS.retried.add([timeout], 1);
}

/// A message waits on the broker again.
pub(crate) fn delayed(order: &str, routing_key: &str, holds: Duration, attempt: u32) {
    debug!(order, routing_key, ?holds, attempt, "put back");
}

/// A message was given up. One line each is for those who look closely: thousands of them hide everything else.
pub(crate) fn parked(timeout: &str, class: ParkReason, order: &str, reason: &str) {
    METRICS.parked.add([timeout, class.name()], 1);
    debug!(order, reason, "parked");
}

/// The broker has parked messages, or their copies, by itself.
pub(crate) fn parked_by_broker(timeout: &str, class: ParkReason, messages: usize) {
    METRICS.parked.add([timeout, class.name()], messages);
    debug!(timeout, messages, reason = class.name(), "parked by the broker");
}

/// Messages of one batch were given up; the first one stands for all of them.
pub(crate) fn batch_parked(timeout: &str, messages: usize, first_order: &str, first_reason: &str) {
    warn!(timeout, messages, first_order, first_reason, "parked");
}

/// Orders fail, and probably not through any fault of their own.
pub(crate) fn postponed(effect: &str, orders: usize, first_order: &str, first_reason: &str) {
    warn!(
        effect,
        orders,
        first_order,
        first_reason,
        "orders fail in the same way and none is closed: it is not their fault, they are tried again later"
    );
}

/// Orders, or stock that they need, have been locked by somebody else for long.
pub(crate) fn held(effect: &str, orders: usize, named: &[&str], longest: Duration, blocker: &str) {
    warn!(
        effect,
        orders,
        locked = named.join(","),
        longest_ms = millis(longest),
        blocker,
        "orders are locked by somebody else: they are tried again until they are free"
    );
}

/// Early notices of this effect are asked for with the effect itself from now on.
pub(crate) fn due_sql_failed(effect: &str, reason: &str) {
    error!(effect, reason, "due_sql failed: the effect itself is asked when orders are due");
}

/// `overdue_sql` found rows that are no orders of ours.
pub(crate) fn sweep_refused(effect: &str, file: &str, rows: usize, example: &str) {
    error!(
        effect,
        file,
        rows,
        example,
        "overdue_sql gave ids that cannot be order ids: these rows are never swept"
    );
}

/// More was due than a batch holds.
pub(crate) fn closed_ahead(effect: &str, closed: usize, took: Duration) {
    debug!(effect, closed, took_ms = millis(took), "orders were closed ahead of their messages");
}

/// Orders could not be closed ahead of their messages, which are asked for as they come.
pub(crate) fn ahead_failed(effect: &str, reason: &str) {
    debug!(effect, reason, "orders could not be closed ahead of their messages");
}

/// The sweep closed orders that no message came for; `states`: what the effect calls it.
pub(crate) fn swept(effect: &str, closed: usize, states: &FinalStates) {
    warn!(
        effect,
        closed,
        %states,
        "the sweep closed orders that no message came for: messages were lost or are late"
    );
}

/// `/metrics` and the others are served.
pub(crate) fn listening(address: &str) {
    info!(address, "serving /metrics, /livez and /readyz");
}

/// They are not, for example because another worker of this machine has the port.
pub(crate) fn not_listening(address: &str, reason: &str) {
    warn!(
        address,
        reason,
        "/metrics, /livez and /readyz are not served: choose another address with --listen or worker.listen, an empty one \
         for none; it is tried again every 5 s, and closing goes on"
    );
}

/// The broker differs from the topology file, or does so no more: `findings` that are more than notes.
pub(crate) fn drift_changed(findings: usize, first: &str) {
    if findings == 0 {
        info!("the broker is as the topology file says again");
    } else {
        warn!(
            findings,
            first, "the broker differs from the topology file: `overdue verify` shows everything"
        );
    }
}

/// A stop was asked for.
pub(crate) fn stopping(deadline: Duration) {
    info!(
        deadline_ms = millis(deadline),
        "stopping: finishing what is in hand, giving the rest back"
    );
}

/// What a worker has done until it stopped: messages, and for `ahead` and `swept` orders.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields of the log line, explained at the worker's counters")]
pub(crate) struct Stopped {
    pub closed: u64,
    pub already_final: u64,
    pub held: u64,
    pub guarded: u64,
    pub put_back: u64,
    pub retried: u64,
    pub parked: u64,
    pub ahead: u64,
    pub swept: u64,
}

/// The worker has stopped.
pub(crate) fn stopped(work: Stopped) {
    info!(
        closed = work.closed,
        already_final = work.already_final,
        held = work.held,
        guarded = work.guarded,
        put_back = work.put_back,
        retried = work.retried,
        parked = work.parked,
        ahead = work.ahead,
        swept = work.swept,
        "worker stopped"
    );
}
