//! A report as a table: what, how much, and what more there is to say about it.

use std::fmt::{self, Display, Formatter};

use super::{Boundary, DemoReport, FinalClock, Rows};
use crate::{statistics::Percentiles, text::row};

impl Display for DemoReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.orders(f)?;
        self.payments(f)?;
        self.lateness(f)?;
        self.broker_and_stock(f)?;
        row(f, "run time", format_args!("{} s", self.run_time_s), "")?;
        if let Some(Boundary { orders, paid, closed, .. }) = self.boundary {
            writeln!(f, "boundary orders: {orders} (paid {paid}, closed {closed})")?;
        }
        self.verdict(f)?;
        self.rows(f)
    }
}

impl DemoReport {
    fn orders(&self, f: &mut Formatter<'_>) -> fmt::Result {
        row(f, "orders", self.orders, &format!("created at {}/s", self.created_per_s))?;
        row(f, "paid", self.paid, "")?;
        let (message, ahead, sweep) =
            (self.closed_by_message, self.closed_ahead, self.closed_by_sweep);
        row(
            f,
            "closed",
            self.closed,
            &format!("by message {message}, ahead of it {ahead}, by sweep {sweep}"),
        )?;
        row(f, "still unpaid", self.still_unpaid, "")
    }

    fn payments(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let late = self.payments_late.map(|Percentiles { p99_ms, max_ms, .. }| {
            format!("of {} sent; sent late by p99 {p99_ms} ms, max {max_ms} ms", self.payments_sent)
        });
        row(f, "payments refused", self.payments_refused, &late.unwrap_or_default())?;
        match self.payments_missed {
            0 => Ok(()),
            missed => {
                row(f, "payments missed", missed, "sent too late by this machine: not judged")
            }
        }
    }

    fn lateness(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(Percentiles { p50_ms, p99_ms, max_ms }) = self.lateness else { return Ok(()) };
        let clock = match self.lateness_until {
            FinalClock::Commit => "from due to committed, by the database's commit times",
            FinalClock::Written => {
                "from due to closed_at: this database keeps no commit times (track_commit_timestamp)"
            }
        };
        row(f, "lateness p50", format_args!("{p50_ms} ms"), clock)?;
        row(f, "lateness p99", format_args!("{p99_ms} ms"), "")?;
        row(f, "lateness max", format_args!("{max_ms} ms"), "")
    }

    fn broker_and_stock(&self, f: &mut Formatter<'_>) -> fmt::Result {
        row(f, "parked", self.parked, "")?;
        if let Some(put_back) = self.put_back {
            row(f, "put back", put_back, "")?;
        }
        let skus = format!("{} SKUs", self.skus);
        row(f, "stock", if self.stock_is_right() { "right" } else { "WRONG" }, &skus)
    }

    fn verdict(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for broken in &self.broken {
            writeln!(f, "BROKEN: {broken}")?;
        }
        if self.broken.is_empty() && self.finished {
            writeln!(f, "every invariant holds")?;
        }
        match self.boundary {
            Some(Boundary { within_ms, .. })
                if !self.broken.is_empty() && self.is_slow(within_ms) =>
            {
                writeln!(
                    f,
                    "hint: closings or payments came more than {within_ms} ms late, which decides orders at this \
                     speed; lower --speed or --rate, or run nothing else on this machine meanwhile"
                )
            }
            _ => Ok(()),
        }
    }

    /// Whether something came so late that an order far enough from its deadline could go the other way.
    fn is_slow(&self, within_ms: u64) -> bool {
        let latest = [self.lateness, self.payments_late].into_iter().flatten();
        let latest = latest.map(|times| times.max_ms).fold(0.0, f64::max);
        u32::try_from(within_ms).is_ok_and(|within_ms| latest > f64::from(within_ms))
    }

    fn rows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let why = match self.rows {
            Rows::Removed => return Ok(()),
            Rows::Kept => "stay, because of --keep; remove them with",
            Rows::Needed => {
                "stay, because its messages may still be on their way; remove them later with"
            }
        };
        writeln!(f, "the rows of {run} {why}: overdue demo --remove {run}", run = self.run)
    }
}
