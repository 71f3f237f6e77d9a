//! What a run says at its end: numbers with their unit in the name, a table for people, JSON for programs.

mod table;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    check::{self, Broken},
    drill::BOUNDARY,
    evidence::Evidence,
    script::{Expected, Script},
};
use crate::store::orders::Path;

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;

/// What became of the rows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rows {
    /// Taken away.
    Removed,
    /// Left, as asked.
    Kept,
    /// Left, because messages of the run may still be on their way.
    Needed,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them are at most so long, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 are at most so long, in milliseconds.
    pub p99_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
}

/// Which clock says when a closure was final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinalClock {
    /// The server's time of the commit.
    Commit,
    /// The time the row was written, shortly before its commit.
    Written,
}

/// Orders whose payment came so close to the deadline that a few milliseconds decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Boundary {
    /// So close to the deadline, on either side.
    pub within_ms: u64,
    /// All of them.
    pub orders: usize,
    /// Those that are paid.
    pub paid: usize,
    /// Those that are closed.
    pub closed: usize,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it, with their unit")]
pub struct Report {
    pub schema: u32,
    pub run: String,
    pub after_ms: u64,
    pub orders: usize,
    pub paid: usize,
    pub closed: usize,
    pub closed_by_message: usize,
    pub closed_by_sweep: usize,
    pub payments_sent: usize,
    pub payments_refused: usize,
    /// Of what was sent: how long after its time.
    pub payments_late: Option<Spread>,
    pub still_unpaid: usize,
    /// From the deadline to the committed closure.
    pub lateness: Option<Spread>,
    pub lateness_until: FinalClock,
    pub parked: usize,
    /// By the worker of this process, of any run.
    pub put_back: Option<u64>,
    pub skus: usize,
    pub boundary: Option<Boundary>,
    pub created_per_s: f64,
    pub run_time_s: f64,
    pub interrupted: bool,
    pub finished: bool,
    pub rows: Rows,
    pub broken: Vec<Broken>,
}

impl Report {
    /// Checks the evidence and adds it up.
    #[must_use]
    pub fn new(script: &Script, evidence: &Evidence, rows: Rows) -> Self {
        let with = |status: &'static str| {
            evidence.orders.iter().filter(move |order| order.status == status)
        };
        let by = |path: Path| {
            let path = path.as_str();
            with("closed").filter(move |order| order.path.as_deref() == Some(path)).count()
        };
        let lateness = with("closed").filter_map(|order| {
            Duration::try_from(order.final_at?.duration_since(order.due_at)).ok()
        });
        let refused = evidence.payments.iter().filter(|payment| !payment.taken);
        Self {
            schema: SCHEMA,
            run: script.run.to_string(),
            after_ms: script.after.as_millis(),
            orders: evidence.created,
            paid: with("paid").count(),
            closed: with("closed").count(),
            closed_by_message: by(Path::Message),
            closed_by_sweep: by(Path::Sweep),
            payments_sent: evidence.payments.len(),
            payments_refused: refused.count(),
            payments_late: spread(evidence.payments.iter().map(|payment| payment.late)),
            still_unpaid: with("unpaid").count(),
            lateness: spread(lateness),
            lateness_until: if evidence.commit_times {
                FinalClock::Commit
            } else {
                FinalClock::Written
            },
            parked: evidence.parked.len(),
            put_back: evidence.put_back,
            skus: evidence.shelves.len(),
            boundary: boundary(script, evidence),
            created_per_s: per_second(evidence.created, evidence.timing.creating),
            run_time_s: rounded(evidence.timing.running.as_secs_f64(), 100.0),
            interrupted: evidence.interrupted,
            finished: evidence.ending.finished,
            rows,
            broken: check::broken(script, evidence),
        }
    }

    fn stock_is_right(&self) -> bool {
        !self.broken.iter().any(|broken| broken.invariant == check::STOCK)
    }
}

/// Orders per second, rounded to whole ones; 0 where no time has passed.
#[must_use]
pub fn per_second(orders: usize, took: Duration) -> f64 {
    // Exact far beyond any number of orders.
    let orders = u32::try_from(orders).map_or(f64::MAX, f64::from);
    if took.is_zero() { 0.0 } else { (orders / took.as_secs_f64()).round() }
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// `None` of nothing. Exact to three digits, up to an hour.
pub(crate) fn spread(times: impl Iterator<Item = Duration>) -> Option<Spread> {
    let mut histogram = Histogram::<u64>::new_with_max(3_600_000_000, 3).ok()?;
    for time in times {
        histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
    let ms = |micros: u64| rounded(Duration::from_micros(micros).as_secs_f64() * 1_000.0, 10.0);
    (!histogram.is_empty()).then(|| Spread {
        p50_ms: ms(histogram.value_at_quantile(0.5)),
        p99_ms: ms(histogram.value_at_quantile(0.99)),
        max_ms: ms(histogram.max()),
    })
}

/// `None` where the script expects nothing of any order.
fn boundary(script: &Script, evidence: &Evidence) -> Option<Boundary> {
    script.orders.iter().find(|order| order.expected != Expected::Either)?;
    let ids = check::expectations(script, Expected::Boundary);
    let those = || evidence.orders.iter().filter(|order| ids.contains(order.id.as_str()));
    let with = |status: &str| those().filter(|order| order.status == status).count();
    Some(Boundary {
        within_ms: script.after.as_millis() / u64::from(BOUNDARY),
        orders: those().count(),
        paid: with("paid"),
        closed: with("closed"),
    })
}
