//! Counters, gauges and histograms: each with its name, its labels and what it counts.

use std::sync::OnceLock;

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, core::Collector,
    proto::MetricFamily,
};

/// What a metric is, as `docs/metrics.md` has it.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// With the unit at its end, seconds or a count.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts; the help text of `/metrics`.
    pub help: &'static str,
}

impl About {
    fn options(&self) -> Opts {
        Opts::new(self.name, self.help)
    }
}

/// A metric of any kind.
pub(super) trait Metric: Sync {
    fn about(&self) -> About;
    /// What it has counted until now.
    fn collect(&self) -> Vec<MetricFamily>;
}

/// Defines a kind of metric: `$vec` holds its values, one for each combination of the values of its `N` labels.
macro_rules! kind_of_metric {
    ($(#[$doc:meta])* $name:ident, $vec:ty, $kind:literal) => {
        $(#[$doc])*
        pub(super) struct $name<const N: usize> {
            about: About,
            values: OnceLock<Option<$vec>>,
        }

        impl<const N: usize> $name<N> {
            pub(super) const fn new(
                name: &'static str,
                labels: &'static [&'static str; N],
                help: &'static str,
            ) -> Self {
                let about = About { name, kind: $kind, labels, help };
                Self { about, values: OnceLock::new() }
            }
        }

        impl<const N: usize> Metric for $name<N> {
            fn about(&self) -> About {
                self.about
            }

            fn collect(&self) -> Vec<MetricFamily> {
                self.values().map(Collector::collect).unwrap_or_default()
            }
        }
    };
}

kind_of_metric!(
    /// Only grows.
    Counter,
    IntCounterVec,
    "counter"
);
kind_of_metric!(
    /// What was measured last.
    Gauge,
    GaugeVec,
    "gauge"
);

impl<const N: usize> Counter<N> {
    /// None where the name or a label is not one that Prometheus takes.
    fn values(&self) -> Option<&IntCounterVec> {
        let make = || IntCounterVec::new(self.about.options(), self.about.labels).ok();
        self.values.get_or_init(make).as_ref()
    }

    pub(super) fn add(&self, labels: [&str; N], by: usize) {
        if let Some(values) = self.values() {
            let by = u64::try_from(by).unwrap_or(u64::MAX);
            values.with_label_values(&labels).inc_by(by);
        }
    }
}

impl<const N: usize> Gauge<N> {
    fn values(&self) -> Option<&GaugeVec> {
        let make = || GaugeVec::new(self.about.options(), self.about.labels).ok();
        self.values.get_or_init(make).as_ref()
    }

    pub(super) fn set(&self, labels: [&str; N], value: f64) {
        if let Some(values) = self.values() {
            values.with_label_values(&labels).set(value);
        }
    }

    /// The value where it is known.
    pub(super) fn know(&self, labels: [&str; N], value: Option<f64>) {
        match value {
            Some(value) => self.set(labels, value),
            None => self.remove(labels),
        }
    }

    fn remove(&self, labels: [&str; N]) {
        if let Some(values) = self.values() {
            // It may never have been set.
            let _never_set = values.remove_label_values(&labels);
        }
    }

    /// These and no others: what is not among them is not known any more.
    pub(super) fn replace(&self, rows: &[([&str; N], f64)]) {
        for (labels, value) in rows {
            self.set(*labels, *value);
        }
        let is_gone = |labels: &Vec<String>| !rows.iter().any(|(row, _)| labels == row);
        for labels in self.rows().into_iter().filter(is_gone) {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            if let Ok(labels) = <[&str; N]>::try_from(labels) {
                self.remove(labels);
            }
        }
    }

    /// The values of the labels, in the order of their names' declaration.
    fn rows(&self) -> Vec<Vec<String>> {
        self.read().into_iter().map(|(labels, _)| labels).collect()
    }

    fn read(&self) -> Vec<(Vec<String>, f64)> {
        series(self, |metric| metric.get_gauge().get_value())
    }

    /// Of the series whose labels are like that.
    pub(super) fn values_of(&self, is: impl Fn(&[String]) -> bool) -> Vec<f64> {
        let rows = self.read().into_iter().filter(|(labels, _)| is(labels));
        rows.map(|(_, value)| value).collect()
    }
}

impl<const N: usize> Counter<N> {
    /// Of the series whose labels are like that.
    pub(super) fn values_of(&self, is: impl Fn(&[String]) -> bool) -> Vec<f64> {
        let rows = series(self, |metric| metric.get_counter().get_value()).into_iter();
        rows.filter(|(labels, _)| is(labels)).map(|(_, value)| value).collect()
    }
}

fn series(
    metric: &impl Metric,
    value: impl Fn(&prometheus::proto::Metric) -> f64,
) -> Vec<(Vec<String>, f64)> {
    let names = metric.about().labels;
    let label = |pairs: &[prometheus::proto::LabelPair], name: &str| {
        let pair = pairs.iter().find(|pair| pair.name() == name);
        pair.map(|pair| pair.value().to_owned()).unwrap_or_default()
    };
    let families = metric.collect();
    let metrics = families.iter().flat_map(MetricFamily::get_metric);
    metrics
        .map(|metric| {
            let labels = names.iter().map(|name| label(metric.get_label(), name));
            (labels.collect(), value(metric))
        })
        .collect()
}

/// How many observations were at most so large, for each of its bounds.
pub(super) struct Histogram<const N: usize> {
    about: About,
    bounds: &'static [f64],
    values: OnceLock<Option<HistogramVec>>,
}

impl<const N: usize> Histogram<N> {
    pub(super) const fn new(
        name: &'static str,
        labels: &'static [&'static str; N],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Self {
        let about = About { name, kind: "histogram", labels, help };
        Self { about, bounds, values: OnceLock::new() }
    }

    fn values(&self) -> Option<&HistogramVec> {
        let make = || {
            let options = HistogramOpts::from(self.about.options()).buckets(self.bounds.to_vec());
            HistogramVec::new(options, self.about.labels).ok()
        };
        self.values.get_or_init(make).as_ref()
    }

    /// Looks its labels up once for all values.
    pub(super) fn observe(&self, labels: [&str; N], values: impl IntoIterator<Item = f64>) {
        if let Some(histograms) = self.values() {
            let histogram = histograms.with_label_values(&labels);
            values.into_iter().for_each(|value| histogram.observe(value));
        }
    }
}

impl<const N: usize> Metric for Histogram<N> {
    fn about(&self) -> About {
        self.about
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.values().map(Collector::collect).unwrap_or_default()
    }
}

/// A count as a gauge has it.
pub(super) fn number(count: impl TryInto<u32>) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}
