//! The result of `overdue bench burst`: a line for each contestant.

use std::fmt;

use serde::Serialize;

use super::{measured::Measured, size::BurstSize};
use crate::{
    bench::{
        contestant::Contestant,
        load::{PathCount, server::Server},
        plot::{Bar, Plot},
        spread::Spread,
        usage::{Cpu, stolen},
    },
    statistics::per_second,
};

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;
/// What was to be reached: our time : that of others, at the most.
const EXPECTED: [(Contestant, f64); 2] = [(Contestant::Poller, 1.0), (Contestant::PlainSql, 1.5)];
/// Several of our workers share a burst: their time : that of one, at the most.
const EXPECTED_OF_SEVERAL: f64 = 1.0;

/// What one contestant needed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BurstLine {
    /// As it is shown.
    pub contestant: String,
    /// Orders due at one instant; of the tutorial a sample.
    pub orders: usize,
    /// From the due instant to the last commit, in seconds; for the broker alone, to the last delivery.
    pub took_s: Spread,
    /// Half of the orders were at most so late, in milliseconds.
    pub late_p50_ms: Spread,
    /// 99 of 100 were at most so late, in milliseconds.
    pub late_p99_ms: Spread,
    /// CPU seconds of what closes the orders; none where they are not counted.
    pub worker_cpu_s: Option<Spread>,
    /// CPU seconds of PostgreSQL.
    pub database_cpu_s: Option<Spread>,
    /// CPU seconds of RabbitMQ, since everything was published.
    pub broker_cpu_s: Option<Spread>,
    /// What the host took of the machine's CPU meanwhile, in percent; more than a few make the line worthless.
    pub stolen_percent: Option<Spread>,
    /// Peak resident memory in MiB; 0 for what is a part of the benchmark's process.
    pub memory_mib: Spread,
    /// The ways in which the orders of the last round were closed.
    pub paths: Vec<PathCount>,
    #[serde(skip)]
    of: Contestant,
    #[serde(skip)]
    rounds: Vec<Measured>,
}

/// How our time compares with another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BurstRatio {
    /// Whose time is divided.
    pub contestant: String,
    /// By whose.
    pub other: String,
    /// Medians, in hundredths.
    pub ratio: f64,
    /// What was to be reached, at the most.
    pub expected: f64,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BurstReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// Orders due at one instant.
    pub orders: usize,
    /// Rounds of each contestant.
    pub rounds: usize,
    /// What the figures depend on.
    pub server: Server,
    /// Whose CPU time is not counted.
    pub not_counted: Vec<&'static str>,
    /// A line for each contestant.
    pub lines: Vec<BurstLine>,
    /// How our time compares.
    pub ratios: Vec<BurstRatio>,
    /// What is wrong: orders closed early, more than once or not at all, stock that is not right.
    pub broken: Vec<String>,
}

impl BurstReport {
    /// Nothing is measured yet.
    #[must_use]
    pub(crate) fn new(
        size: BurstSize,
        server: &Server,
        not_counted: Vec<&'static str>,
        contestants: &[Contestant],
    ) -> Self {
        Self {
            schema: SCHEMA,
            orders: size.orders,
            rounds: size.rounds,
            server: server.clone(),
            not_counted,
            lines: contestants.iter().map(BurstLine::new).collect(),
            ratios: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// A round was measured.
    pub(crate) fn add(&mut self, number: usize, contestant: &Contestant, measured: Measured) {
        let broken = measured.broken.iter();
        self.broken.extend(broken.map(|broken| format!("round {number}, {contestant}: {broken}")));
        if let Some(line) = self.lines.iter_mut().find(|line| line.of == *contestant) {
            line.add(measured);
        }
        self.ratios = self.ratios();
    }

    /// The times as a picture.
    #[must_use]
    pub(crate) fn plot(&self) -> Plot {
        let bar = |line: &BurstLine| Bar {
            label: line.contestant.clone(),
            number: line.per_second(),
            ours: matches!(line.of, Contestant::Worker { .. }),
        };
        Plot {
            title: format!("{} orders due at one instant", self.orders),
            axis: format!(
                "orders per second, from the instant to the last commit; median of {} rounds",
                self.rounds
            ),
            bars: self.lines.iter().map(bar).collect(),
        }
    }

    fn ratios(&self) -> Vec<BurstRatio> {
        let ours = self.lines.iter().filter(|line| line.of.is_usual_worker());
        let with_others = ours.flat_map(|ours| {
            EXPECTED.iter().filter_map(move |(other, expected)| {
                let other = self.lines.iter().find(|line| line.of == *other)?;
                Some(ours.compared_with(other, *expected))
            })
        });
        with_others.chain(self.several_with_one()).collect()
    }

    fn several_with_one(&self) -> impl Iterator<Item = BurstRatio> {
        let several = self.lines.iter().filter(|line| line.of.processes() > 1);
        several.filter_map(|several| {
            let one =
                self.lines.iter().find(|line| several.of.usual().as_ref() == Some(&line.of))?;
            Some(several.compared_with(one, EXPECTED_OF_SEVERAL))
        })
    }
}

impl BurstLine {
    fn new(of: &Contestant) -> Self {
        Self {
            contestant: of.to_string(),
            orders: 0,
            took_s: Spread::default(),
            late_p50_ms: Spread::default(),
            late_p99_ms: Spread::default(),
            worker_cpu_s: None,
            database_cpu_s: None,
            broker_cpu_s: None,
            stolen_percent: None,
            memory_mib: Spread::default(),
            paths: Vec::new(),
            of: of.clone(),
            rounds: Vec::new(),
        }
    }

    fn add(&mut self, measured: Measured) {
        self.orders = measured.orders;
        self.paths.clone_from(&measured.paths);
        self.rounds.push(measured);
        let rounds = std::mem::take(&mut self.rounds);
        let of = |number: fn(&Measured) -> f64| Spread::of(rounds.iter().map(number));
        let counted = |number: fn(&Cpu) -> Option<f64>| {
            Spread::of_counted(rounds.iter().map(|round| number(&round.cpu)))
        };
        self.took_s = of(|round| round.late.max_ms / 1_000.0);
        self.late_p50_ms = of(|round| round.late.p50_ms);
        self.late_p99_ms = of(|round| round.late.p99_ms);
        self.worker_cpu_s = counted(|cpu| cpu.worker_s);
        self.database_cpu_s = counted(|cpu| cpu.database_s);
        self.broker_cpu_s = counted(|cpu| cpu.broker_s);
        self.stolen_percent = counted(|cpu| cpu.stolen_percent);
        self.memory_mib = of(|round| round.memory.peak_mib());
        self.rounds = rounds;
    }
}

impl fmt::Display for BurstReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} orders of 2 items, 10,000 SKUs by Zipf, due at one instant: median of {} rounds (least to most)\n{}; {}\n",
            self.orders,
            self.rounds,
            self.server,
            self.server.lateness()
        )?;
        writeln!(
            f,
            "{:26} {:>24} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
            "",
            "to the last commit, s",
            "p50, ms",
            "p99, ms",
            "worker",
            "database",
            "broker",
            "stolen",
            "RSS"
        )?;
        for line in &self.lines {
            let cpu =
                |cpu: &Option<Spread>| cpu.map_or("-".to_owned(), |it| format!("{:.2}", it.median));
            let Spread { median, least, most } = line.took_s;
            writeln!(
                f,
                "{:26} {:>24} {:>8.0} {:>8.0} {:>8} {:>8} {:>8} {:>7} {:>7.1}{}",
                line.contestant,
                format!("{median:.2} ({least:.2} to {most:.2})"),
                line.late_p50_ms.median,
                line.late_p99_ms.median,
                cpu(&line.worker_cpu_s),
                cpu(&line.database_cpu_s),
                cpu(&line.broker_cpu_s),
                stolen(line.stolen_percent),
                line.memory_mib.median,
                line.note(self.orders)
            )?;
        }
        writeln!(
            f,
            "worker, database, broker: CPU seconds; stolen: % of the CPU that the host gave to others; RSS: the worker's peak, in MiB"
        )?;
        for name in &self.not_counted {
            writeln!(
                f,
                "CPU of the {name}: not counted, it runs in no container that can be seen from here"
            )?;
        }
        for BurstRatio { contestant, other, ratio, expected } in &self.ratios {
            writeln!(f, "{contestant} : {other} = {ratio:.2} (expected: at most {expected})")?;
        }
        for broken in &self.broken {
            writeln!(f, "BROKEN: {broken}")?;
        }
        if self.broken.is_empty() {
            writeln!(f, "every order was closed once, none early, and all stock is right")?;
        }
        Ok(())
    }
}

impl BurstLine {
    fn compared_with(&self, other: &Self, expected: f64) -> BurstRatio {
        BurstRatio {
            contestant: self.contestant.clone(),
            other: other.contestant.clone(),
            ratio: self.took_s.ratio_to(other.took_s),
            expected,
        }
    }

    /// Orders per second, also where only a sample was closed.
    fn per_second(&self) -> Spread {
        let rates = self.rounds.iter().map(|round| {
            let took = std::time::Duration::from_secs_f64(round.late.max_ms.max(0.0) / 1_000.0);
            per_second(round.orders, took)
        });
        Spread::of(rates)
    }

    fn note(&self, orders: usize) -> String {
        let mut notes = Vec::new();
        if self.orders < orders {
            notes.push(format!("a sample of {}", self.orders));
        }
        if self.paths.len() > 1 {
            let paths = self.paths.iter().map(|path| format!("{} by {}", path.orders, path.path));
            notes.extend(paths);
        }
        if notes.is_empty() { String::new() } else { format!("  {}", notes.join(", ")) }
    }
}
