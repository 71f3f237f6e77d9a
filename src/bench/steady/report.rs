//! The result of `overdue bench steady`: a line for each rate and contestant.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::{idle::Idle, measured::SteadyMeasured, size::SteadySize};
use crate::{
    bench::{
        contestant::Contestant,
        load::{PathCount, server::Server},
        plot::{Bar, Plot},
        spread::Spread,
        stage::{Delays, Stage},
        usage::{Cpu, stolen},
    },
    statistics::Percentiles,
};

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;
/// What was to be reached: CPU with events : without, at the most.
const EVENTS_AT_MOST: f64 = 1.2;

/// What one contestant needed at one rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SteadyLine {
    /// Orders that became due per second.
    pub rate: u32,
    /// As it is shown.
    pub contestant: String,
    /// Orders of a round.
    pub orders: usize,
    /// Half of the orders were at most so late, in milliseconds.
    pub late_p50_ms: Spread,
    /// 99 of 100 were at most so late, in milliseconds.
    pub late_p99_ms: Spread,
    /// The latest, in milliseconds.
    pub late_max_ms: Spread,
    /// Seconds that the CPU times are of.
    pub elapsed_s: Spread,
    /// CPU seconds of what closes the orders; none where they are not counted.
    pub worker_cpu_s: Option<Spread>,
    /// CPU seconds of PostgreSQL.
    pub database_cpu_s: Option<Spread>,
    /// CPU seconds of RabbitMQ, publishing included.
    pub broker_cpu_s: Option<Spread>,
    /// What the host took of the machine's CPU meanwhile, in percent; more than a few make the line worthless.
    pub stolen_percent: Option<Spread>,
    /// Peak resident memory in MiB.
    pub memory_mib: Spread,
    /// How late the latest notice was published, in milliseconds.
    pub published_late_ms: Spread,
    /// The ways in which the orders of the last round were closed.
    pub paths: Vec<PathCount>,
    #[serde(skip)]
    of: Contestant,
    #[serde(skip)]
    rounds: Vec<SteadyMeasured>,
}

/// What events cost at a rate: with them : without them, by the medians, in hundredths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EventsCost {
    /// Orders that became due per second.
    pub rate: u32,
    /// With events.
    pub contestant: String,
    /// CPU of the worker; none where it is not counted.
    pub worker: Option<f64>,
    /// CPU of PostgreSQL; none where it is not counted.
    pub database: Option<f64>,
    /// What was to be reached, at the most.
    pub expected: f64,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SteadyReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// At each rate, in seconds; shorter at high rates.
    pub seconds: u32,
    /// Rounds of each contestant.
    pub rounds: usize,
    /// Whether each notice waits for another time.
    pub random_delays: bool,
    /// What the figures depend on.
    pub server: Server,
    /// Whose CPU time is not counted.
    pub not_counted: Vec<&'static str>,
    /// One committed statement on the idle database.
    pub floor: Percentiles,
    /// A line for each rate and contestant.
    pub lines: Vec<SteadyLine>,
    /// What events cost, where a worker was measured without them, too.
    pub events: Vec<EventsCost>,
    /// Workers without work.
    pub idle: Vec<Idle>,
    /// What is wrong: orders closed early, more than once or not at all, stock that is not right.
    pub broken: Vec<String>,
}

impl SteadyReport {
    /// Nothing is measured yet.
    #[must_use]
    pub(super) fn new(size: &SteadySize, server: &Server, stage: &Stage) -> Self {
        Self {
            schema: SCHEMA,
            seconds: size.seconds,
            rounds: size.rounds,
            random_delays: stage.delays == Delays::Random,
            server: server.clone(),
            not_counted: stage.meters.not_counted(),
            floor: Percentiles::default(),
            lines: Vec::new(),
            events: Vec::new(),
            idle: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// A round was measured.
    pub(super) fn add(&mut self, rate: u32, contestant: &Contestant, measured: SteadyMeasured) {
        let broken = measured.broken.iter();
        self.broken.extend(broken.map(|broken| format!("{rate}/s, {contestant}: {broken}")));
        let name = contestant.to_string();
        let place = self.lines.iter().position(|line| line.rate == rate && line.contestant == name);
        let place = place.unwrap_or_else(|| {
            self.lines.push(SteadyLine::new(rate, contestant));
            self.lines.len() - 1
        });
        self.lines[place].add(measured);
        self.events = self.events();
    }

    fn events(&self) -> Vec<EventsCost> {
        let without = self.lines.iter().filter(|line| line.of.is_without_events());
        let costs = without.filter_map(|without| {
            let is_with = |line: &&SteadyLine| {
                line.rate == without.rate && without.of.usual().as_ref() == Some(&line.of)
            };
            Some(self.lines.iter().find(is_with)?.events_cost(without))
        });
        costs.collect()
    }

    /// Lateness as a picture.
    #[must_use]
    pub(crate) fn plot(&self) -> Plot {
        let bars = |line: &SteadyLine| {
            let bar = |name: &str, number: Spread| Bar {
                label: format!("{}/s, {}, {name}", line.rate, line.contestant),
                number,
                ours: matches!(line.of, Contestant::Worker { .. }),
            };
            [bar("p50", line.late_p50_ms), bar("p99", line.late_p99_ms)]
        };
        Plot {
            title: "How late orders are closed that become due one after the other".to_owned(),
            axis: format!(
                "milliseconds from the deadline to the commit; one committed statement: {:.1}",
                self.floor.p50_ms
            ),
            bars: self.lines.iter().flat_map(bars).collect(),
        }
    }
}

impl SteadyLine {
    fn new(rate: u32, contestant: &Contestant) -> Self {
        let none = Spread::default();
        Self {
            rate,
            contestant: contestant.to_string(),
            orders: 0,
            late_p50_ms: none,
            late_p99_ms: none,
            late_max_ms: none,
            elapsed_s: none,
            worker_cpu_s: None,
            database_cpu_s: None,
            broker_cpu_s: None,
            stolen_percent: None,
            memory_mib: none,
            published_late_ms: none,
            paths: Vec::new(),
            of: contestant.clone(),
            rounds: Vec::new(),
        }
    }

    fn add(&mut self, measured: SteadyMeasured) {
        self.orders = measured.orders;
        self.paths.clone_from(&measured.paths);
        self.rounds.push(measured);
        let rounds = std::mem::take(&mut self.rounds);
        let of = |number: fn(&SteadyMeasured) -> f64| Spread::of(rounds.iter().map(number));
        let counted = |number: fn(&Cpu) -> Option<f64>| {
            Spread::of_counted(rounds.iter().map(|round| number(&round.cpu)))
        };
        self.late_p50_ms = of(|round| round.late.p50_ms);
        self.late_p99_ms = of(|round| round.late.p99_ms);
        self.late_max_ms = of(|round| round.late.max_ms);
        self.elapsed_s = of(|round| round.cpu.elapsed_s);
        self.worker_cpu_s = counted(|cpu| cpu.worker_s);
        self.database_cpu_s = counted(|cpu| cpu.database_s);
        self.broker_cpu_s = counted(|cpu| cpu.broker_s);
        self.stolen_percent = counted(|cpu| cpu.stolen_percent);
        self.memory_mib = of(|round| round.memory.peak_mib());
        self.published_late_ms = of(|round| round.published_late.as_secs_f64() * 1_000.0);
        self.rounds = rounds;
    }
}

impl fmt::Display for SteadyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delays =
            if self.random_delays { ", each with a delay of its own up to 10 s" } else { "" };
        writeln!(
            f,
            "orders of 2 items, 10,000 SKUs by Zipf, due one after the other for {} s{delays}: medians of {} rounds\n{}; {}",
            self.seconds,
            self.rounds,
            self.server,
            self.server.lateness()
        )?;
        writeln!(
            f,
            "one committed statement on the idle database: p50 {:.1} ms, p99 {:.1} ms\n",
            self.floor.p50_ms, self.floor.p99_ms
        )?;
        writeln!(
            f,
            "{:>8} {:26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>7} {:>14}",
            "orders/s",
            "",
            "p50, ms",
            "p99, ms",
            "max, ms",
            "worker",
            "database",
            "broker",
            "of s",
            "stolen",
            "RSS",
            "published late"
        )?;
        for line in &self.lines {
            line.write(f)?;
        }
        writeln!(
            f,
            "worker, database, broker: CPU seconds; stolen: % of the CPU that the host gave to others; RSS: the worker's peak, in MiB; published late: the latest notice, in ms"
        )?;
        for name in &self.not_counted {
            writeln!(
                f,
                "CPU of the {name}: not counted, it runs in no container that can be seen from here"
            )?;
        }
        for EventsCost { rate, contestant, worker, database, expected } in &self.events {
            let ratio = |ratio: &Option<f64>| ratio.map_or("-".to_owned(), |it| format!("{it:.2}"));
            writeln!(
                f,
                "{contestant} at {rate}/s, CPU with events : without = worker {}, database {} (expected: at most {expected})",
                ratio(worker),
                ratio(database)
            )?;
        }
        for idle in &self.idle {
            write_idle(idle, f)?;
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

impl SteadyLine {
    fn events_cost(&self, without: &Self) -> EventsCost {
        let ratio = |with: Option<Spread>, without: Option<Spread>| Some(with?.ratio_to(without?));
        EventsCost {
            rate: self.rate,
            contestant: self.contestant.clone(),
            worker: ratio(self.worker_cpu_s, without.worker_cpu_s),
            database: ratio(self.database_cpu_s, without.database_cpu_s),
            expected: EVENTS_AT_MOST,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu =
            |cpu: &Option<Spread>| cpu.map_or("-".to_owned(), |it| format!("{:.2}", it.median));
        let paths = self.paths.iter().map(|path| format!("{} by {}", path.orders, path.path));
        let paths = if self.paths.len() > 1 {
            format!("  {}", paths.collect::<Vec<_>>().join(", "))
        } else {
            String::new()
        };
        writeln!(
            f,
            "{:>8} {:26} {:>8.1} {:>8.1} {:>8.1} {:>8} {:>8} {:>8} {:>6.1} {:>7} {:>7.1} {:>14.1}{paths}",
            self.rate,
            self.contestant,
            self.late_p50_ms.median,
            self.late_p99_ms.median,
            self.late_max_ms.median,
            cpu(&self.worker_cpu_s),
            cpu(&self.database_cpu_s),
            cpu(&self.broker_cpu_s),
            self.elapsed_s.median,
            stolen(self.stolen_percent),
            self.memory_mib.median,
            self.published_late_ms.median
        )
    }
}

fn write_idle(idle: &Idle, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let percent = |cpu: Option<f64>, of: &Cpu| {
        cpu.map_or("-".to_owned(), |cpu| format!("{:.2}", cpu / of.elapsed_s * 100.0))
    };
    let (with, before) = (&idle.with, &idle.before);
    writeln!(
        f,
        "{}, idle, % of a core: worker {}, database {} (without it {}), broker {} (without it {}); RSS {:.1} MiB",
        idle.contestant,
        percent(with.worker_s, with),
        percent(with.database_s, with),
        percent(before.database_s, before),
        percent(with.broker_s, with),
        percent(before.broker_s, before),
        crate::bench::usage::mib(idle.resident_bytes)
    )?;
    let start = Duration::from_secs_f64(idle.start_to_close_ms / 1_000.0);
    writeln!(
        f,
        "{}: from its start to the first close {:.2} s",
        idle.contestant,
        start.as_secs_f64()
    )
}
