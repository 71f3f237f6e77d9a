//! What delays cost, as a table and as JSON.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::{
    messages::HABITS_S,
    round::Measured,
    size::DelaySize,
    way::{Kind, Way},
};
use crate::{
    bench::spread::Spread,
    ladder::{Ladder, path::Rounding, spec::LadderSpec},
};

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DelayReport {
    /// Messages of a round.
    pub messages: usize,
    /// Rounds that count.
    pub rounds: usize,
    /// One line per way.
    pub ways: Vec<Line>,
    #[serde(skip)]
    random: BTreeMap<Kind, Vec<Measured>>,
    #[serde(skip)]
    burst: BTreeMap<Kind, Vec<Measured>>,
}

/// What one way costs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    #[serde(skip)]
    kind: Kind,
    /// Which way.
    pub way: &'static str,
    /// Delay queues.
    pub queues: u32,
    /// Queues that a message passes on average, of all delays up to an hour; counted.
    pub hops_uniform: f64,
    /// The same of 5 m, 15 m, 30 m, 1 h, 2 h and 1 d; counted.
    pub hops_habits: f64,
    /// Messages confirmed per second.
    pub published_per_s: Spread,
    /// CPU of the broker for each message of random delays, in microseconds; 0 where it was not asked.
    pub broker_cpu_us: Spread,
    /// From due to received, random delays: p50 in milliseconds.
    pub random_p50_ms: Spread,
    /// p99 in milliseconds.
    pub random_p99_ms: Spread,
    /// A burst that is due at one instant: p50 in milliseconds.
    pub burst_p50_ms: Spread,
    /// p99 in milliseconds.
    pub burst_p99_ms: Spread,
    /// Messages that came out before they were due.
    pub early: usize,
}

impl DelayReport {
    pub(super) fn new(size: DelaySize, ways: &[Way]) -> Self {
        let line = |way: &Way| Line {
            kind: way.kind,
            way: way.title(),
            queues: way.queues(),
            hops_uniform: hops(way.kind, &(1..=3_600).collect::<Vec<_>>()),
            hops_habits: hops(way.kind, &HABITS_S),
            published_per_s: Spread::default(),
            broker_cpu_us: Spread::default(),
            random_p50_ms: Spread::default(),
            random_p99_ms: Spread::default(),
            burst_p50_ms: Spread::default(),
            burst_p99_ms: Spread::default(),
            early: 0,
        };
        let ways = ways.iter().map(line).collect();
        let DelaySize { messages, rounds } = size;
        Self { messages, rounds, ways, random: BTreeMap::new(), burst: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, way: &Way, random: &Measured, burst: &Measured) {
        self.random.entry(way.kind).or_default().push(*random);
        self.burst.entry(way.kind).or_default().push(*burst);
        for line in self.ways.iter_mut().filter(|line| line.kind == way.kind) {
            let random = self.random.get(&way.kind).map_or(&[][..], Vec::as_slice);
            let burst = self.burst.get(&way.kind).map_or(&[][..], Vec::as_slice);
            let of = |of: &[Measured], get: fn(&Measured) -> f64| Spread::of(of.iter().map(get));
            line.published_per_s = of(random, |it| it.published_per_s);
            line.broker_cpu_us = of(random, |it| it.cpu_us.unwrap_or_default());
            line.random_p50_ms = of(random, |it| it.late.p50_ms);
            line.random_p99_ms = of(random, |it| it.late.p99_ms);
            line.burst_p50_ms = of(burst, |it| it.late.p50_ms);
            line.burst_p99_ms = of(burst, |it| it.late.p99_ms);
            line.early = random.iter().chain(burst).map(|it| it.early).sum();
        }
    }
}

/// The ladders whose hops are counted go up to a day, the longest of the usual delays, in seconds.
const LONGEST_S: u64 = 86_400;
/// Enough for 1s–9s, 10s–50s, 1m–59m and 1h–24h.
const BUDGET: u32 = 100;

/// Hops on average, for delays in seconds and ladders with places for seconds.
fn hops(kind: Kind, delays_s: &[u64]) -> f64 {
    let spec = |max_s: u64, max_queues| LadderSpec {
        max_queues,
        ..LadderSpec::up_to(Duration::from_secs(max_s))
    };
    let spec = match kind {
        Kind::Plugin => return 1.0,
        Kind::BinaryTop | Kind::BinaryFirstBit => spec((1 << 28) - 1, Some(28)),
        Kind::Ladder => spec(LONGEST_S, None),
        Kind::Budget => spec(LONGEST_S, Some(BUDGET)),
    };
    let Ok(ladder) = Ladder::compile("hops", &spec) else { return 0.0 };
    let hops = delays_s.iter().filter_map(|seconds| {
        let path = ladder.enter(Duration::from_secs(*seconds), Rounding::Down, "due").ok()?;
        u32::try_from(path.hops.len()).ok()
    });
    let number = u32::try_from(delays_s.len()).unwrap_or(u32::MAX);
    (f64::from(hops.sum::<u32>()) / f64::from(number) * 100.0).round() / 100.0
}

impl fmt::Display for DelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} messages a round, {} rounds: median (least to most). A second of real delays is a millisecond here. Hops are \
             counted\nin ladders of real delays up to a day, the budget being {BUDGET} queues.\n",
            self.messages, self.rounds
        )?;
        writeln!(
            f,
            "{:34} {:>6} {:>12} {:>11} {:>30} {:>24}",
            "", "queues", "hops, 1s-1h", "hops, usual", "confirmed/s", "broker CPU, µs a message"
        )?;
        for line in &self.ways {
            writeln!(
                f,
                "{:34} {:>6} {:>12.2} {:>11.2} {:>30} {:>24}",
                line.way,
                line.queues,
                line.hops_uniform,
                line.hops_habits,
                line.published_per_s,
                line.broker_cpu_us
            )?;
        }
        writeln!(
            f,
            "\n{:34} {:>24} {:>26} {:>26} {:>26} {:>6}",
            "late, ms", "random p50", "random p99", "burst p50", "burst p99", "early"
        )?;
        for line in &self.ways {
            writeln!(
                f,
                "{:34} {:>24} {:>26} {:>26} {:>26} {:>6}",
                line.way,
                line.random_p50_ms,
                line.random_p99_ms,
                line.burst_p50_ms,
                line.burst_p99_ms,
                line.early
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one setting, what is expected of it beside one queue per bit.
    #[test]
    fn a_budget_has_half_the_hops_for_any_delay_and_for_usual_ones() {
        let any: Vec<u64> = (1..=3_600).collect();
        for delays in [&any[..], &HABITS_S] {
            let [ours, binary] =
                [Kind::Budget, Kind::BinaryFirstBit].map(|kind| hops(kind, delays));
            assert!(ours <= binary / 2.0, "{ours}, and {binary} of the binary ladder");
        }
    }
}
