//! What rows that somebody keeps locked cost the other orders: how late these are closed, and how long payments take.
//!
//! A real worker closes orders that become due one after the other. Rounds without locks, with locked orders and with a
//! locked SKU take place alternately, so that a machine that is busy is so for all of them. Then a burst without locks,
//! as a worker closes it and as plain SQL.
//!
//! In a schema and a topology of their own.

mod burst;
mod error;
mod held;
mod load;
pub(crate) mod report;
mod round;
mod round_orders;
mod setup;
mod size;

use std::sync::Arc;

use rand::{SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use crate::{broker::Publisher, order_service::basket::SKUS, shutdown::Stop, worker};
pub(crate) use error::LocksError;
use held::Held;
use report::LocksReport;
use round::Round;
use round_orders::RoundOrders;
pub(crate) use setup::LocksSetup;
pub(crate) use size::LocksSize;

/// The same orders each time.
const SEED: u64 = 20;
/// Of each SKU, far more than is ordered.
const STOCK: i64 = 10_000_000;

/// Measures rounds of every kind, then the burst; `on_step` is called with what is being done.
///
/// # Errors
/// See [`LocksError`]. Orders closed twice or not at all are not an error, they are in the report.
pub(crate) async fn run(
    setup: &LocksSetup,
    size: &LocksSize,
    on_step: impl Fn(&str),
) -> Result<LocksReport, LocksError> {
    let mut report = LocksReport::new(size);
    let stop = Stop::new();
    // Ends with this, if it is given up.
    let mut worker = JoinSet::new();
    worker.spawn({
        let (worker, stop) = (Arc::clone(&setup.worker), stop.clone());
        async move { worker::run(&worker, &stop).await }
    });
    let measured = rounds(setup, size, &mut report, &on_step).await;
    stop.request();
    // What does not finish in time goes back to its queue, which is removed.
    let _ended = worker.join_next().await;
    measured?;
    on_step("a burst without locks, as a worker closes it and as plain SQL");
    burst::measure(&setup.worker.store, size, &mut report).await?;
    Ok(report)
}

async fn rounds(
    setup: &LocksSetup,
    size: &LocksSize,
    report: &mut LocksReport,
    on_step: &impl Fn(&str),
) -> Result<(), LocksError> {
    let publisher = Publisher::connect(&setup.worker.address, "overdue bench: publishing").await?;
    setup.payments.prepare_payments(setup.payment_connections).await?;
    setup.orders.fill_stock(&vec![STOCK; SKUS]).await?;
    let mut rng = StdRng::seed_from_u64(SEED);
    // The first one is not counted: connections are opened in it, and statements planned.
    for number in 0..=size.rounds {
        for held in Held::ALL {
            on_step(&format!("round {number} of {}, {}", size.rounds, held.describe()));
            let orders = RoundOrders::new(setup.orders.run(), number, held, size, &mut rng)?;
            let round = Round { setup, publisher: &publisher, size, held, orders: &orders };
            let (times, broken) = round.run().await?;
            report.broken.extend(
                broken
                    .into_iter()
                    .map(|broken| format!("round {number}, {}: {broken}", held.describe())),
            );
            if number > 0 {
                report.add(held, times);
            }
        }
    }
    Ok(())
}
