//! What is printed in the end, and the same as JSON lines.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
    path::Path,
    time::Duration,
};

use serde_json::json;
use tokio::time::Instant;

use super::{
    judge::{Evidence, Violation},
    watch::LATE,
};

/// One strike, as it was carried out; times since the storm began.
#[derive(Clone, Debug)]
pub struct Struck {
    pub at: Duration,
    /// The faults, e.g. `broker killed (node 0)`.
    pub faults: Vec<String>,
    /// When everything served again.
    pub healed: Duration,
    /// Whether nothing was late any more before the next strike.
    pub calmed: bool,
    /// Orders that were late because of it.
    pub late: Late,
    /// Faults that could not be made.
    pub failed: Vec<String>,
}

/// Orders that were overdue by more than [`LATE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    pub orders: usize,
    /// By how much the worst was.
    pub worst: Duration,
    /// When the last of them was closed, since the storm began.
    pub until: Duration,
}

/// An order that was late, in times since the storm began.
#[derive(Clone, Copy, Debug)]
pub struct LateOrder {
    pub due: Duration,
    /// From when on it was late.
    pub from: Duration,
    pub closed: Duration,
}

/// Counts each late order to the strike before.
pub fn blame(strikes: &mut [Struck], late: &[LateOrder]) {
    for order in late {
        let next = strikes.partition_point(|strike| strike.at <= order.from);
        if let Some(strike) = next.checked_sub(1).and_then(|index| strikes.get_mut(index)) {
            strike.late.orders += 1;
            strike.late.worst = strike.late.worst.max(order.closed.saturating_sub(order.due));
            strike.late.until = strike.late.until.max(order.closed);
        }
    }
}

impl Struck {
    /// From when everything served again until nothing was late any more; nothing where that was waited for in vain.
    fn recovery(&self) -> Option<Duration> {
        self.calmed.then(|| self.late.until.saturating_sub(self.healed))
    }
}

/// Everything that is reported.
pub struct Report {
    pub seed: u64,
    pub command: String,
    pub strikes: Vec<Struck>,
    pub violations: Vec<Violation>,
    /// What was counted, in the order in which it is printed.
    pub counts: Vec<(&'static str, String)>,
}

/// Violations of one kind that are printed; the file has all.
const PRINTED: usize = 5;

impl Report {
    /// The table, the counts, and the violations with the command that repeats the run.
    pub fn text(&self) -> String {
        let mut text = format!(
            "\n{:>7}  {:<58} {:>7} {:>9} {:>7} {:>9}\n",
            "at", "fault", "lasted", "recovered", "late", "by"
        );
        for strike in &self.strikes {
            let recovered = strike.recovery().map_or("NOT".to_owned(), |time| match time {
                Duration::ZERO => "-".to_owned(),
                time => seconds(time),
            });
            let late = if strike.late.orders == 0 {
                ["-".to_owned(), "-".to_owned()]
            } else {
                [strike.late.orders.to_string(), seconds(strike.late.worst)]
            };
            writeln!(
                text,
                "{:>7}  {:<58} {:>7} {recovered:>9} {:>7} {:>9}",
                seconds(strike.at),
                strike.faults.join(" + "),
                seconds(strike.healed.saturating_sub(strike.at)),
                late[0],
                late[1]
            )
            .unwrap();
            for failed in &strike.failed {
                writeln!(text, "{:>7}  could not be made: {failed}", "").unwrap();
            }
        }
        writeln!(
            text,
            "\nrecovered: from when everything served again until no order was late (overdue by more than {LATE:?})\n\
             late, by: how many orders were, and how long the worst of them was overdue when it was closed\n",
        )
        .unwrap();
        for (name, value) in &self.counts {
            writeln!(text, "{name:<28} {value:>10}").unwrap();
        }
        self.print_violations(&mut text);
        text
    }

    fn print_violations(&self, text: &mut String) {
        if self.violations.is_empty() {
            writeln!(text, "\nno violation (seed {})", self.seed).unwrap();
            return;
        }
        writeln!(text, "\n{} violations (seed {})", self.violations.len(), self.seed).unwrap();
        let mut printed: BTreeMap<String, usize> = BTreeMap::new();
        for violation in &self.violations {
            let violation = violation.to_string();
            let kind = violation.split(':').next().unwrap_or_default().to_owned();
            let count = printed.entry(kind).or_default();
            *count += 1;
            if *count <= PRINTED {
                writeln!(text, "  {violation}").unwrap();
            }
        }
        for (kind, count) in printed.iter().filter(|(_, count)| **count > PRINTED) {
            writeln!(text, "  ... {kind}: {count} in all").unwrap();
        }
        writeln!(text, "repeat it with: {}", self.command).unwrap();
    }

    /// A line per strike, then one per violation, then the counts.
    pub fn write(&self, path: &Path) {
        let mut lines = Vec::new();
        for strike in &self.strikes {
            lines.push(json!({
                "at_ms": ms(strike.at), "faults": strike.faults, "lasted_ms": ms(strike.healed.saturating_sub(strike.at)),
                "recovered_ms": strike.recovery().map(ms), "late_orders": strike.late.orders,
                "latest_ms": ms(strike.late.worst), "failed": strike.failed,
            }));
        }
        for violation in &self.violations {
            lines.push(json!({ "violation": violation.to_string() }));
        }
        let counts: BTreeMap<_, _> = self.counts.iter().cloned().collect();
        lines.push(json!({ "seed": self.seed, "command": self.command, "counts": counts }));
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    /// # Panics
    /// Something was violated, or a fault could not be made.
    pub fn assert_unharmed(&self) {
        let failed = self.strikes.iter().flat_map(|strike| &strike.failed).count();
        assert!(
            self.violations.is_empty() && failed == 0,
            "{} violations, {failed} faults that could not be made; repeat it with: {}",
            self.violations.len(),
            self.command
        );
    }
}

/// Counts of the evidence that a person wants to see.
pub fn counts(
    evidence: &Evidence,
    promises: &HashMap<String, Instant>,
) -> Vec<(&'static str, String)> {
    let with = |status: &str| evidence.orders.iter().filter(|order| order.status == status).count();
    let closings =
        || evidence.orders.iter().filter_map(|order| Some((&order.id, order.closures.first()?)));
    let swept: Vec<&String> =
        closings().filter(|(_, (_, path))| path == "sweep").map(|(id, _)| id).collect();
    let mut late_us: Vec<i64> =
        closings().filter(|(_, (_, path))| path != "sweep").map(|(_, (at_us, _))| *at_us).collect();
    late_us.sort_unstable();
    let quantile = |part: usize| {
        let index = (late_us.len().saturating_sub(1)) * part / 100;
        late_us.get(index).map_or("-".to_owned(), |us| format!("{} ms", us / 1_000))
    };
    let distinct = evidence.parked.iter().map(|parked| &parked.message_id);
    let distinct: BTreeSet<_> = distinct.collect();
    vec![
        ("orders", evidence.orders.len().to_string()),
        ("paid", with("paid").to_string()),
        ("closed", with("closed").to_string()),
        ("closed by the sweep", swept.len().to_string()),
        (
            "  with a confirmed notice",
            swept.iter().filter(|id| promises.contains_key(**id)).count().to_string(),
        ),
        ("lateness p50", quantile(50)),
        ("lateness p99", quantile(99)),
        ("lateness max", quantile(100)),
        ("garbage and ghosts", evidence.trash.len().to_string()),
        ("parked", evidence.parked.len().to_string()),
        ("parked a second time", (evidence.parked.len() - distinct.len()).to_string()),
    ]
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn strike(at: u64, healed: u64) -> Struck {
        let faults = vec!["broker killed".to_owned()];
        let late = Late::default();
        Struck { at: s(at), faults, healed: s(healed), calmed: true, late, failed: Vec::new() }
    }

    #[test]
    fn a_late_order_is_counted_to_the_strike_before_it() {
        let mut strikes = [strike(10, 15), strike(30, 30), strike(50, 51)];
        let late = [
            LateOrder { due: s(1), from: s(2), closed: s(3) },
            LateOrder { due: s(11), from: s(12), closed: s(17) },
            LateOrder { due: s(9), from: s(10), closed: s(14) },
            LateOrder { due: s(52), from: s(53), closed: s(60) },
        ];
        blame(&mut strikes, &late);
        assert_eq!(strikes[0].late, Late { orders: 2, worst: s(6), until: s(17) });
        assert_eq!(strikes.each_ref().map(Struck::recovery), [s(2), s(0), s(9)].map(Some));
    }
}
