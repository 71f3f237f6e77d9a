//! A diagnosis of broker, database and machine: a table of checks, each a function from facts to a verdict.
//!
//! `broker::health` and `store::health` gather the facts; nothing here asks anybody anything. A fact that could not
//! be gathered makes its checks amber and says which right or service is missing; it never stops the others.

pub mod broker;
pub mod clocks;
pub mod cluster;
pub mod database;
pub mod facts;
pub mod machine;
pub mod rights;
pub mod tables;
mod text;
pub mod work;

use serde::Serialize;

use facts::{Asked, Facts};

/// Version of `doctor -o json`.
const VERSION: u32 = 1;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// As it should be.
    Green,
    /// It works, or it could not be looked at; somebody should look.
    Amber,
    /// It does not work.
    Red,
}

/// What a check found.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How it came out.
    pub colour: Colour,
    /// What was found.
    pub finding: String,
    /// What to do, in one line; not there where nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Verdict {
    /// As it should be.
    pub fn green(finding: impl Into<String>) -> Self {
        Self { colour: Colour::Green, finding: finding.into(), fix: None }
    }

    /// Somebody should look.
    pub fn amber(finding: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { colour: Colour::Amber, finding: finding.into(), fix: Some(fix.into()) }
    }

    /// It does not work.
    pub fn red(finding: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { colour: Colour::Red, finding: finding.into(), fix: Some(fix.into()) }
    }

    /// A judgement of something that may not be known.
    pub fn of<T>(asked: &Asked<T>, judge: impl FnOnce(&T) -> Self) -> Self {
        match asked {
            Ok(known) => judge(known),
            Err(gap) => Self::amber(format!("not known: {}", gap.reason), gap.fix.clone()),
        }
    }
}

/// One check.
pub struct Check {
    /// What it is about.
    pub area: &'static str,
    /// Its name; stays the same from version to version.
    pub name: &'static str,
    /// What it says about the facts.
    pub judge: fn(&Facts) -> Verdict,
}

const fn check(area: &'static str, name: &'static str, judge: fn(&Facts) -> Verdict) -> Check {
    Check { area, name, judge }
}

const BROKER: &str = "Broker";
const TOPOLOGY: &str = "Topology";
const DATABASE: &str = "Database";
const MACHINE: &str = "Machine";

/// Every check, in the order of the report.
pub const CHECKS: &[Check] = &[
    check(BROKER, "reachable", broker::reachable),
    check(BROKER, "login", broker::login),
    check(BROKER, "virtual-host", broker::virtual_host),
    check(BROKER, "tls", broker::tls),
    check(BROKER, "publishing", broker::publishing),
    check(BROKER, "management-api", broker::management_api),
    check(BROKER, "version", broker::version),
    check(BROKER, "feature-flags", cluster::feature_flags),
    check(BROKER, "deprecated-features", cluster::deprecated_features),
    check(BROKER, "plugins", cluster::plugins),
    check(BROKER, "memory-alarm", cluster::memory_alarm),
    check(BROKER, "disk-alarm", cluster::disk_alarm),
    check(BROKER, "replicas", cluster::replicas),
    check(BROKER, "clock", clocks::broker),
    check(TOPOLOGY, "file", work::file),
    check(TOPOLOGY, "administrator-rights", rights::administrator),
    check(TOPOLOGY, "worker-rights", rights::worker),
    check(TOPOLOGY, "applied", work::applied),
    check(TOPOLOGY, "consumers", work::consumers),
    check(TOPOLOGY, "dead-letters", work::dead_letters),
    check(TOPOLOGY, "parked", work::parked),
    check(DATABASE, "reachable", database::reachable),
    check(DATABASE, "login", database::login),
    check(DATABASE, "tls", database::tls),
    check(DATABASE, "version", database::version),
    check(DATABASE, "writable", database::writable),
    check(DATABASE, "connections", database::connections),
    check(DATABASE, "clock", clocks::database),
    check(DATABASE, "clocks-agree", clocks::agree),
    check(DATABASE, "commit-timestamps", database::commit_timestamps),
    check(DATABASE, "tables", tables::ours),
    check(DATABASE, "effects", tables::effects),
    check(DATABASE, "sweep-index", tables::sweep_index),
    check(DATABASE, "outbox", tables::outbox),
    check(MACHINE, "open-files", machine::open_files),
    check(MACHINE, "cores", machine::cores),
];

/// Every check with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Of this format.
    version: u32,
    /// The one-line summary.
    pub summary: String,
    /// Whether nothing is red.
    pub works: bool,
    /// In the order of [`CHECKS`].
    pub checks: Vec<Checked>,
}

/// One check and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// What it is about.
    pub area: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it found.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Runs all checks on the same facts.
#[must_use]
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let run = |check: &Check| Checked {
        area: check.area,
        name: check.name,
        verdict: (check.judge)(facts),
    };
    let checks: Vec<Checked> = CHECKS.iter().map(run).collect();
    let count = |colour| checks.iter().filter(|check| check.verdict.colour == colour).count();
    let (green, amber, red) = (count(Colour::Green), count(Colour::Amber), count(Colour::Red));
    let summary = format!("{} checks: {green} green, {amber} amber, {red} red", checks.len());
    Diagnosis { version: VERSION, summary, works: red == 0, checks }
}
