//! Demo and drill: orders with stock and payments that come at known times, against a real worker.
//!
//! A run follows a [`Script`]: which orders there are, what is in them, when each is paid, and what has to
//! become of it. One engine plays it, whoever wrote it:
//!
//! ```text
//! Script ─create, publish─▶ orders + messages ─pay, close─▶ Evidence ─check─▶ Report
//! ```
//!
//! Everything a run makes carries its id in front, and every check looks at these rows alone, so any number
//! of runs share one database and one broker.

pub mod basket;
pub mod board;
pub mod check;
pub mod clock;
pub mod create;
pub mod drill;
pub mod ending;
pub mod evidence;
pub mod parking;
pub mod payments;
pub mod report;
pub mod script;
pub mod tables;

use std::{sync::Arc, time::Instant};

use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    broker::{ConnectError, PublishError, Publisher},
    shutdown::Stop,
    store::{Store, StoreError},
    topology::route::Route,
    worker::{self, Worker},
};
use board::Board;
use clock::Clock;
use evidence::{Evidence, Timing};
use parking::ParkingWatch;
use report::{Report, Rows};
use script::Script;

/// Where a run plays.
pub struct Stage {
    /// Broker, database and topology; runs in this process if `in_process`, else it only names them.
    pub worker: Arc<Worker>,
    /// Whether this process closes the orders too.
    pub in_process: bool,
    /// Connections of the payments alone, so that a payment never waits for one.
    pub payers: Store,
    /// How many of these connections there are.
    pub payer_count: usize,
    /// The queue of the timeout whose effect closes the orders.
    pub queue: String,
    /// Where the due notices are published.
    pub route: Route,
    /// Orders created per second.
    pub rate: u32,
    /// Whether the rows stay in the database.
    pub keep: bool,
}

/// Why a run could not be played to its end. Its rows stay; [`tables::remove`] takes them away.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The database did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A due notice was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A queue could not be looked at.
    #[error("failed to {step} queue `{queue}`")]
    Queue {
        /// What was being done.
        step: &'static str,
        /// Which queue.
        queue: String,
        /// What the client said.
        source: lapin::Error,
    },
    /// Nobody would close the orders.
    #[error(
        "no worker consumes queue `{queue}`: start one with `overdue run`, or leave out `--worker external`"
    )]
    NoWorker {
        /// Which queue.
        queue: String,
    },
    /// A part of the run panicked: a defect of this program.
    #[error("a part of the run panicked: {0}")]
    Panicked(String),
}

/// Plays a script and says what came of it. Ends by itself, `after` + 60 s past the last order at the latest,
/// or soon after a stop was asked for.
///
/// # Errors
/// See [`DemoError`]. A broken invariant is no error, it is in the report.
pub async fn run(
    stage: &Stage,
    script: &Arc<Script>,
    board: &Arc<Board>,
    stop: &Stop,
) -> Result<Report, DemoError> {
    let in_process = stage.in_process.then(|| InProcess::start(&stage.worker));
    let played = play(stage, script, board, stop).await;
    if let Some(worker) = in_process {
        worker.end().await;
    }
    let mut evidence = played?;
    evidence.put_back = stage.in_process.then(|| stage.worker.counters.read().put_back);
    let rows = leave(stage, script, &evidence).await?;
    Ok(Report::new(script, &evidence, rows))
}

async fn play(
    stage: &Stage,
    script: &Arc<Script>,
    board: &Arc<Board>,
    stop: &Stop,
) -> Result<Evidence, DemoError> {
    board.enter("connecting");
    let began = Instant::now();
    let (address, store) = (&stage.worker.address, &stage.worker.store);
    let topology = &stage.worker.topology;
    let parking = ParkingWatch::open(address, topology, &script.run).await?;
    board.enter("waiting for a worker");
    parking.worker_consumes(&stage.queue, stop).await?;
    let publisher = Publisher::connect(address, "overdue demo: publishing").await?;
    tables::warm(&stage.payers, stage.payer_count, "pay", payments::SQL).await?;
    let clock = Clock::read(&stage.payers).await?;
    board.write_rows();
    tables::fill_shelves(store, script).await?;

    board.enter("creating orders");
    let (to_payers, agenda) = mpsc::unbounded_channel();
    let (to_ending, created) = mpsc::unbounded_channel();
    // A part that fails ends the others; a stop from outside ends all of them.
    let parts = stop.child();
    let cashier = payments::Cashier {
        store: stage.payers.clone(),
        connections: stage.payer_count,
        script: Arc::clone(script),
        board: Arc::clone(board),
    };
    let paying = tokio::spawn({
        let parts = parts.clone();
        async move { or_stop(&parts, cashier.take_payments(agenda, &parts)).await }
    });
    let creating =
        create::create_all(stage, script, board, &publisher, clock, [to_payers, to_ending], &parts);
    let ending = ending::until_final(store, script, board, created, &parts);
    let (creation, ending) = tokio::join!(or_stop(&parts, creating), or_stop(&parts, ending));
    let payments = paying.await.map_err(|panic| DemoError::Panicked(panic.to_string()))?;
    let (creation, mut ending, payments) = (creation?, ending?, payments?);
    ending.drained |= creation.published == 0;

    board.enter("checking");
    let interrupted = stop.is_requested();
    let timing = Timing { creating: creation.took, running: began.elapsed() };
    let mut evidence =
        Evidence::gather(store, script, creation.orders, payments, timing, ending).await?;
    evidence.parked = parking.parked(&script.run).await?;
    evidence.interrupted = interrupted;
    Ok(evidence)
}

async fn or_stop<T, E>(stop: &Stop, part: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let result = part.await;
    if result.is_err() {
        stop.request();
    }
    result
}

/// A message whose order is gone would be retried and end in the parking lot: rows go only when all messages came.
async fn leave(stage: &Stage, script: &Script, evidence: &Evidence) -> Result<Rows, StoreError> {
    if stage.keep {
        return Ok(Rows::Kept);
    }
    if !evidence.ending.drained {
        return Ok(Rows::Needed);
    }
    tables::remove(&stage.worker.store, &script.run).await?;
    Ok(Rows::Removed)
}

/// The worker of this process, with a stop of its own: it works until the run has been checked.
struct InProcess {
    stop: Stop,
    task: JoinHandle<()>,
    drain: std::time::Duration,
}

impl InProcess {
    fn start(worker: &Arc<Worker>) -> Self {
        let stop = Stop::new();
        let task = tokio::spawn({
            let (worker, stop) = (Arc::clone(worker), stop.clone());
            async move { worker::run(&worker, &stop).await }
        });
        Self { stop, task, drain: worker.settings.drain.as_duration() }
    }

    async fn end(self) {
        self.stop.request();
        // What does not finish in time, or panicked, goes back to its queue with the process.
        let _ended = tokio::time::timeout(self.drain, self.task).await;
    }
}
