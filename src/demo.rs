//! Demo and drill: orders with stock and payments that come at known times, against a real worker.
//!
//! A run plays a [`Script`]: which orders there are, what is in them, when each is paid, and what has to become
//! of it. Demo and drill differ only in the script:
//!
//! ```text
//! Script ─create, publish─▶ orders + messages ─pay, close─▶ Evidence ─check─▶ DemoReport
//! ```

pub(crate) mod check;
pub(crate) mod clock;
mod create;
pub(crate) mod ending;
mod error;
pub(crate) mod evidence;
mod parking;
pub(crate) mod payments;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod script;
mod setup;

use std::{sync::Arc, time::Instant};

use tokio::sync::mpsc;

use crate::{broker::Publisher, shutdown::Stop, store::StoreError, worker};
use clock::Clock;
pub(crate) use error::DemoError;
use evidence::{Evidence, Timing};
use parking::ParkingWatch;
use payments::Payments;
use progress::Progress;
use report::{DemoReport, Rows};
use script::Script;
pub(crate) use setup::DemoSetup;

/// Plays a script and reports what became of it. Ends by itself, `after` + 60 s past the last order at the
/// latest, or soon after a stop was requested.
///
/// # Errors
/// See [`DemoError`]. A broken invariant is not an error, it is in the report.
pub(crate) async fn run(
    setup: &DemoSetup,
    script: &Arc<Script>,
    progress: &Arc<Progress>,
    stop: &Stop,
) -> Result<DemoReport, DemoError> {
    // It works until the run has been checked, so it has a stop of its own.
    let stop_worker = Stop::new();
    let worker = setup.in_process.then(|| {
        let (worker, stop) = (Arc::clone(&setup.worker), stop_worker.clone());
        tokio::spawn(async move { worker::run(&worker, &stop).await })
    });
    let played = play(setup, script, progress, stop).await;
    stop_worker.request();
    if let Some(worker) = worker {
        // What does not finish in time, or panicked, goes back to its queue with the process.
        let _ended = worker.await;
    }
    let mut evidence = played?;
    evidence.put_back = setup.in_process.then(|| setup.worker.counters.read().put_back);
    let rows = remove_rows(setup, &evidence).await?;
    Ok(DemoReport::new(script, &evidence, rows))
}

async fn play(
    setup: &DemoSetup,
    script: &Arc<Script>,
    progress: &Arc<Progress>,
    stop: &Stop,
) -> Result<Evidence, DemoError> {
    progress.enter("connecting");
    let began = Instant::now();
    let (address, topology) = (&setup.worker.address, &setup.worker.topology);
    let parking = ParkingWatch::open(address, topology, &script.run).await?;
    progress.enter("waiting for a worker");
    parking.worker_consumes(&setup.queue, stop).await?;
    let publisher = Publisher::connect(address, "overdue demo: publishing").await?;
    setup.payments.prepare_payments(setup.payment_connections).await?;
    let clock = Clock::read(&setup.worker.store).await?;
    progress.update(|state| state.has_rows = true);
    setup.orders.fill_stock(&script.initial_stock()).await?;

    progress.enter("creating orders");
    let (to_payments, for_payments) = mpsc::unbounded_channel();
    let (to_ending, for_ending) = mpsc::unbounded_channel();
    // A part that fails ends the others; a stop from outside ends all of them.
    let parts = stop.child();
    let payments = Payments {
        service: setup.payments.clone(),
        connections: setup.payment_connections,
        script: Arc::clone(script),
        progress: Arc::clone(progress),
    };
    let paying = tokio::spawn({
        let parts = parts.clone();
        async move { or_stop(&parts, payments.send_all(for_payments, &parts)).await }
    });
    let created = [to_payments, to_ending];
    let creating = create::create_all(setup, script, progress, &publisher, clock, created, &parts);
    let ending = ending::until_final(&setup.orders, script, progress, for_ending, &parts);
    let (creation, ending) = tokio::join!(or_stop(&parts, creating), or_stop(&parts, ending));
    let payments = paying.await.map_err(|panic| DemoError::Panicked(panic.to_string()))?;
    let (creation, mut ending, payments) = (creation?, ending?, payments?);
    ending.drained |= creation.published == 0;

    progress.enter("checking");
    let interrupted = stop.is_requested();
    let timing = Timing { creating: creation.took, running: began.elapsed() };
    let ids: Vec<&str> = script.ids().take(creation.orders).collect();
    Ok(Evidence {
        created: creation.orders,
        facts: setup.orders.facts(&ids).await?,
        payments,
        parked: parking.parked(&script.run).await?,
        put_back: None,
        timing,
        ending,
        interrupted,
    })
}

async fn or_stop<T, E>(stop: &Stop, part: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let result = part.await;
    if result.is_err() {
        stop.request();
    }
    result
}

/// A message whose order is gone would be retried and end in the parking lot: rows go only after all messages.
async fn remove_rows(setup: &DemoSetup, evidence: &Evidence) -> Result<Rows, StoreError> {
    if setup.keep {
        return Ok(Rows::Kept);
    }
    if !evidence.ending.drained {
        return Ok(Rows::Needed);
    }
    setup.orders.remove().await?;
    Ok(Rows::Removed)
}
