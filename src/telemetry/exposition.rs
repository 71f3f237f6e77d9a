//! The text that Prometheus reads.

use prometheus::TextEncoder;

use super::{lines::LINES, metric::Metric, metrics::METRICS};

/// What `/metrics` answers: the text format of Prometheus, version 0.0.4.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/>
pub(crate) fn text() -> String {
    METRICS.log_lines_lost.add([], LINES.lost());
    let families = METRICS.all().into_iter().flat_map(Metric::collect);
    // One without any value has nothing to show.
    let families: Vec<_> = families.filter(|family| !family.get_metric().is_empty()).collect();
    TextEncoder::new().encode_to_string(&families).unwrap_or_default()
}
