//! Every metric of the program, with its labels and its help text. `docs/metrics.md` is this table.

use std::sync::LazyLock;

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, TextEncoder,
    core::Collector,
    proto::{Metric as Series, MetricFamily},
};

use super::log::LINES;

/// Seconds from the deadline to the commit: milliseconds normally, minutes for orders that the sweep finds, and hours after an
/// outage.
const LATENESS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0,
    3_600.0, 21_600.0, 86_400.0,
];
/// A statement takes milliseconds; PostgreSQL cancels it after 30 s.
const DURATIONS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// `worker.batch_size` is at most 2,000.
const SIZES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_000.0];

/// Generates the fields, the values and the list of all metrics from one table.
macro_rules! metrics {
    ($($field:ident: $kind:ident<$labels:literal> = $name:literal, $names:expr $(, $buckets:ident)?, $help:literal;)*) => {
        /// A field per metric.
        pub(super) struct Metrics {
            $(pub(super) $field: $kind<$labels>,)*
        }

        /// Metrics of the process, over all of its sessions.
        pub(super) static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics {
            $($field: $kind::new($name, $names, $help, None::<&[f64]>$(.or(Some($buckets)))?),)*
        });

        impl Metrics {
            /// Ordered as in `docs/metrics.md`.
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
        "Time from the deadline of an order to its closing, by the clock of the database.";
    outcomes: Counter<3> = "overdue_outcomes_total", &["timeout", "path", "outcome"],
        "Answers of the database about orders. Each order is closed once; other answers may come again for the same order.";
    batch_orders: Histogram<2> = "overdue_batch_orders", &["timeout", "path"], SIZES,
        "Orders in a batch.";
    batch_duration: Histogram<2> = "overdue_batch_duration_seconds", &["timeout", "path"], DURATIONS,
        "Time from the beginning of a batch to its commit, including retries and splits.";
    closing_failures: Counter<1> = "overdue_closing_failures_total", &["timeout"],
        "Attempts at a batch in which the database closed nothing; the worker keeps the messages and tries again.";
    held: Counter<1> = "overdue_held_total", &["timeout"],
        "Messages that the worker kept unacked for a short time: early by less than worker.hold, or their order was locked.";
    put_back: Counter<1> = "overdue_put_back_total", &["timeout"],
        "Messages that wait in a level again: they came early, are guarded, or failed for a cause outside their order.";
    retried: Counter<1> = "overdue_retried_total", &["timeout"],
        "Messages that wait in a level for a retry.";
    parked: Counter<2> = "overdue_parked_total", &["timeout", "reason"],
        "Messages that the worker moved to the parking lot.";
    gone: Counter<1> = "overdue_gone_total", &["timeout"],
        "Messages that the worker acked because their row was deleted: gone = \"ack\" of their timeout.";
    ignored_hints: Counter<1> = "overdue_ignored_due_at_total", &["timeout"],
        "Notices whose due_at is not a time with a zone: the worker ignores it, and the database decides alone.";
    copy_failures: Counter<1> = "overdue_copy_failures_total", &["timeout"],
        "Times that the broker did not confirm messages for a level or the parking lot; the worker tries each again.";
    sessions: Counter<0> = "overdue_sessions_total", &[],
        "Sessions that connected and consumed.";
    session_ends: Counter<1> = "overdue_session_ends_total", &["cause"],
        "Sessions that ended although no stop was requested.";
    queue_losses: Counter<0> = "overdue_queue_losses_total", &[],
        "Failed attempts to consume a queue, and losses of a consumed queue.";
    consumed_queues: Gauge<0> = "overdue_consumed_queues", &[],
        "Queues that this worker consumes from.";
    levels_missing: Gauge<0> = "overdue_levels_missing", &[],
        "Levels of the topology file that the broker does not route to.";
    clock_leap: Gauge<0> = "overdue_database_clock_leap_seconds", &[],
        "How far the database's clock has leapt forward in the last hour; meanwhile the sweep and bursts close no orders.";
    sweep_failures: Counter<1> = "overdue_sweep_failures_total", &["effect"],
        "Sweeps, or pages of a sweep, that failed.";
    sweep_refused: Gauge<1> = "overdue_sweep_refused_rows", &["effect"],
        "Rows of overdue_sql whose id cannot be an order id, in the last sweep.";
    log_lines_lost: Counter<0> = "overdue_log_lines_lost_total", &[],
        "Log lines that standard error refused or did not take in time; the worker does not wait for it.";
    spans_lost: Counter<0> = "overdue_spans_lost_total", &[],
        "Spans that the collector refused or did not take in time; the worker does not wait for it.";
    history_deleted: Counter<0> = "overdue_history_deleted_rows_total", &[],
        "Rows of closures, dropped_messages and actions that the worker deleted because of their age.";
    history_failures: Counter<0> = "overdue_history_failures_total", &[],
        "Failed attempts to delete rows that are older than worker.keep_history.";
    relay_failures: Counter<0> = "overdue_relay_failures_total", &[],
        "Failed attempts to read events from the outbox or to publish them; they wait there.";
    event_refusals: Counter<0> = "overdue_event_refusals_total", &[],
        "Times that the broker began to refuse, or not to confirm, the events of a name.";
    unpublishable: Counter<0> = "overdue_unpublishable_events_total", &[],
        "Events that can never be published; the worker moved them to outbox_refused.";
    outbox: Gauge<0> = "overdue_outbox_events", &[],
        "Events that wait in the outbox, counted up to 100,000, without events that this worker has published and cannot delete.";
    outbox_oldest: Gauge<0> = "overdue_outbox_oldest_seconds", &[],
        "Age of the oldest event that waits in the outbox; 0 if none waits.";
    outbox_refused: Gauge<1> = "overdue_outbox_refused_events", &["retried"],
        "Events in outbox_refused, counted up to 100,000.";
    scheduled: Counter<1> = "overdue_scheduled_published_total", &["timeout"],
        "Notices of schedule() that the broker has confirmed.";
    schedule_failures: Counter<0> = "overdue_schedule_failures_total", &[],
        "Failed attempts to read notices of schedule() or to publish them; they wait in scheduled_notices.";
    schedule_refused: Counter<0> = "overdue_scheduled_refused_total", &[],
        "Notices of schedule() that can never be published; the worker moved them to scheduled_notices_refused.";
    scheduled_waiting: Gauge<0> = "overdue_scheduled_notices", &[],
        "Notices of schedule() that wait to be published, counted up to 100,000.";
    scheduled_oldest: Gauge<0> = "overdue_scheduled_oldest_seconds", &[],
        "Age of the oldest notice that waits to be published; 0 if none waits.";
    scheduled_aside: Gauge<0> = "overdue_scheduled_refused_notices", &[],
        "Notices in scheduled_notices_refused, counted up to 100,000.";
    due_orders: Gauge<2> = "overdue_due_orders", &["effect", "closed_by"],
        "Orders that came due in the last minute and were not paid, by what closed them; the sum is all of them.";
    overdue_orders: Gauge<1> = "overdue_overdue_orders", &["effect"],
        "Open orders past their deadline, counted up to 1,000.";
    oldest_overdue: Gauge<1> = "overdue_oldest_overdue_seconds", &["effect"],
        "Time since the deadline of the oldest overdue order; 0 if there is none.";
    paused: Gauge<2> = "overdue_paused_seconds", &["timeout", "effect"],
        "Time since `overdue pause` has paused the timeout; 0 if it is not paused.";
    queue_messages: Gauge<2> = "overdue_queue_messages", &["queue", "holds"],
        "Messages in a queue of the topology; the count is up to 10 s old.";
    drift: Gauge<1> = "overdue_drift_findings", &["severity"],
        "Findings of the last comparison of the broker with the topology file, as in `overdue verify`.";
    looked_at: Gauge<1> = "overdue_looked_timestamp_seconds", &["at"],
        "Time of the last answer from database or management API, in seconds since 1970.";
    look_failures: Counter<1> = "overdue_look_failures_total", &["at"],
        "Questions to database or management API without an answer.";
    ready: Gauge<1> = "overdue_ready", &["condition"],
        "1 if this condition of /readyz holds, otherwise 0.";
    alert_messages: Counter<2> = "overdue_alert_messages_total", &["alert", "result"],
        "Attempts to send a message of an alert.";
}

/// Every metric, ordered as in `docs/metrics.md`.
pub fn described() -> Vec<About> {
    METRICS.all().into_iter().map(Metric::about).collect()
}

/// The answer of `/metrics`: the text format of Prometheus, version 0.0.4.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/>
pub(crate) fn text() -> String {
    METRICS.log_lines_lost.add([], LINES.lost());
    let families = METRICS.all().into_iter().flat_map(Metric::collect);
    // A metric without any value is left out.
    let families: Vec<_> = families.filter(|family| !family.get_metric().is_empty()).collect();
    TextEncoder::new().encode_to_string(&families).unwrap_or_default()
}

/// Name, kind, labels and help text of a metric.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name ends with the unit: seconds or a count.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The help text of `/metrics`.
    pub help: &'static str,
}

/// A metric of any kind.
pub(super) trait Metric: Sync {
    fn about(&self) -> About;
    /// Current values.
    fn collect(&self) -> Vec<MetricFamily>;
}

/// A metric with a value for each combination of the values of its `N` labels.
pub(super) struct Labelled<V, const N: usize> {
    about: About,
    /// `None` if Prometheus refuses the name or a label.
    values: Option<V>,
}

/// A number that only grows.
pub(super) type Counter<const N: usize> = Labelled<IntCounterVec, N>;
/// The last measured value.
pub(super) type Gauge<const N: usize> = Labelled<GaugeVec, N>;
/// Counts of observations up to each bound.
pub(super) type Histogram<const N: usize> = Labelled<HistogramVec, N>;

/// The differences between counter, gauge and histogram.
pub(super) trait Kind: Collector + Sized {
    const NAME: &'static str;

    /// `bounds` are for histograms only.
    fn make(options: Opts, labels: &[&str], bounds: Option<&[f64]>) -> prometheus::Result<Self>;
}

impl Kind for IntCounterVec {
    const NAME: &'static str = "counter";

    fn make(options: Opts, labels: &[&str], _: Option<&[f64]>) -> prometheus::Result<Self> {
        Self::new(options, labels)
    }
}

impl Kind for GaugeVec {
    const NAME: &'static str = "gauge";

    fn make(options: Opts, labels: &[&str], _: Option<&[f64]>) -> prometheus::Result<Self> {
        Self::new(options, labels)
    }
}

impl Kind for HistogramVec {
    const NAME: &'static str = "histogram";

    fn make(options: Opts, labels: &[&str], bounds: Option<&[f64]>) -> prometheus::Result<Self> {
        let buckets = bounds.unwrap_or_default().to_vec();
        Self::new(HistogramOpts::from(options).buckets(buckets), labels)
    }
}

impl<V: Kind, const N: usize> Labelled<V, N> {
    fn new(
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
        bounds: Option<&[f64]>,
    ) -> Self {
        let values = V::make(Opts::new(name, help), labels, bounds).ok();
        Self { about: About { name, kind: V::NAME, labels, help }, values }
    }

    /// Values of a counter or gauge, with the values of their labels in the order of declaration.
    pub(super) fn read(&self) -> Vec<(Vec<String>, f64)> {
        let label = |series: &Series, name: &&str| {
            let pair = series.get_label().iter().find(|pair| pair.name() == *name);
            pair.map(|pair| pair.value().to_owned()).unwrap_or_default()
        };
        let labels =
            |series: &Series| self.about.labels.iter().map(|it| label(series, it)).collect();
        // A series is a gauge or a counter; the other value is 0.
        let value =
            |series: &Series| series.get_gauge().get_value() + series.get_counter().get_value();
        let families = Metric::collect(self);
        let series = families.iter().flat_map(MetricFamily::get_metric);
        series.map(|series| (labels(series), value(series))).collect()
    }

    /// Values of the counters or gauges whose labels match.
    pub(super) fn values_of(&self, is: impl Fn(&[String]) -> bool) -> Vec<f64> {
        let rows = self.read().into_iter().filter(|(labels, _)| is(labels));
        rows.map(|(_, value)| value).collect()
    }
}

impl<V: Kind, const N: usize> Metric for Labelled<V, N> {
    fn about(&self) -> About {
        self.about
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.values.as_ref().map(Collector::collect).unwrap_or_default()
    }
}

impl<const N: usize> Counter<N> {
    pub(super) fn add(&self, labels: [&str; N], by: usize) {
        if let Some(values) = &self.values {
            values.with_label_values(&labels).inc_by(u64::try_from(by).unwrap_or(u64::MAX));
        }
    }
}

impl<const N: usize> Gauge<N> {
    pub(super) fn set(&self, labels: [&str; N], value: f64) {
        self.know(labels, Some(value));
    }

    /// Sets the value, or removes it if it is unknown.
    pub(super) fn know(&self, labels: [&str; N], value: Option<f64>) {
        match (&self.values, value) {
            (Some(values), Some(value)) => values.with_label_values(&labels).set(value),
            // The value may never have been set.
            (Some(values), None) => _ = values.remove_label_values(&labels),
            (None, _) => {}
        }
    }

    /// Sets these rows and removes all others.
    pub(super) fn replace(&self, rows: &[([&str; N], f64)]) {
        for (labels, value) in rows {
            self.set(*labels, *value);
        }
        for (labels, _) in self.read() {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            if let Ok(labels) = <[&str; N]>::try_from(labels)
                && !rows.iter().any(|(row, _)| *row == labels)
            {
                self.know(labels, None);
            }
        }
    }
}

impl<const N: usize> Histogram<N> {
    /// Observes several values, and looks the labels up once.
    pub(super) fn observe(&self, labels: [&str; N], values: impl IntoIterator<Item = f64>) {
        if let Some(histograms) = &self.values {
            let histogram = histograms.with_label_values(&labels);
            values.into_iter().for_each(|value| histogram.observe(value));
        }
    }
}

/// A count as the value of a gauge.
pub(super) fn number(count: impl TryInto<u32>) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}
