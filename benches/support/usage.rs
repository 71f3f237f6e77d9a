//! CPU time of the worker, the database and the broker, memory of the worker, and CPU time that the host of this machine
//! stole.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use super::{options::Options, report::Number};

/// Unit in `/proc/<pid>/stat`: `USER_HZ` is 100 on every architecture of servers.
///
/// <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>
const TICK: Duration = Duration::from_millis(10);

/// Files with the CPU time of the containers.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    database: Option<String>,
    /// A file of each node; empty if one node cannot be counted.
    broker: Vec<String>,
}

/// CPU times at one moment.
pub struct Reading {
    at: Instant,
    worker: Option<Duration>,
    database: Option<Duration>,
    broker: Option<Duration>,
    machine: Option<(u64, u64)>,
}

impl Meters {
    /// Finds the named containers, or the containers that publish the ports of the URLs.
    pub fn find(options: &Options) -> Self {
        let of_url = |url: &str| publishing(url::Url::parse(url).ok()?.port()?);
        let database = options.database_container.clone();
        let database = database.or_else(|| of_url(&options.database_url));
        let brokers = match options.broker_container.as_slice() {
            [] => of_url(&options.broker_url).into_iter().collect(),
            named => named.to_vec(),
        };
        let broker: Option<Vec<String>> = brokers.iter().map(|name| cpu_file(name)).collect();
        Self {
            database: database.and_then(|name| cpu_file(&name)),
            broker: broker.unwrap_or_default(),
        }
    }

    pub fn not_counted(&self) -> Vec<&'static str> {
        let meters = [("database", self.database.is_none()), ("broker", self.broker.is_empty())];
        meters.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect()
    }

    /// Reads all CPU times; `processes` close the orders.
    pub fn read(&self, processes: &[u32]) -> Reading {
        let of = |file: &String| cpu_of(&fs::read_to_string(file).ok()?);
        let broker = self.broker.iter().map(of).sum::<Option<Duration>>();
        let worker =
            processes.iter().map(|process| process_cpu(*process)).sum::<Option<Duration>>();
        Reading {
            at: Instant::now(),
            worker: worker.filter(|_| !processes.is_empty()),
            database: self.database.as_ref().and_then(of),
            broker: broker.filter(|_| !self.broker.is_empty()),
            machine: machine_ticks(),
        }
    }
}

impl Reading {
    /// CPU time of the processes that close the orders, since their start, in seconds.
    pub fn worker_s(&self) -> Option<f64> {
        self.worker.map(|used| used.as_secs_f64())
    }

    /// CPU time between two readings, in seconds, as far as it is counted.
    pub fn until(&self, later: &Self) -> Vec<Number> {
        let between = |name, before: Option<Duration>, after: Option<Duration>| {
            Some((name, after?.saturating_sub(before?).as_secs_f64()))
        };
        let stolen = self.machine.zip(later.machine).and_then(|(before, after)| {
            let all = ticks(before.0, after.0);
            let part = ticks(before.1, after.1) / all * 100.0;
            (all > 0.0).then_some(("stolen_percent", part))
        });
        let numbers = [
            between("worker_cpu_s", self.worker, later.worker),
            between("database_cpu_s", self.database, later.database),
            between("broker_cpu_s", self.broker, later.broker),
            Some(("of_s", later.at.duration_since(self.at).as_secs_f64())),
            stolen,
        ];
        numbers.into_iter().flatten().collect()
    }
}

/// The container that publishes this port of the machine.
fn publishing(port: u16) -> Option<String> {
    let found = engine(&["ps", "--quiet", "--filter", &format!("publish={port}")])?;
    found.lines().next().map(str::to_owned)
}

/// Path of the file with the CPU time of a container, for both versions of control groups.
///
/// <https://docs.kernel.org/admin-guide/cgroup-v2.html>, <https://docs.kernel.org/admin-guide/cgroup-v1/cpuacct.html>
fn cpu_file(container: &str) -> Option<String> {
    let process = engine(&["inspect", "--format", "{{.State.Pid}}", container])?;
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.trim())).ok()?;
    let files = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        // `/` would be the whole machine: this process has its own namespace.
        let file = match controllers {
            _ if path == "/" => return None,
            "" => format!("/sys/fs/cgroup{path}/cpu.stat"),
            _ => format!("/sys/fs/cgroup/{controllers}{path}/cpuacct.usage"),
        };
        cpu_of(&fs::read_to_string(&file).ok()?).map(|_| file)
    });
    files.into_iter().next()
}

/// Parses nanoseconds, or the line `usage_usec`.
fn cpu_of(text: &str) -> Option<Duration> {
    if let Ok(ns) = text.trim().parse() {
        return Some(Duration::from_nanos(ns));
    }
    let us = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(us.trim().parse().ok()?))
}

fn engine(arguments: &[&str]) -> Option<String> {
    let output = Command::new("docker").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then_some(text)
}

/// User and system time of a process since its start.
fn process_cpu(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program is in parentheses, and may contain anything. Then fields 3, 4, …; 14 and 15 are the times.
    let (_, after_name) = stat.rsplit_once(')')?;
    let field = |place: usize| after_name.split_whitespace().nth(place)?.parse::<u32>().ok();
    Some(TICK * field(11)?.saturating_add(field(12)?))
}

/// Resident memory of a process, in MiB: `VmRSS` now, `VmHWM` the most so far.
pub fn memory_mib(process: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u32>().ok());
    f64::from(kilobytes.unwrap_or_default()) / 1_024.0
}

/// CPU time of all cores since boot, and the part that the host gave to others.
///
/// <https://man7.org/linux/man-pages/man5/proc_stat.5.html>
fn machine_ticks() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; the first two include guests.
    let ticks: Vec<u64> =
        line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((ticks.iter().sum(), *ticks.get(7)?))
}

fn ticks(before: u64, after: u64) -> f64 {
    f64::from(u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX))
}
