//! What the next hours bring, and how late the largest bursts in them will be closed.

use std::collections::BTreeMap;

use serde::Serialize;

/// Orders per second that are assumed where fewer were to be closed: half of what a worker does on two cores beside the broker.
const ASSUMED_PER_S: u32 = 1_000;
/// Bursts that are told.
const MOST_BURSTS: usize = 5;
/// Minutes of the last hour.
const MINUTES: usize = 60;

/// How fast orders are closed when many are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClosingRate {
    /// Orders per second.
    pub per_s: f64,
    /// Whether that was seen in the last hour; otherwise it is assumed, since fewer orders were due.
    pub measured: bool,
}

/// What was closed in the last hour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastHour {
    /// Orders by message, burst and sweep together.
    pub all: Lateness,
    /// By each path that closed some.
    pub by_path: BTreeMap<String, Lateness>,
    /// Orders closed in each minute, the oldest first.
    pub minutes: Vec<u64>,
    /// What could be closed per second.
    pub rate: ClosingRate,
}

/// From the deadline to the closing, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Orders.
    pub orders: u64,
    /// Half of them were late by at most so much.
    pub p50_s: f64,
    /// 99 of 100 were.
    pub p99_s: f64,
    /// All of them were.
    pub max_s: f64,
}

/// Orders that come due.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DueSoon {
    /// How far is looked ahead.
    pub hours: u32,
    /// Past their deadline already.
    pub overdue: u64,
    /// Seconds of a bucket.
    pub bucket_s: u64,
    /// How many come due in each bucket.
    pub buckets: Vec<u64>,
    /// Whether there are more than were counted: then the last buckets have too few.
    pub more: bool,
    /// The largest, largest first.
    pub bursts: Vec<Burst>,
}

/// Orders that come due together: while some of them are being closed, the next ones are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Burst {
    /// When it begins, in seconds from now.
    pub in_s: u64,
    /// From its first deadline to its last, in seconds.
    pub lasts_s: u64,
    /// Orders.
    pub orders: u64,
    /// How late the last of them is closed at the most, as the rate predicts.
    pub late_s: f64,
}

impl ClosingRate {
    /// `late` is the most that were closed in one second in which orders were late, so no more could be; `best` the most in any.
    pub fn of(late: u64, best: u64) -> Self {
        let assumed = u64::from(ASSUMED_PER_S);
        let seen = if late > 0 { late } else { best };
        let measured = late > 0 || best >= assumed;
        let per_s = if measured { seen.max(1) } else { assumed };
        Self { per_s: f64_of(per_s), measured }
    }
}

impl LastHour {
    /// `minutes` are whole minutes ago, and how many were closed then.
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
    /// `seconds` are those from now in which orders come due, with how many; what is overdue is at -1.
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

/// The largest bursts. Orders of one second are taken to be due at its beginning, so none is closed later than is said, at this
/// rate.
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

/// Exact far beyond any number of orders.
pub(super) fn f64_of(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}
