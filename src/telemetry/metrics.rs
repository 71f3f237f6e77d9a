//! Every metric of the program. `docs/metrics.md` is this table.

use super::metric::{About, Counter, Gauge, Histogram, Metric};

/// Seconds from the deadline to the commit: goals are in the range of milliseconds, the sweep's finds in that of minutes,
/// and after an outage hours.
const LATENESS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0,
    3_600.0, 21_600.0, 86_400.0,
];
/// A statement takes milliseconds; it is cancelled after 30 s.
const DURATIONS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// `worker.batch_size` is 2,000 at the most.
const SIZES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_000.0];

/// Makes of one table the fields, the values and the list of all.
macro_rules! metrics {
    ($($field:ident: $kind:ident<$labels:literal> = $name:literal, $names:expr $(, $buckets:ident)?, $help:literal;)*) => {
        /// One field for each metric.
        pub(super) struct Metrics {
            $(pub(super) $field: $kind<$labels>,)*
        }

        /// What the process counts, over all of its sessions.
        pub(super) static METRICS: Metrics = Metrics {
            $($field: $kind::new($name, $names, $($buckets,)? $help),)*
        };

        impl Metrics {
            /// In the order of `docs/metrics.md`.
            pub(super) fn all(&self) -> Vec<&dyn Metric> {
                vec![$(&self.$field,)*]
            }
        }
    };
}

metrics! {
    build_info: Gauge<1> = "overdue_build_info", &["version"],
        "The version of the worker; always 1.";
    lateness: Histogram<2> = "overdue_lateness_seconds", &["timeout", "path"], LATENESS,
        "From the deadline of an order to its closing, by the clock of the database.";
    outcomes: Counter<3> = "overdue_outcomes_total", &["timeout", "path", "outcome"],
        "What the database answered about orders. Each order is closed once; other answers may come again for the same order.";
    batch_orders: Histogram<2> = "overdue_batch_orders", &["timeout", "path"], SIZES,
        "Orders in a batch.";
    batch_duration: Histogram<2> = "overdue_batch_duration_seconds", &["timeout", "path"], DURATIONS,
        "From the beginning of a batch to its commit, with what was tried again or split.";
    closing_failures: Counter<1> = "overdue_closing_failures_total", &["timeout"],
        "Attempts at a batch of which the database closed nothing; their messages are kept.";
    held: Counter<1> = "overdue_held_total", &["timeout"],
        "Messages kept unacked for a short while: early by less than worker.hold, or their order was locked.";
    put_back: Counter<1> = "overdue_put_back_total", &["timeout"],
        "Messages that wait in a level again: they came early, are guarded, or failed through no fault of their order.";
    retried: Counter<1> = "overdue_retried_total", &["timeout"],
        "Messages put into a level for a retry.";
    parked: Counter<2> = "overdue_parked_total", &["timeout", "reason"],
        "Messages put into the parking lot.";
    copy_failures: Counter<1> = "overdue_copy_failures_total", &["timeout"],
        "Times that copies for a level or the parking lot were not confirmed; each is tried again.";
    suspects: Counter<1> = "overdue_suspects_total", &["timeout"],
        "Times that messages were delivered again and again without being settled.";
    sessions: Counter<0> = "overdue_sessions_total", &[],
        "Sessions that got their connections and consumed.";
    session_ends: Counter<1> = "overdue_session_ends_total", &["cause"],
        "Sessions that ended before a stop was asked for.";
    queue_losses: Counter<0> = "overdue_queue_losses_total", &[],
        "Times that a queue could not be consumed.";
    consumed_queues: Gauge<0> = "overdue_consumed_queues", &[],
        "Queues that this worker consumes from.";
    levels_missing: Gauge<0> = "overdue_levels_missing", &[],
        "Levels of the topology file that the broker does not route to.";
    sweep_failures: Counter<1> = "overdue_sweep_failures_total", &["effect"],
        "Sweeps, or pages of a sweep, that did not get through.";
    sweep_refused: Gauge<1> = "overdue_sweep_refused_rows", &["effect"],
        "Rows of overdue_sql whose id cannot be an order id, in the last sweep.";
    log_lines_lost: Counter<0> = "overdue_log_lines_lost_total", &[],
        "Log lines that standard error did not take in time, or refused; nothing waits for them.";
    history_deleted: Counter<0> = "overdue_history_deleted_rows_total", &[],
        "Rows of closures and dropped_messages that were deleted because of their age.";
    history_failures: Counter<0> = "overdue_history_failures_total", &[],
        "Times that rows could not be deleted although they are older than they are kept.";
    relay_failures: Counter<0> = "overdue_relay_failures_total", &[],
        "Times that events could not be taken from the outbox or published; they wait there.";
    event_refusals: Counter<0> = "overdue_event_refusals_total", &[],
        "Times that an event name began to be refused, or not to be confirmed.";
    unpublishable: Counter<0> = "overdue_unpublishable_events_total", &[],
        "Events that can never be published.";
    outbox: Gauge<0> = "overdue_outbox_events", &[],
        "Events that wait in the outbox, counted up to 100,000.";
    outbox_oldest: Gauge<0> = "overdue_outbox_oldest_seconds", &[],
        "Age of the oldest event in the outbox; 0 where it is empty.";
    outbox_refused: Gauge<1> = "overdue_outbox_refused_events", &["retried"],
        "Events in outbox_refused, counted up to 100,000.";
    scheduled: Counter<1> = "overdue_scheduled_published_total", &["timeout"],
        "Notices written with schedule() that the broker has confirmed.";
    schedule_failures: Counter<0> = "overdue_schedule_failures_total", &[],
        "Times that such notices could not be read or published; they wait in the table.";
    schedule_refused: Counter<0> = "overdue_scheduled_refused_total", &[],
        "Such notices that cannot be published, set aside in scheduled_notices_refused.";
    scheduled_waiting: Gauge<0> = "overdue_scheduled_notices", &[],
        "Notices written with schedule() that wait to be published, counted up to 100,000.";
    scheduled_oldest: Gauge<0> = "overdue_scheduled_oldest_seconds", &[],
        "Age of the oldest of these notices; 0 where none waits.";
    scheduled_aside: Gauge<0> = "overdue_scheduled_refused_notices", &[],
        "Notices in scheduled_notices_refused, counted up to 100,000.";
    due_orders: Gauge<2> = "overdue_due_orders", &["effect", "closed_by"],
        "Orders that came due in the last minute and were not paid, by what closed them; together all there were.";
    overdue_orders: Gauge<1> = "overdue_overdue_orders", &["effect"],
        "Orders past their deadline that nobody has closed, counted up to 1,000.";
    oldest_overdue: Gauge<1> = "overdue_oldest_overdue_seconds", &["effect"],
        "How long the oldest of these orders has been overdue; 0 where there is none.";
    queue_messages: Gauge<2> = "overdue_queue_messages", &["queue", "holds"],
        "Messages in a queue of the topology, up to 10 s old when they are asked for.";
    drift: Gauge<1> = "overdue_drift_findings", &["severity"],
        "Findings of the last comparison of the broker with the topology file, as of `overdue verify`.";
    looked_at: Gauge<1> = "overdue_looked_timestamp_seconds", &["at"],
        "When this was asked successfully for the last time, in seconds since 1970.";
    look_failures: Counter<1> = "overdue_look_failures_total", &["at"],
        "Questions for these metrics that were not answered.";
    ready: Gauge<1> = "overdue_ready", &["condition"],
        "1 where this condition of /readyz holds, otherwise 0.";
    alert_messages: Counter<2> = "overdue_alert_messages_total", &["alert", "result"],
        "Attempts to send a message of an alert.";
}

/// Every metric, in the order of `docs/metrics.md`.
#[must_use]
pub fn described() -> Vec<About> {
    METRICS.all().into_iter().map(Metric::about).collect()
}
