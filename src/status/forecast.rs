//! Forecast of the next hours: due orders, and the lateness of the largest bursts.

use std::collections::BTreeMap;

use serde::Serialize;

/// The assumed rate in orders per second, if fewer orders were due: half of a worker's rate on two cores that it shares with the
/// broker.
const ASSUMED_PER_S: u32 = 1_000;
/// Limit of the reported bursts.
const MOST_BURSTS: usize = 5;
/// Buckets of the last hour, a minute each.
const MINUTES: usize = 60;

/// The rate at which orders are closed when many are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClosingRate {
    /// Orders per second.
    pub per_s: f64,
    /// Whether the rate was measured in the last hour; otherwise it is assumed, because fewer orders were due.
    pub measured: bool,
}

/// Closings of the last hour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastHour {
    /// Orders of all paths: message, burst and sweep.
    pub all: Lateness,
    /// Orders of each path that closed some.
    pub by_path: BTreeMap<String, Lateness>,
    /// Orders closed in each minute, the oldest first.
    pub minutes: Vec<u64>,
    /// The rate of closing.
    pub rate: ClosingRate,
}

/// Time from the deadline to the closing, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Number of orders.
    pub orders: u64,
    /// The median.
    pub p50_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The maximum.
    pub max_s: f64,
}

/// Orders that come due.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DueSoon {
    /// Hours that the forecast covers.
    pub hours: u32,
    /// Orders whose deadline has passed.
    pub overdue: u64,
    /// Width of a bucket, in seconds.
    pub bucket_s: u64,
    /// Orders that come due in each bucket.
    pub buckets: Vec<u64>,
    /// Whether there are more orders than were counted: the last buckets are then too low.
    pub more: bool,
    /// The largest bursts, largest first.
    pub bursts: Vec<Burst>,
}

/// Orders that come due together: while the first are being closed, the next come due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Burst {
    /// Start, in seconds from now.
    pub in_s: u64,
    /// Time from the first deadline to the last, in seconds.
    pub lasts_s: u64,
    /// Number of orders.
    pub orders: u64,
    /// The highest lateness that the rate predicts, in seconds.
    pub late_s: f64,
}

impl ClosingRate {
    /// `late` is the highest number of orders closed in a second with late orders, where all capacity was in use. `best` is the
    /// highest of any second.
    pub fn of(late: u64, best: u64) -> Self {
        let assumed = u64::from(ASSUMED_PER_S);
        let seen = if late > 0 { late } else { best };
        let measured = late > 0 || best >= assumed;
        let per_s = if measured { seen.max(1) } else { assumed };
        Self { per_s: f64_of(per_s), measured }
    }
}

impl LastHour {
    /// `minutes` are pairs of whole minutes ago and closed orders.
    pub fn new(
        all: Lateness,
        by_path: BTreeMap<String, Lateness>,
        minutes: impl IntoIterator<Item = (usize, u64)>,
        rate: ClosingRate,
    ) -> Self {
        let mut of_minutes = vec![0; MINUTES];
        for (ago, orders) in minutes {
            of_minutes[MINUTES - 1 - ago.min(MINUTES - 1)] += orders;
        }
        Self { all, by_path, minutes: of_minutes, rate }
    }
}

impl DueSoon {
    /// `seconds` maps seconds from now to the orders that come due in them; overdue orders are at -1.
    pub fn new(hours: u32, seconds: &BTreeMap<i64, u64>, more: bool, rate: ClosingRate) -> Self {
        let width_s = match hours {
            0..=1 => 60,
            2..=6 => 300,
            7..=24 => 900,
            _ => 3_600,
        };
        let count = u64::from(hours) * 3_600 / width_s;
        let mut buckets = vec![0; usize::try_from(count).unwrap_or(0).max(1)];
        let last = buckets.len() - 1;
        let mut overdue = 0;
        for (second, orders) in seconds {
            match u64::try_from(*second) {
                Err(_) => overdue += orders,
                Ok(second) => {
                    let bucket = usize::try_from(second / width_s).unwrap_or(usize::MAX);
                    buckets[bucket.min(last)] += orders;
                }
            }
        }
        let bursts = bursts(seconds, rate.per_s);
        Self { hours, overdue, bucket_s: width_s, buckets, more, bursts }
    }
}

/// The largest bursts. All orders of a second count as due at its start, so at this rate no order is closed later than predicted.
fn bursts(seconds: &BTreeMap<i64, u64>, per_s: f64) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    let (mut backlog, mut at) = (0.0_f64, 0);
    for (second, orders) in seconds {
        let second = u64::try_from(*second).unwrap_or(0);
        backlog = per_s.mul_add(-f64_of(second - at), backlog).max(0.0);
        at = second;
        let is_new = backlog <= 0.0;
        backlog += f64_of(*orders);
        let late_s = backlog / per_s;
        match bursts.last_mut().filter(|_| !is_new) {
            Some(burst) => {
                burst.orders += orders;
                burst.lasts_s = second - burst.in_s + 1;
                burst.late_s = burst.late_s.max(late_s);
            }
            None => bursts.push(Burst { in_s: second, lasts_s: 1, orders: *orders, late_s }),
        }
    }
    bursts.sort_by(|one, other| other.orders.cmp(&one.orders).then(one.in_s.cmp(&other.in_s)));
    bursts.truncate(MOST_BURSTS);
    bursts
}

/// A count as a floating-point number, exact below 2^32, and the largest one above.
pub(super) fn f64_of(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}
