//! Every log event, by name: a message for people, fields for queries, and the unit in the field's name. An event that can be
//! counted is also counted, so that log and metric agree.

use std::{collections::BTreeSet, path::Path, time::Duration};

use tracing::{debug, error, info, warn};

use super::{
    labels,
    metrics::{METRICS, number},
    observed,
};
use crate::{
    decisions::disposition::ParkReason,
    order::{FinalStates, OrderId, Outcome},
    text::millis,
    wire::Traces,
};

/// The name of a message in a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// The order id, or another text if the message has none.
    pub(crate) order: String,
    /// The trace of the request.
    pub(crate) trace_id: Option<String>,
}

/// The first line of a worker.
pub(crate) fn starting(settings: Option<&Path>) {
    let settings = settings.map_or("none".into(), |path| path.display().to_string());
    info!(version = env!("CARGO_PKG_VERSION"), settings_file = settings, "worker starting");
}

pub(crate) fn file_exposed(file: &str, mode: u32) {
    let mode = format!("{mode:04o}");
    warn!(
        file,
        mode,
        "others can read or write this file, which has a password or a key: `overdue doctor` prints how to change that"
    );
}

/// An action of a person was not recorded in the table `actions`.
pub(crate) fn action_not_recorded(action: &str, what: &str, reason: &str) {
    warn!(action, what, reason, "the action was done, and is not recorded in the table actions");
}

/// A login was refused. The file with the URL now has another login, which is used from now on.
pub(crate) fn url_file_read_again(of: &str) {
    info!(of, "the login was refused, and the file with the URL has another one now: trying that");
}

pub(crate) fn worker_ready(queues: &[String], broker: &str, database: &str) {
    METRICS.sessions.add([], 1);
    info!(queues = queues.join(","), broker, database, "worker ready");
}

/// The connection or the database is gone; the broker requeues all unacked messages. `cause` is one of [`labels::CAUSES`].
pub(crate) fn session_ended(cause: &str, reason: &str, retry_in: Duration) {
    METRICS.session_ends.add([cause], 1);
    error!(
        reason,
        retry_in_ms = millis(retry_in),
        "session ended; the broker requeues the unacked messages, and the worker connects again"
    );
}

pub(crate) fn waiting_for_lock() {
    info!("another overdue is changing the topology: the worker waits until it has finished");
}

/// The broker was not reachable when the worker started, or nothing can be declared on it yet.
pub(crate) fn broker_awaited(reason: &str) {
    warn!(reason, "the broker cannot be used yet; until then orders are closed from the table");
}

/// A timeout was removed and added again, and its queue is still marked as retired.
pub(crate) fn mark_stays(reason: &str) {
    warn!(
        reason,
        "a timeout is in the topology file again, and its queue is still marked as retired: run `overdue apply`"
    );
}

pub(crate) fn other_queues(queues: &BTreeSet<&str>) {
    warn!(
        queues = queues.iter().copied().collect::<Vec<_>>().join(","),
        "the broker has these queues in use, and the topology file, which may be older, has others in their place or none: the \
         worker adds nothing, and is not ready while a delay or a queue is missing. `overdue plan` shows both; run `overdue \
         apply` if the file is newer, otherwise start the worker with the file that was applied"
    );
}

pub(crate) fn queues_changed(queues: &[String]) {
    info!(queues = queues.join(","), "the queues have changed: these are consumed as well");
}

/// A failed attempt to consume a queue. `first`: before it the queue was consumed, or had not been tried.
pub(crate) fn queue_lost(queue: &str, first: bool, reason: &str) {
    METRICS.queue_losses.add([], 1);
    if first {
        warn!(
            queue,
            reason,
            "this queue is not consumed at present: it is retried, and other queues continue"
        );
    }
}

pub(crate) fn binding_moved(queue: &str, exchange: &str) {
    warn!(
        queue,
        exchange, "this queue was bound where messages are not due yet: the binding was moved"
    );
}

pub(crate) fn binding_not_moved(queue: &str, exchange: &str, reason: &str) {
    error!(
        queue,
        exchange,
        reason,
        "this queue gets messages before they are due: the worker could not move its binding"
    );
}

/// A timeout of the topology file has no queue, for example because `overdue apply` has removed it.
pub(crate) fn queue_missing(timeout: &str, queue: &str) {
    warn!(timeout, queue, "this timeout lacks a queue: it is looked for; other timeouts continue");
}

/// The broker no longer routes to levels of the topology file, for example because `overdue apply` has removed them. The alternate
/// exchange may have parked messages since the last check.
pub(crate) fn levels_gone(routes: &[String]) {
    warn!(
        routes = routes.join(","),
        "the broker does not route to these levels: the worker uses others, and messages that publishers send there are parked"
    );
}

pub(crate) fn levels_back(routes: &[String]) {
    info!(routes = routes.join(","), "the broker routes to these levels again");
}

pub(crate) fn effect_unusable(effect: &str, reason: &str) {
    error!(
        effect,
        reason, "this effect cannot be used: messages of its timeouts wait, the others continue"
    );
}

pub(crate) fn closing_failed(timeout: &str, orders: usize, reason: &str, retry_in: Duration) {
    METRICS.closing_failures.add([timeout], 1);
    error!(
        timeout,
        orders,
        reason,
        retry_in_ms = millis(retry_in),
        "orders cannot be closed; their messages are kept, and the worker tries again"
    );
}

/// Orders fail individually, and are retried or parked.
pub(crate) fn failing(timeout: &str, orders: usize, first: &Label, first_reason: &str) {
    warn!(
        timeout,
        orders,
        first_order = first.order,
        trace_id = first.trace_id,
        first_reason,
        "orders cannot be closed, each for a reason of its own: they wait in the retry levels, and are parked after the last one"
    );
}

pub(crate) fn copies_wait(timeout: &str, messages: usize, reason: &str) {
    METRICS.copy_failures.add([timeout], 1);
    warn!(timeout, messages, reason, "messages wait: the broker has not confirmed their copies");
}

pub(crate) fn guarded(timeout: &str, orders: usize, first: &Label) {
    warn!(
        timeout,
        orders,
        first_order = first.order,
        trace_id = first.trace_id,
        "orders are overdue, and the effect answers not_due: their messages wait in the retry levels and come again"
    );
}

/// A batch was committed. `path` is the reason why its orders were tried, as in `closures.path`. `timeout` is one timeout, or all
/// timeouts of an effect.
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
    observed::closed(latest);
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

/// The outcome of each order whose notice belongs to a trace, for people who search for the trace.
pub(crate) fn answered(timeout: &str, ids: &[OrderId], traces: &Traces, outcomes: &[Outcome]) {
    for (id, outcome) in ids.iter().zip(outcomes) {
        let Some(trace) = traces.get(id) else { continue };
        let (order, trace_id) = (id.as_str(), trace.trace_id());
        let late_ms = match outcome {
            Outcome::Closed { late, .. } => Some(millis(*late)),
            _ => None,
        };
        debug!(order, trace_id, timeout, outcome = labels::outcome(outcome), late_ms, "answered");
    }
}

/// The worker keeps a message unacked for a short while. Not logged: there are too many.
pub(crate) fn message_held(timeout: &str) {
    METRICS.held.add([timeout], 1);
}

/// The broker confirmed a republished message. Not logged: each was logged when it was published.
pub(crate) fn put_back(timeout: &str) {
    METRICS.put_back.add([timeout], 1);
}

pub(crate) fn retried(timeout: &str) {
    METRICS.retried.add([timeout], 1);
}

pub(crate) fn delayed(of: &Label, routing_key: &str, holds: Duration, attempt: u32) {
    debug!(order = of.order, trace_id = of.trace_id, routing_key, ?holds, attempt, "put back");
}

/// A message was parked. The line is on level debug, because thousands of them would hide everything else.
pub(crate) fn parked(timeout: &str, class: ParkReason, of: &Label, reason: &str) {
    METRICS.parked.add([timeout, class.name()], 1);
    observed::parked(&of.order, reason);
    debug!(order = of.order, trace_id = of.trace_id, reason, "message parked");
}

/// A row was deleted before its message arrived.
pub(crate) fn gone(timeout: &str, of: &Label) {
    METRICS.gone.add([timeout], 1);
    debug!(order = of.order, trace_id = of.trace_id, "message acked: its row is gone");
}

pub(crate) fn batch_parked(timeout: &str, messages: usize, first: &Label, first_reason: &str) {
    let (first_order, trace_id) = (&first.order, &first.trace_id);
    warn!(timeout, messages, first_order, trace_id, first_reason, "messages are parked");
}

pub(crate) fn postponed(effect: &str, orders: usize, first_order: &str, first_reason: &str) {
    warn!(
        effect,
        orders,
        first_order,
        first_reason,
        "orders fail in the same way and none is closed: the cause is not an order, and the worker tries all of them again later"
    );
}

pub(crate) fn held(effect: &str, orders: usize, locked: &str, longest: Duration, lock: &str) {
    warn!(
        effect,
        orders,
        locked,
        longest_ms = millis(longest),
        lock,
        "orders wait for a lock of another session: the worker tries them again until the lock is free"
    );
}

/// `overdue_sql` returned rows with an invalid order id.
pub(crate) fn sweep_refused(effect: &str, file: &str, rows: usize, example: &str) {
    error!(
        effect,
        file,
        rows,
        example,
        "overdue_sql returns ids that cannot be order ids: the sweep never closes these rows"
    );
}

/// A sweep found orders for which the effect failed.
pub(crate) fn sweep_rows_failed(effect: &str, orders: usize, order: &str, reason: &str) {
    warn!(
        effect,
        orders,
        order,
        reason,
        "the sweep could not close these overdue orders: they stay open, and the next sweep tries them again"
    );
}

/// The database's clock was set forward by `leap`.
pub(crate) fn clock_leapt(leap: Duration, wait: Duration) {
    error!(
        leap_s = leap.as_secs(),
        wait_min = wait.as_secs() / 60,
        "the database's clock has leapt forward: if it is wrong now, set it back; until then, for at most an hour, orders are \
         closed by their messages alone, without sweep and bursts"
    );
}

pub(crate) fn burst_closed(effect: &str, closed: usize, took: Duration) {
    debug!(effect, closed, took_ms = millis(took), "a burst was closed");
}

/// Messages for the timeouts of an effect arrive again, or no longer.
pub(crate) fn messages_come(effect: &str, again: bool) {
    if again {
        return info!(effect, "RabbitMQ answers again; orders are closed by their messages");
    }
    warn!(
        effect,
        "RabbitMQ does not answer; orders are closed on time from the table; retries, parking and events wait"
    );
}

pub(crate) fn burst_failed(effect: &str, reason: &str) {
    debug!(effect, reason, "a burst could not be closed; its orders are closed by their messages");
}

/// The sweep closed orders before a message arrived; `unpublished` of them had an unpublished notice. `states` are the effect's
/// words for the final states.
pub(crate) fn swept(effect: &str, closed: usize, unpublished: usize, states: &FinalStates) {
    warn!(
        effect,
        closed,
        unpublished,
        %states,
        "the sweep closed orders before a message came"
    );
}

pub(crate) fn sweep_failed(effect: &str, reason: &str) {
    METRICS.sweep_failures.add([effect], 1);
    error!(effect, reason, "the sweep failed; it is tried again at the next interval");
}

pub(crate) fn sweep_passed_over(effect: &str, orders: usize, reason: &str) {
    METRICS.sweep_failures.add([effect], 1);
    error!(
        effect,
        orders, reason, "none of these overdue orders can be closed; the sweep skips them"
    );
}

/// All sweeps have ended because of a defect of overdue; they begin again after `pause`.
pub(crate) fn sweep_ended(reason: &str, pause: Duration) {
    error!(
        reason,
        ?pause,
        "the sweep ended and begins again; this is a defect of overdue: please report it with the log"
    );
}

pub(crate) fn history_deleted(table: &str, rows: u64, kept: Duration) {
    METRICS.history_deleted.add([], usize::try_from(rows).unwrap_or(usize::MAX));
    info!(table, rows, kept_days = kept.as_secs() / 86_400, "old rows are deleted");
}

/// Old rows could not be deleted. `again`: for the same reason as before.
pub(crate) fn history_failed(table: &str, reason: &str, again: bool) {
    METRICS.history_failures.add([], 1);
    if !again {
        warn!(
            table,
            reason,
            "old rows cannot be deleted (worker.keep_history); the next interval tries again, and closing continues"
        );
    }
}

/// A webhook accepted a message; `answer` is its response.
pub(crate) fn alert_sent(alert: &str, about: &str, answer: &str) {
    METRICS.alert_messages.add([alert, "taken"], 1);
    info!(alert, about, answer, "alert sent");
}

/// A webhook did not accept a message; closing continues. `first`: the message before was accepted.
pub(crate) fn alert_failed(alert: &str, first: bool, reason: &str, retry_in: Duration) {
    METRICS.alert_messages.add([alert, "failed"], 1);
    if first {
        error!(
            alert,
            reason,
            retry_in_ms = millis(retry_in),
            "the message of an alert was not taken: the worker sends it again until it is, and closing continues; `overdue \
             doctor --send-alert` sends a test at once"
        );
    }
}

/// Spans were lost because a collector does not keep up.
#[cfg(feature = "otlp")]
pub(crate) fn spans_lost(spans: usize) {
    METRICS.spans_lost.add([], spans);
}

/// A collector refused spans. `first`: the collector accepted the spans before these.
#[cfg(feature = "otlp")]
pub(crate) fn spans_refused(spans: usize, first: bool, reason: &str) {
    spans_lost(spans);
    if first {
        warn!(
            spans,
            reason,
            "the collector of traces.otlp does not take spans: they are lost, and closing continues"
        );
    }
}

#[cfg(feature = "otlp")]
pub(crate) fn spans_taken() {
    info!("the collector of traces.otlp takes spans again");
}

/// The server of `/metrics`, `/livez` and `/readyz` has started.
pub(crate) fn listening(address: &str) {
    info!(address, "serving /metrics, /livez and /readyz");
}

pub(crate) fn not_listening(address: &str, reason: &str) {
    warn!(
        address,
        reason,
        "/metrics, /livez and /readyz are not served: choose another address with --listen or worker.listen, or an empty one \
         for none; the worker tries again every 5 s, and closing continues"
    );
}

/// The broker differs from the topology file, or matches it again. `findings` counts errors and warnings.
pub(crate) fn drift_changed(findings: usize, first: &str) {
    if findings == 0 {
        info!("the broker matches the topology file again");
    } else {
        warn!(
            findings,
            first, "the broker differs from the topology file: `overdue verify` shows everything"
        );
    }
}

/// The user of the management API lacks the tag, or its login is refused.
pub(crate) fn management_given_up(reason: &str) {
    warn!(
        reason,
        "the management API is not asked until the worker starts again, because it refuses the user: the worker sees no levels, \
         drift and queue contents, and looks for new generations of its queues one by one"
    );
}

/// The management API no longer answers; `at` is one of [`labels::LOOKED_AT`].
pub(crate) fn look_fails(at: &str, reason: &str) {
    warn!(
        at,
        reason,
        "the management API gives no answer about the broker: metrics and alerts keep its last answer, and closing continues"
    );
}

pub(crate) fn look_works(at: &str) {
    info!(at, "the management API answers again about the broker");
}

pub(crate) fn stopping(deadline: Duration) {
    info!(
        deadline_ms = millis(deadline),
        "stopping: the worker finishes its running batches, and the broker requeues the other messages"
    );
}
