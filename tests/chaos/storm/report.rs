//! The report of a storm: printed, and written next to the workers' logs.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{run::STALL, schedule::Kind};

/// A strike and its result.
#[derive(Clone, Debug)]
pub struct Struck {
    /// Time since the start of the storm.
    pub at: Duration,
    pub kinds: Vec<Kind>,
    /// The faults, e.g. `BrokerKilled (0)`.
    pub faults: String,
    /// Time until all services were healthy again.
    pub lasted: Duration,
    /// Time from healthy services until no order was late; `None` if orders were still late after the wait.
    pub recovered: Option<Duration>,
    /// The most orders that were late at one time.
    pub late: usize,
    /// Faults that could not be made.
    pub failed: Vec<String>,
}

pub struct Report {
    pub seed: u64,
    /// The command that repeats the storm.
    pub command: String,
    pub strikes: Vec<Struck>,
    /// `what: about`, sorted.
    pub violations: Vec<String>,
    /// Each worker's usage at first and in the end, if its process ran for two minutes.
    pub used: Vec<String>,
    /// Resources of a worker that grew.
    pub grown: Vec<String>,
    /// Counts, in the order of the report.
    pub counts: Vec<(&'static str, String)>,
}

/// Number of printed violations of a kind; the last line of a kind has their total.
const PRINTED: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:>7}  {:<60} {:>7} {:>9} {:>5}",
            "at", "faults", "lasted", "recovered", "late"
        )?;
        for Struck { at, faults, lasted, recovered, late, failed, .. } in &self.strikes {
            let recovered = recovered.map_or("NOT".to_owned(), seconds);
            let (at, lasted) = (seconds(*at), seconds(*lasted));
            writeln!(f, "{at:>7}  {faults:<60} {lasted:>7} {recovered:>9} {late:>5}")?;
            for failed in failed {
                writeln!(f, "{:>7}  could not be made: {failed}", "")?;
            }
        }
        writeln!(f, "\n{:<28} {:>10} {:>9} {:>9}", "kind", "strikes", "median", "longest")?;
        for (kind, recovered) in self.recovered_by_kind() {
            let (middle, last) = (recovered.len() / 2, recovered.len() - 1);
            let (kind, count) = (format!("{kind:?}"), recovered.len());
            let [median, longest] = [middle, last].map(|index| recovered[index]).map(seconds);
            writeln!(f, "{kind:<28} {count:>10} {median:>9} {longest:>9}")?;
        }
        writeln!(f)?;
        for (name, value) in &self.counts {
            writeln!(f, "{name:<28} {value:>10}")?;
        }
        self.used.iter().chain(&self.grown).try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "\n{} violations (seed {})", self.violations.len(), self.seed)?;
        let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for violation in &self.violations {
            kinds
                .entry(violation.split(':').next().unwrap_or_default())
                .or_default()
                .push(violation);
        }
        for (kind, all) in &kinds {
            all.iter().take(PRINTED).try_for_each(|violation| writeln!(f, "  {violation}"))?;
            if all.len() > PRINTED {
                writeln!(f, "  ... {kind}: {} in all", all.len())?;
            }
        }
        writeln!(f, "repeat it with: {}", self.command)
    }
}

impl Report {
    /// Sorted times until no order was late, by kind; after a wait without success, the time of the wait.
    /// A strike of two kinds counts for both.
    fn recovered_by_kind(&self) -> BTreeMap<Kind, Vec<Duration>> {
        let mut by_kind: BTreeMap<Kind, Vec<Duration>> = BTreeMap::new();
        for strike in &self.strikes {
            for kind in &strike.kinds {
                by_kind.entry(*kind).or_default().push(strike.recovered.unwrap_or(STALL));
            }
        }
        for recovered in by_kind.values_mut() {
            recovered.sort();
        }
        by_kind
    }

    /// # Panics
    /// Something was violated, or a fault could not be made.
    pub fn assert_unharmed(&self) {
        let failed: Vec<&String> = self.strikes.iter().flat_map(|strike| &strike.failed).collect();
        let (violations, command) = (&self.violations, &self.command);
        assert!(
            violations.is_empty() && failed.is_empty(),
            "{} violations, {} faults that could not be made; repeat it with: {command}",
            violations.len(),
            failed.len(),
        );
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
