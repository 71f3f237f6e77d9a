//! The script of a run: orders, and the time of each payment. Pure: the same seed gives the same script.

use std::{collections::HashSet, io, time::Duration};

use csv::{ReaderBuilder, Trim};
use jiff::Timestamp;
use rand::{Rng, RngExt};
use serde::Deserialize;

use crate::{
    order::{OrderId, OrderIdError},
    order_service::RunId,
    topology::level::Ttl,
};

/// Half of the window around the deadline for last-moment payments.
const LAST_MOMENT: Duration = Duration::from_millis(50);
/// Later payments are sent at this time past the deadline: they find a closed order.
const LATEST_PAYMENT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptedOrder {
    /// Order id with the run as its prefix.
    pub id: OrderId,
    /// Time from creation to payment; `None`: never paid.
    pub pay_after: Option<Duration>,
}

/// All orders of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// Time from creation to deadline.
    pub after: Ttl,
    /// Orders in the sequence of their creation.
    pub orders: Vec<ScriptedOrder>,
    /// An order that is never paid, created and published after all others. Levels are first in, first out: when a message
    /// has closed this order, no earlier message of the run still waits.
    pub last: OrderId,
}

/// Number of orders of a demo, and when they are paid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DemoShape {
    /// Number of orders, at least 1.
    pub orders: u32,
    /// Time from creation to deadline.
    pub after: Ttl,
    /// Share of orders paid well before the deadline, 0 to 1.
    pub paid_share: f64,
    /// Share of orders paid within 50 ms of the deadline, on either side, 0 to 1.
    pub late_share: f64,
}

/// A line of a file of real orders. Times are RFC 3339; `approved_at` is empty if the order was never paid.
#[derive(Deserialize)]
struct RealOrder {
    order_id: String,
    purchased_at: Timestamp,
    approved_at: Option<Timestamp>,
}

impl Script {
    /// Random orders: some are paid early, some at the last moment, the rest never.
    pub(crate) fn random(
        run: &RunId,
        shape: DemoShape,
        rng: &mut impl Rng,
    ) -> Result<Self, OrderIdError> {
        let orders = (1..=shape.orders).map(|number| {
            let id = run.order_id(&format!("{number:07}"))?;
            Ok(ScriptedOrder { id, pay_after: payment(shape, rng) })
        });
        Self::new(run, shape.after, orders.collect::<Result<_, _>>()?)
    }

    /// Real orders with a deadline of `after`, paid `speed` times as fast.
    /// Returns all errors of the file, each in a line with its line number.
    pub(crate) fn read(
        run: &RunId,
        file: impl io::Read,
        (speed, after): (u32, Ttl),
    ) -> Result<Self, Vec<String>> {
        let latest = after.as_duration() + LATEST_PAYMENT;
        let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(file);
        let header = reader.headers().map_err(|error| vec![located(&error)])?.clone();
        let (mut seen, mut orders, mut findings) = (HashSet::new(), Vec::new(), Vec::new());
        for record in reader.records() {
            let order = record.map_err(|error| located(&error)).and_then(|record| {
                let real: RealOrder =
                    record.deserialize(Some(&header)).map_err(|error| located(&error))?;
                let line = record.position().map_or(0, csv::Position::line);
                if !seen.insert(real.order_id.clone()) {
                    return Err(format!("line {line}: order `{}` is there twice", real.order_id));
                }
                real.scripted(run, speed, latest).map_err(|error| format!("line {line}: {error}"))
            });
            match order {
                Ok(order) => orders.push(order),
                Err(finding) => findings.push(finding),
            }
        }
        if orders.is_empty() && findings.is_empty() {
            findings.push("there is no order".to_owned());
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        Self::new(run, after, orders).map_err(|error| vec![error.to_string()])
    }

    fn new(run: &RunId, after: Ttl, orders: Vec<ScriptedOrder>) -> Result<Self, OrderIdError> {
        Ok(Self { after, orders, last: OrderId::parse(&format!("{run}.last"))? })
    }
}

impl RealOrder {
    fn scripted(&self, run: &RunId, speed: u32, latest: Duration) -> Result<ScriptedOrder, String> {
        let id = run.order_id(&self.order_id).map_err(|error| error.to_string())?;
        let lag =
            self.approved_at.map(|at| Duration::try_from(at.duration_since(self.purchased_at)));
        let lag = lag.transpose().map_err(|_| "approved_at is before purchased_at")?;
        Ok(ScriptedOrder { id, pay_after: lag.map(|lag| (lag / speed).min(latest)) })
    }
}

fn located(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            format!("line {line}: {err}; times are like 2017-10-02T10:56:00Z")
        }
        _ => format!("line {line}: {error}"),
    }
}

fn payment(shape: DemoShape, rng: &mut impl Rng) -> Option<Duration> {
    let after = shape.after.as_duration();
    let lot: f64 = rng.random();
    if lot < shape.paid_share {
        Some(after.mul_f64(rng.random_range(0.05..0.8)))
    } else if lot < shape.paid_share + shape.late_share {
        let window = LAST_MOMENT * 2;
        Some((after + window.mul_f64(rng.random())).saturating_sub(LAST_MOMENT))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    const HEADER: &str = "order_id,purchased_at,approved_at\n";

    fn random(seed: u64) -> Script {
        let after = Ttl::from_millis(10_000).unwrap();
        let shape = DemoShape { orders: 1_000, after, paid_share: 0.5, late_share: 0.1 };
        Script::random(&RunId::new(1), shape, &mut StdRng::seed_from_u64(seed)).unwrap()
    }

    fn read(lines: &str) -> Result<Vec<ScriptedOrder>, Vec<String>> {
        let (file, after) = (format!("{HEADER}{lines}"), Ttl::from_millis(3_000).unwrap());
        Ok(Script::read(&RunId::new(1), file.as_bytes(), (600, after))?.orders)
    }

    #[test]
    fn the_same_seed_writes_the_same_script() {
        assert_eq!(random(3), random(3));
        assert_ne!(random(3), random(4));
    }

    #[test]
    fn about_the_asked_shares_are_paid_early_and_at_the_last_moment() {
        let script = random(3);
        let paid: Vec<Duration> =
            script.orders.iter().filter_map(|order| order.pay_after).collect();
        let last_moment = paid.iter().filter(|at| **at >= Duration::from_millis(9_950)).count();
        assert!((550..650).contains(&paid.len()), "{} paid", paid.len());
        assert!((70..130).contains(&last_moment), "{last_moment} at the last moment");
        assert!(paid.iter().all(|at| *at <= Duration::from_millis(10_050)));
    }

    #[test]
    fn real_orders_are_paid_when_they_were_only_faster() {
        let orders = read(
            "a,2017-01-01T00:00:00Z,2017-01-01T00:30:00Z\nb,2017-01-01T00:00:00Z,\n\
             c,2017-01-01T00:00:00Z,2017-02-01T00:00:00Z\n",
        );
        let paid: Vec<_> = orders.unwrap().into_iter().map(|order| order.pay_after).collect();
        assert_eq!(paid, [Some(Duration::from_secs(3)), None, Some(Duration::from_secs(8))]);
    }

    #[test]
    fn every_bad_line_of_a_file_is_named() {
        let findings = read(
            "a b,2017-01-01T00:00:00Z,\na,yesterday,\nb,2017-01-02T00:00:00Z,2017-01-01T00:00:00Z\nc,1\n\
             d,2017-01-01T00:00:00Z,\nd,2017-01-01T00:00:00Z,\n",
        );
        let expected = [
            "line 2: the order id has white space",
            "line 3: failed to parse",
            "line 4: approved_at is before purchased_at",
            "line 5: CSV error",
            "line 7: order `d` is there twice",
        ];
        let findings = findings.unwrap_err();
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (found, expected) in findings.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(read("").unwrap_err(), ["there is no order"]);
        let other = Script::read(
            &RunId::new(1),
            "id,when\n1,2\n".as_bytes(),
            (600, Ttl::from_millis(1).unwrap()),
        );
        assert!(other.unwrap_err()[0].contains("missing field `order_id`"));
    }
}
