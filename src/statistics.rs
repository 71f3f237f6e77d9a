//! Numbers of many measurements: percentiles of times, and rates.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer times count as one hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Percentiles of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// Half of them are at most so long, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 are at most so long, in milliseconds.
    pub p99_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
}

impl Percentiles {
    /// `None` where there is no time. Exact to three digits.
    pub(crate) fn of(times: impl Iterator<Item = Duration>) -> Option<Self> {
        let mut histogram = Histogram::<u64>::new_with_max(LONGEST_US, 3).ok()?;
        for time in times {
            histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        }
        let ms = |micros: u64| rounded(Duration::from_micros(micros).as_secs_f64() * 1_000.0, 10.0);
        (!histogram.is_empty()).then(|| Self {
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        })
    }
}

/// A number per second, rounded to a whole one; 0 where no time has passed.
#[must_use]
pub(crate) fn per_second(number: usize, took: Duration) -> f64 {
    // Exact far beyond any number of orders.
    let number = u32::try_from(number).map_or(f64::MAX, f64::from);
    if took.is_zero() { 0.0 } else { (number / took.as_secs_f64()).round() }
}

/// Seconds, rounded to hundredths.
#[must_use]
pub(crate) fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64(), 100.0)
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
