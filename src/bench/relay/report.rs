//! The result of `overdue bench relay`: a line for each relayer.

use std::fmt;

use serde::Serialize;

use super::{
    relayer::Relayer,
    round::RelayMeasured,
    size::{EXPECTED_PER_S, RelaySize, WINDOW},
};
use crate::{
    bench::{
        load::server::Server,
        plot::{Bar, Plot},
        spread::Spread,
        usage::{Cpu, stolen},
    },
    statistics::per_second,
};

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;

/// What one relayer needed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RelayLine {
    /// As it is shown.
    pub relayer: String,
    /// Events per second, from the start of its process until all are done.
    pub per_s: Spread,
    /// Seconds that the CPU times are of.
    pub took_s: Spread,
    /// CPU seconds of the relayer's process, from its start.
    pub worker_cpu_s: Option<Spread>,
    /// CPU seconds of PostgreSQL.
    pub database_cpu_s: Option<Spread>,
    /// CPU seconds of RabbitMQ.
    pub broker_cpu_s: Option<Spread>,
    /// What the host took of the machine's CPU meanwhile, in percent; more than a few make the line worthless.
    pub stolen_percent: Option<Spread>,
    /// Peak resident memory in MiB.
    pub memory_mib: Spread,
    /// Second copies that arrived, of all rounds.
    pub copies: usize,
    #[serde(skip)]
    of: Relayer,
    #[serde(skip)]
    rounds: Vec<RelayMeasured>,
}

/// How our rate compares with another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RelayRatio {
    /// Whose rate is divided.
    pub relayer: String,
    /// By whose.
    pub other: String,
    /// Medians, in hundredths.
    pub ratio: f64,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RelayReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// Events of a round.
    pub events: usize,
    /// Rounds of each.
    pub rounds: usize,
    /// What was to be reached: events per second, at least.
    pub expected_per_s: f64,
    /// What the figures depend on.
    pub server: Server,
    /// Whose CPU time is not counted.
    pub not_counted: Vec<&'static str>,
    /// A line for each relayer.
    pub lines: Vec<RelayLine>,
    /// How our rate compares.
    pub ratios: Vec<RelayRatio>,
    /// What is wrong: events lost, or those of an order not in the order of their ids.
    pub broken: Vec<String>,
}

impl RelayReport {
    /// Nothing is measured yet.
    #[must_use]
    pub(super) fn new(
        size: RelaySize,
        server: &Server,
        not_counted: Vec<&'static str>,
        relayers: &[Relayer],
    ) -> Self {
        Self {
            schema: SCHEMA,
            events: size.events,
            rounds: size.rounds,
            expected_per_s: EXPECTED_PER_S,
            server: server.clone(),
            not_counted,
            lines: relayers.iter().map(RelayLine::new).collect(),
            ratios: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// A round was measured.
    pub(super) fn add(&mut self, number: usize, relayer: &Relayer, measured: RelayMeasured) {
        let broken = measured.broken.iter();
        self.broken.extend(broken.map(|broken| format!("round {number}, {relayer}: {broken}")));
        let events = self.events;
        if let Some(line) = self.lines.iter_mut().find(|line| line.of == *relayer) {
            line.add(measured, events);
        }
        self.ratios = self.ratios();
    }

    fn ratios(&self) -> Vec<RelayRatio> {
        let is_ours = |line: &&RelayLine| matches!(line.of, Relayer::Worker { .. });
        let pairs = self.lines.iter().filter(is_ours).flat_map(|ours| {
            let others = self.lines.iter().filter(move |other| !is_ours(other));
            others.map(|other| RelayRatio {
                relayer: ours.relayer.clone(),
                other: other.relayer.clone(),
                ratio: ours.per_s.ratio_to(other.per_s),
            })
        });
        pairs.collect()
    }

    /// The rates as a picture.
    #[must_use]
    pub(crate) fn plot(&self) -> Plot {
        let bar = |line: &RelayLine| Bar {
            label: line.relayer.clone(),
            number: line.per_s,
            ours: matches!(line.of, Relayer::Worker { .. }),
        };
        Plot {
            title: format!("{} events from the outbox to the broker", self.events),
            axis: format!(
                "events per second, from the start of the process; median of {} rounds",
                self.rounds
            ),
            bars: self.lines.iter().map(bar).collect(),
        }
    }
}

impl RelayLine {
    fn new(of: &Relayer) -> Self {
        Self {
            relayer: of.to_string(),
            per_s: Spread::default(),
            took_s: Spread::default(),
            worker_cpu_s: None,
            database_cpu_s: None,
            broker_cpu_s: None,
            stolen_percent: None,
            memory_mib: Spread::default(),
            copies: 0,
            of: of.clone(),
            rounds: Vec::new(),
        }
    }

    fn add(&mut self, measured: RelayMeasured, events: usize) {
        self.copies += measured.copies;
        self.rounds.push(measured);
        let rounds = std::mem::take(&mut self.rounds);
        let counted = |number: fn(&Cpu) -> Option<f64>| {
            Spread::of_counted(rounds.iter().map(|round| number(&round.cpu)))
        };
        self.per_s = Spread::of(rounds.iter().map(|round| per_second(events, round.took)));
        self.took_s = Spread::of(rounds.iter().map(|round| round.took.as_secs_f64()));
        self.worker_cpu_s = counted(|cpu| cpu.worker_s);
        self.database_cpu_s = counted(|cpu| cpu.database_s);
        self.broker_cpu_s = counted(|cpu| cpu.broker_s);
        self.stolen_percent = counted(|cpu| cpu.stolen_percent);
        self.memory_mib = Spread::of(rounds.iter().map(|round| round.memory.peak_mib()));
        self.rounds = rounds;
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu =
            |cpu: &Option<Spread>| cpu.map_or("-".to_owned(), |it| format!("{:.2}", it.median));
        let Spread { median, least, most } = self.per_s;
        let copies =
            if self.copies > 0 { format!("  {} copies", self.copies) } else { String::new() };
        writeln!(
            f,
            "{:26} {:>26} {:>8.2} {:>8} {:>8} {:>8} {:>7} {:>7.1}{copies}",
            self.relayer,
            format!("{median:.0} ({least:.0} to {most:.0})"),
            self.took_s.median,
            cpu(&self.worker_cpu_s),
            cpu(&self.database_cpu_s),
            cpu(&self.broker_cpu_s),
            stolen(self.stolen_percent),
            self.memory_mib.median
        )
    }
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} events in the outbox, two of each order, to one quorum queue: median of {} rounds (least to most); lapin alone: \
             at most {WINDOW} unconfirmed\n{}\n",
            self.events, self.rounds, self.server
        )?;
        writeln!(
            f,
            "{:26} {:>26} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
            "", "events/s", "s", "worker", "database", "broker", "stolen", "RSS"
        )?;
        self.lines.iter().try_for_each(|line| line.write(f))?;
        writeln!(
            f,
            "worker, database, broker: CPU seconds; stolen: % of the CPU that the host gave to others; RSS: the process's peak, in MiB"
        )?;
        for name in &self.not_counted {
            writeln!(
                f,
                "CPU of the {name}: not counted, it runs in no container that can be seen from here"
            )?;
        }
        for RelayRatio { relayer, other, ratio } in &self.ratios {
            writeln!(f, "{relayer} : {other} = {ratio:.2}")?;
        }
        writeln!(f, "expected of overdue: at least {:.0} events/s", self.expected_per_s)?;
        for broken in &self.broken {
            writeln!(f, "BROKEN: {broken}")?;
        }
        if self.broken.is_empty() {
            writeln!(f, "every event arrived, those of each order in the order of their ids")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn our_rate_is_compared_with_the_others_and_what_is_wrong_is_named() {
        let ours = Relayer::Worker { program: "overdue".into(), label: None };
        let relayers = [ours.clone(), Relayer::Client, Relayer::SkipLocked];
        let size = RelaySize { events: 10_000, rounds: 1 };
        let mut report = RelayReport::new(size, &Server::default(), vec!["broker"], &relayers);
        let measured = |ms, broken: &[&str]| RelayMeasured {
            took: Duration::from_millis(ms),
            copies: broken.len(),
            broken: broken.iter().map(|&broken| broken.to_owned()).collect(),
            ..RelayMeasured::default()
        };
        report.add(1, &ours, measured(500, &["9 of 10 events arrived"]));
        report.add(1, &Relayer::Client, measured(250, &[]));
        report.add(1, &Relayer::SkipLocked, measured(2_000, &[]));
        insta::assert_snapshot!(report.to_string());
    }
}
