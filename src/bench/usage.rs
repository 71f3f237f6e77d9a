//! What processes use: CPU time of the worker, the database and the broker, and memory of the worker.

mod cgroup;
mod container;
mod machine;
mod process;

use std::time::{Duration, Instant};

use serde::Serialize;

pub(crate) use container::Container;
use machine::MachineTime;
pub(crate) use process::ProcessUsage;

use super::spread::Spread;

/// Where the CPU time of database and broker is read: the containers they run in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters {
    /// None where it is not counted.
    pub database: Option<Container>,
    /// None where it is not counted.
    pub broker: Option<Container>,
}

/// CPU time so far, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    at: Instant,
    worker: Option<Duration>,
    database: Option<Duration>,
    broker: Option<Duration>,
    machine: Option<MachineTime>,
}

/// CPU time from one reading to another, in seconds; `None` where it is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cpu {
    /// The worker, or what closes the orders in its place.
    pub worker_s: Option<f64>,
    /// PostgreSQL.
    pub database_s: Option<f64>,
    /// RabbitMQ.
    pub broker_s: Option<f64>,
    /// What the host took of the machine's CPU, in percent of all there was.
    pub stolen_percent: Option<f64>,
    /// How long that was.
    pub elapsed_s: f64,
}

impl Meters {
    /// Reads all of them; `processes` are the worker, or what works in its place.
    pub(crate) fn read(&self, processes: &[u32]) -> Reading {
        let of = |container: &Option<Container>| container.as_ref().and_then(Container::cpu);
        let usages = || processes.iter().map(|process| ProcessUsage::of(*process));
        let worker =
            if processes.is_empty() { None } else { usages().sum::<Option<ProcessUsage>>() };
        Reading {
            at: Instant::now(),
            worker: worker.map(|usage| usage.cpu),
            database: of(&self.database),
            broker: of(&self.broker),
            machine: MachineTime::read(),
        }
    }

    /// What is not counted, for people.
    pub(crate) fn not_counted(&self) -> Vec<&'static str> {
        let meters = [("database", &self.database), ("broker", &self.broker)];
        meters.into_iter().filter(|(_, meter)| meter.is_none()).map(|(name, _)| name).collect()
    }
}

impl Reading {
    /// What was used from then to now.
    pub(crate) fn until(&self, later: &Self) -> Cpu {
        let between = |before: Option<Duration>, after: Option<Duration>| {
            Some(after?.saturating_sub(before?).as_secs_f64())
        };
        Cpu {
            worker_s: between(self.worker, later.worker),
            database_s: between(self.database, later.database),
            broker_s: between(self.broker, later.broker),
            stolen_percent: self.machine.zip(later.machine).and_then(|(a, b)| a.stolen_until(b)),
            elapsed_s: later.at.saturating_duration_since(self.at).as_secs_f64(),
        }
    }
}

/// What the host took, in a table: of several rounds the worst.
pub(crate) fn stolen(percent: Option<Spread>) -> String {
    percent.map_or("-".to_owned(), |percent| format!("{:.1}", percent.most))
}

/// Mebibytes.
#[must_use]
pub(crate) fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1_024).unwrap_or(u32::MAX)) / 1_024.0
}

impl ProcessUsage {
    /// The most resident memory there was, in mebibytes.
    #[must_use]
    pub(crate) fn peak_mib(&self) -> f64 {
        mib(self.peak_bytes)
    }
}
