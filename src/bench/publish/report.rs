//! The result of `overdue bench publish`.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::{
    size::{EXPECTED_RATIO, WINDOW},
    way::Way,
};
use crate::bench::spread::Spread;

/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;

/// One way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PublishLine {
    /// Who publishes.
    pub way: Way,
    /// Confirmed messages per second.
    pub per_s: Spread,
    /// Its median : that of the client by itself.
    pub ratio: f64,
}

/// The result of the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PublishReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// Messages of a round.
    pub messages: usize,
    /// Unconfirmed messages at once.
    pub window: usize,
    /// Rounds of each way.
    pub rounds: usize,
    /// A line for each way.
    pub lines: Vec<PublishLine>,
    #[serde(skip)]
    rates: Vec<(Way, f64)>,
}

impl PublishReport {
    /// Nothing is measured yet.
    #[must_use]
    pub(super) fn new(messages: usize, rounds: usize) -> Self {
        let (lines, rates) = (Vec::new(), Vec::new());
        Self { schema: SCHEMA, messages, window: WINDOW, rounds, lines, rates }
    }

    /// A round was measured.
    #[allow(clippy::cast_precision_loss, reason = "messages of a benchmark")]
    pub(super) fn add(&mut self, way: Way, took: Duration) {
        self.rates.push((way, self.messages as f64 / took.as_secs_f64()));
        let spread = |way: Way| {
            Spread::of(self.rates.iter().filter(|(of, _)| *of == way).map(|(_, rate)| *rate))
        };
        let alone = spread(Way::Client);
        let measured =
            Way::ALL.into_iter().filter(|way| self.rates.iter().any(|(of, _)| of == way));
        let lines = measured.map(|way| {
            let per_s = spread(way);
            PublishLine { way, per_s, ratio: per_s.ratio_to(alone) }
        });
        self.lines = lines.collect();
    }
}

impl fmt::Display for PublishReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, window, rounds, lines, .. } = self;
        writeln!(
            f,
            "{messages} notices, persistent, mandatory and confirmed, at most {window} unconfirmed: median of {rounds} \
             rounds (least to most)"
        )?;
        for PublishLine { way, per_s: Spread { median, least, most }, ratio } in lines {
            writeln!(f, "{way:<16} {median:>8.0}/s ({least:.0} to {most:.0})  x {ratio:.2}")?;
        }
        writeln!(f, "expected of our publisher: at least x {EXPECTED_RATIO}")?;
        if !lines.iter().any(|line| line.way == Way::Script) {
            writeln!(f, "left out: the script; name a Python that has pika with --python")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_compared_with_the_client_by_itself() {
        let mut report = PublishReport::new(1_000, 3);
        for ms in [100, 50, 200] {
            report.add(Way::Client, Duration::from_millis(ms));
            report.add(Way::Publisher, Duration::from_millis(2 * ms));
        }
        let text = "1000 notices, persistent, mandatory and confirmed, at most 1024 unconfirmed: median of 3 rounds (least to most)\n\
                    lapin alone         10000/s (5000 to 20000)  x 1.00\n\
                    our publisher        5000/s (2500 to 10000)  x 0.50\n\
                    expected of our publisher: at least x 0.9\n\
                    left out: the script; name a Python that has pika with --python\n";
        assert_eq!(report.to_string(), text);
    }
}
