//! The result of a run: numbers with their unit in the name, a table for people, JSON for programs.

mod table;

use std::time::Duration;

use serde::Serialize;

use super::{
    check,
    evidence::Evidence,
    script::{Expected, Script},
};
use crate::{
    order_service::invariants::{self, Broken},
    statistics::{Percentiles, per_second, seconds},
    store::orders::ClosingPath,
};

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;

/// What became of the rows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rows {
    /// No row is left.
    Removed,
    /// They stay, as requested.
    Kept,
    /// They stay, because messages of the run may still be on their way.
    Needed,
}

/// Which clock says when a closure was final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FinalClock {
    /// The server's time of the commit.
    Commit,
    /// The time the row was written, shortly before its commit.
    Written,
}

/// Orders whose payment came so close to the deadline that a few milliseconds decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Boundary {
    /// At most so far from the deadline, before or after it.
    pub within_ms: u64,
    /// Paid, closed or neither.
    pub orders: usize,
    /// Their payment came first.
    pub paid: usize,
    /// overdue came first.
    pub closed: usize,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it, with their unit")]
pub(crate) struct DemoReport {
    pub schema: u32,
    pub run: String,
    pub after_ms: u64,
    pub orders: usize,
    pub paid: usize,
    pub closed: usize,
    pub closed_by_message: usize,
    pub closed_ahead: usize,
    pub closed_by_sweep: usize,
    pub payments_sent: usize,
    pub payments_refused: usize,
    /// That were to come in time, and were answered after the deadline: this machine was too busy.
    pub payments_missed: usize,
    /// Of what was sent: how long after its time.
    pub payments_late: Option<Percentiles>,
    pub still_unpaid: usize,
    /// From the deadline to the committed closure.
    pub lateness: Option<Percentiles>,
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

impl DemoReport {
    /// Checks the evidence and adds it up.
    #[must_use]
    pub(crate) fn new(script: &Script, evidence: &Evidence, rows: Rows) -> Self {
        let with = |status: &'static str| {
            evidence.facts.orders.iter().filter(move |order| order.status == status)
        };
        let by = |path: ClosingPath| {
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
            closed_by_message: by(ClosingPath::Message),
            closed_ahead: by(ClosingPath::Ahead),
            closed_by_sweep: by(ClosingPath::Sweep),
            payments_sent: evidence.payments.len(),
            payments_refused: refused.count(),
            payments_missed: check::missed(script, evidence),
            payments_late: Percentiles::of(evidence.payments.iter().map(|payment| payment.late)),
            still_unpaid: with("unpaid").count(),
            lateness: Percentiles::of(lateness),
            lateness_until: if evidence.facts.commit_times {
                FinalClock::Commit
            } else {
                FinalClock::Written
            },
            parked: evidence.parked.len(),
            put_back: evidence.put_back,
            skus: evidence.facts.stock.len(),
            boundary: boundary(script, evidence),
            created_per_s: per_second(evidence.created, evidence.timing.creating),
            run_time_s: seconds(evidence.timing.running),
            interrupted: evidence.interrupted,
            finished: evidence.ending.finished,
            rows,
            broken: check::broken(script, evidence),
        }
    }

    fn stock_is_right(&self) -> bool {
        !self.broken.iter().any(|broken| broken.invariant == invariants::STOCK)
    }
}

/// `None` where the script expects nothing of any order.
fn boundary(script: &Script, evidence: &Evidence) -> Option<Boundary> {
    let within = script.boundary?;
    let ids = check::expectations(script, Expected::Boundary);
    let those = || evidence.facts.orders.iter().filter(|order| ids.contains(order.id.as_str()));
    let with = |status: &str| those().filter(|order| order.status == status).count();
    Some(Boundary {
        within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        orders: those().count(),
        paid: with("paid"),
        closed: with("closed"),
    })
}
