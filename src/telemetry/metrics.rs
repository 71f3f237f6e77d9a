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
    gone: Counter<1> = "overdue_gone_total", &["timeout"],
        "Messages acked because their row was deleted: gone = \"ack\" of their timeout.";
    ignored_hints: Counter<1> = "overdue_ignored_due_at_total", &["timeout"],
        "Notices whose due_at is not a time with a zone: it is ignored, and the database decides alone.";
    copy_failures: Counter<1> = "overdue_copy_failures_total", &["timeout"],
        "Times that copies for a level or the parking lot were not confirmed; each is tried again.";
    sessions: Counter<0> = "overdue_sessions_total", &[],
        "Sessions that got their connections and consumed.";
    session_ends: Counter<1> = "overdue_session_ends_total", &["cause"],
        "Sessions that ended before a stop was asked for.";
    queue_losses: Counter<0> = "overdue_queue_losses_total", &[],
        "Times that a queue could not be consumed, or no more; each attempt counts.";
    consumed_queues: Gauge<0> = "overdue_consumed_queues", &[],
        "Queues that this worker consumes from.";
    levels_missing: Gauge<0> = "overdue_levels_missing", &[],
        "Levels of the topology file that the broker does not route to.";
    clock_leap: Gauge<0> = "overdue_database_clock_leap_seconds", &[],
        "How far the database's clock has leapt forward in the last hour: the sweep and bursts leave orders to their messages meanwhile.";
    sweep_failures: Counter<1> = "overdue_sweep_failures_total", &["effect"],
        "Sweeps, or pages of a sweep, that did not get through.";
    sweep_refused: Gauge<1> = "overdue_sweep_refused_rows", &["effect"],
        "Rows of overdue_sql whose id cannot be an order id, in the last sweep.";
    log_lines_lost: Counter<0> = "overdue_log_lines_lost_total", &[],
        "Log lines that standard error did not take in time, or refused; nothing waits for them.";
    spans_lost: Counter<0> = "overdue_spans_lost_total", &[],
        "Spans that the collector did not take in time, or refused; nothing waits for them.";
    history_deleted: Counter<0> = "overdue_history_deleted_rows_total", &[],
        "Rows of closures, dropped_messages and actions that were deleted because of their age.";
    history_failures: Counter<0> = "overdue_history_failures_total", &[],
        "Times that rows could not be deleted although they are older than they are kept.";
    relay_failures: Counter<0> = "overdue_relay_failures_total", &[],
        "Times that events could not be taken from the outbox or published; they wait there.";
    event_refusals: Counter<0> = "overdue_event_refusals_total", &[],
        "Times that an event name began to be refused, or not to be confirmed.";
    unpublishable: Counter<0> = "overdue_unpublishable_events_total", &[],
        "Events that can never be published.";
    outbox: Gauge<0> = "overdue_outbox_events", &[],
        "Events that wait in the outbox, counted up to 100,000; not those that this worker has published and cannot delete.";
    outbox_oldest: Gauge<0> = "overdue_outbox_oldest_seconds", &[],
        "Age of the oldest of these events; 0 where none waits.";
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
    paused: Gauge<2> = "overdue_paused_seconds", &["timeout", "effect"],
        "How long the timeout has been paused with `overdue pause`; 0 where it is not.";
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

/// Differences of the kinds.
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
    /// Looks the labels up once for all values.
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
