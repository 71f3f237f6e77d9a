//! The result of `overdue bench locks`: what is late beside locks, and how that compares with no locks.

use std::fmt;

use serde::Serialize;

use super::{held::Held, round::RoundTimes, size::LocksSize};
use crate::bench::spread::Spread;

/// Beside locks nothing is to take more than so many times as long.
pub(crate) const EXPECTED_RATIO: f64 = 2.0;
/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;

/// One measured number in rounds of each kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LocksLine {
    /// What was measured, in milliseconds.
    pub what: &'static str,
    /// In rounds of each kind.
    pub measured: Vec<HeldLine>,
}

/// One measured number in rounds of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HeldLine {
    /// What was locked.
    pub held: Held,
    /// Of all rounds.
    pub ms: Spread,
    /// Its median : that without locks.
    pub ratio: f64,
}

/// A burst without locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Burst {
    /// Orders closed each time.
    pub orders: usize,
    /// As a worker closes them, in orders per second.
    pub worker: Spread,
    /// The same batches as plain SQL, in orders per second.
    pub plain_sql: Spread,
    /// As a worker : plain SQL.
    pub ratio: f64,
}

/// The result of the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LocksReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// Orders that became due per second.
    pub orders_per_s: usize,
    /// Seconds that a round took.
    pub round_s: f64,
    /// Rounds of each kind.
    pub rounds: usize,
    /// A line for each number.
    pub lines: Vec<LocksLine>,
    /// A burst without locks.
    pub burst: Burst,
    /// What is wrong: orders closed twice, early or not at all, stock that is missing.
    pub broken: Vec<String>,
    #[serde(skip)]
    times: Vec<(Held, RoundTimes)>,
}

type Number = (&'static str, fn(&RoundTimes) -> f64);

const NUMBERS: [Number; 6] = [
    ("other orders late, p50", |times| times.late.p50_ms),
    ("other orders late, p99", |times| times.late.p99_ms),
    ("payments of other orders, p50", |times| times.payments.p50_ms),
    ("payments of other orders, p99", |times| times.payments.p99_ms),
    ("payments at the deadline, p50", |times| times.payments_at_deadline.p50_ms),
    ("payments at the deadline, p99", |times| times.payments_at_deadline.p99_ms),
];

impl LocksReport {
    /// Nothing is measured yet.
    #[must_use]
    pub(super) fn new(size: &LocksSize) -> Self {
        Self {
            schema: SCHEMA,
            orders_per_s: size.rate,
            round_s: size.round.as_secs_f64(),
            rounds: size.rounds,
            lines: Vec::new(),
            burst: Burst::default(),
            broken: Vec::new(),
            times: Vec::new(),
        }
    }

    /// A round was measured.
    pub(super) fn add(&mut self, held: Held, times: RoundTimes) {
        self.times.push((held, times));
        self.lines = NUMBERS.iter().map(|number| self.line(number)).collect();
    }

    fn line(&self, (what, number): &Number) -> LocksLine {
        let spread = |held: Held| {
            let rounds = self.times.iter().filter(|(of, _)| *of == held);
            Spread::of(rounds.map(|(_, times)| number(times)))
        };
        let usual = spread(Held::Nothing);
        let of = |held: Held| {
            let ms = spread(held);
            HeldLine { held, ms, ratio: ms.ratio_to(usual) }
        };
        LocksLine { what, measured: Held::ALL.map(of).into() }
    }
}

impl fmt::Display for LocksReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} orders become due per second, in rounds of {} s: median of {} rounds (least to most), in ms",
            self.orders_per_s, self.round_s, self.rounds
        )?;
        write!(f, "{:<30}", "")?;
        for held in Held::ALL {
            write!(f, "  {:<28}", held.describe())?;
        }
        writeln!(f)?;
        for line in &self.lines {
            write!(f, "{:<30}", line.what)?;
            for HeldLine { held, ms, ratio } in &line.measured {
                let ratio =
                    if *held == Held::Nothing { String::new() } else { format!(" x {ratio:.2}") };
                write!(f, "  {:<28}", format!("{ms}{ratio}"))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "expected of orders beside locked orders: at most x {EXPECTED_RATIO}")?;
        let Burst { orders, worker, plain_sql, ratio } = &self.burst;
        writeln!(
            f,
            "a burst of {orders} without locks: worker {:.0}/s, plain SQL {:.0}/s, worker : plain SQL = {ratio:.2}",
            worker.median, plain_sql.median
        )?;
        for broken in &self.broken {
            writeln!(f, "BROKEN: {broken}")?;
        }
        if self.broken.is_empty() {
            writeln!(
                f,
                "every order was closed exactly once or paid, none early, and all stock is accounted for"
            )?;
        }
        Ok(())
    }
}
