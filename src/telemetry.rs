//! Every event of the program, by name: a message for people, fields for queries, the unit in the field's name.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tracing::{debug, error, info, warn};
use tracing_subscriber::EnvFilter;

use crate::{
    config::{LogFormat, LogSettings},
    text::printable_json,
};

/// Installs the subscriber; log lines go to standard error.
///
/// # Errors
/// The filter cannot be read.
pub(crate) fn install(settings: &LogSettings) -> Result<(), String> {
    // lapin reports at error level what it returns as well; the one who gets the error says it once.
    // tokio_postgres passes on the server's notices, which `IF NOT EXISTS` gives for each thing that exists.
    let directives = format!("lapin=off,tokio_postgres=warn,{}", settings.filter);
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("log.filter: {error}"))?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_writer(io::stderr)
        // It would say so with `eprintln!`, which panics where standard error is what cannot be written.
        .log_internal_errors(false);
    let installed = match settings.format {
        LogFormat::Text => subscriber.with_target(false).try_init(),
        LogFormat::Json => subscriber.json().with_writer(|| JsonLines(io::stderr())).try_init(),
    };
    // A test process installs it more than once.
    installed.or(Ok(()))
}

/// A log of JSON lines, in which orders and brokers put what they like: safe for a terminal as well.
struct JsonLines<W>(W);

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable_json(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The worker has its connections and consumes.
pub(crate) fn worker_ready(queues: &[String], broker: &str, database: &str) {
    info!(queues = queues.join(","), broker, database, "worker ready");
}

/// A connection or the database is gone; everything unsettled went back to its queue.
pub(crate) fn session_ended(reason: &str, retry_in: Duration) {
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

/// Queues are there that were not there before, or that could not be consumed.
pub(crate) fn queues_changed(queues: &[String]) {
    info!(queues = queues.join(","), "the queues have changed: consuming from these as well");
}

/// A queue cannot be consumed at present; the others can.
pub(crate) fn queue_lost(queue: &str, reason: &str) {
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
    warn!(timeout, messages, reason, "messages wait until they can be put back or parked");
}

/// Workers have died, or lost their connection, with these messages in hand.
pub(crate) fn suspected(timeout: &str, deliveries: u32) {
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

/// A batch was committed.
pub(crate) fn batch_closed(
    timeout: &str,
    orders: usize,
    closed: usize,
    took: Duration,
    latest: Duration,
) {
    debug!(
        timeout,
        orders,
        closed,
        took_ms = millis(took),
        latest_ms = millis(latest),
        "batch committed"
    );
}

/// A message waits on the broker again.
pub(crate) fn delayed(order: &str, routing_key: &str, holds: Duration, attempt: u32) {
    debug!(order, routing_key, ?holds, attempt, "put back");
}

/// A message was given up. One line each is for those who look closely: thousands of them hide everything else.
pub(crate) fn parked(order: &str, reason: &str) {
    debug!(order, reason, "parked");
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

/// The sweep closed orders that no message came for.
pub(crate) fn swept(effect: &str, closed: usize) {
    warn!(
        effect,
        closed, "the sweep closed orders that no message came for: messages were lost or are late"
    );
}

/// A sweep did not get through; the next one is tried at its time.
pub(crate) fn sweep_failed(effect: &str, reason: &str) {
    error!(effect, reason, "the sweep failed; it is tried again at the next interval");
}

/// Events could not be taken from the outbox; they wait there.
pub(crate) fn relay_failed(reason: &str) {
    error!(reason, "the relay failed; the events wait in the outbox");
}

/// An event name is refused from now on; the events with other names go on.
pub(crate) fn event_refused(event: &str, reason: &str) {
    warn!(
        event,
        reason, "an event is refused; it is tried again after 1 s to 5 min, and the others go on"
    );
}

/// What was refused is published.
pub(crate) fn event_accepted(event: &str, events: i64, lasted_ms: i64) {
    info!(event, events, lasted_ms, "the events that were refused are published");
}

/// Rows of the outbox that no client can publish.
pub(crate) fn events_unpublishable(events: usize, first_id: i64, first_reason: &str) {
    error!(
        events,
        first_id,
        first_reason,
        "events can never be published; they are set aside in outbox_refused"
    );
}

/// A stop was asked for.
pub(crate) fn stopping(deadline: Duration) {
    info!(
        deadline_ms = millis(deadline),
        "stopping: finishing what is in hand, giving the rest back"
    );
}

/// What a worker has done until it stopped: messages, and for `swept` orders.
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
        swept = work.swept,
        "worker stopped"
    );
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
