//! A burst without locks: as a worker closes it, and as plain SQL.

use super::{
    error::LocksError,
    report::{Burst, LocksReport},
    size::LocksSize,
};
use crate::{
    bench::{
        close::{self, CloseSize, method::Method, report::CloseLine},
        spread::Spread,
    },
    store::Store,
};

/// Orders in a batch, as a worker has them by default.
const BATCH: usize = 500;

/// Measures both alternately, as often as there are rounds; empties the tables before each.
pub(super) async fn measure(
    store: &Store,
    size: &LocksSize,
    report: &mut LocksReport,
) -> Result<(), LocksError> {
    let close_size = CloseSize { orders: size.burst, batch: BATCH };
    let mut lines: Vec<CloseLine> = Vec::new();
    for number in 0..size.rounds {
        let mut methods = [Method::WorkerBatches, Method::SqlBatches];
        // What is first finds the machine in another state.
        methods.rotate_left(number % 2);
        let measured = close::measure(store, close_size, &methods, |_| {}).await?;
        lines.extend(measured.lines);
        report.broken.extend(measured.broken);
    }
    let rate = |method: Method| {
        let of_method = lines.iter().filter(|line| line.method == method);
        Spread::of(of_method.map(|line| line.orders_per_s))
    };
    let (worker, plain_sql) = (rate(Method::WorkerBatches), rate(Method::SqlBatches));
    let ratio = worker.ratio_to(plain_sql);
    report.burst = Burst { orders: size.burst, worker, plain_sql, ratio };
    Ok(())
}
