//! The demo: orders with stock and payments at known times, against a real worker.
//!
//! ```text
//! Script ─create, publish─▶ orders + messages ─pay, close─▶ outcome, invariants ─▶ DemoReport
//! ```

mod customers;
mod parking;
pub(crate) mod report;
pub(crate) mod script;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    messaging::{ConnectError, PublishError, Publisher, consume::ConsumeError},
    order_service::{
        Open, OrderService, RunId,
        outcome::{Invariant, per_second},
    },
    shutdown::Stop,
    store::{StoreError, orders::ClosingPath},
    topology::route::Route,
    worker::{self, Worker},
};
use customers::Customers;
use parking::ParkingWatch;
use report::{DemoReport, Rows};
use script::Script;

/// How long past the last deadline the demo waits for orders.
const FINAL_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval of the questions to the database about the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Parameters and connections of a run.
pub(crate) struct Demo {
    /// Prefix of every id and SKU.
    pub run: RunId,
    /// Determines the content of the orders.
    pub seed: u64,
    pub script: Script,
    /// Broker, database and topology. If `in_process`, this worker runs; otherwise it is only a description.
    pub worker: Arc<Worker>,
    /// Whether the worker runs in this process.
    pub in_process: bool,
    /// The service on the connections of the worker.
    pub orders: OrderService,
    /// The service on its own connections, so that no payment waits for a connection.
    pub payments: OrderService,
    pub payment_connections: usize,
    /// The queue of the timeout whose effect closes the orders.
    pub queue: String,
    /// Where the due notices are published.
    pub route: Route,
    /// Orders created per second.
    pub rate: u32,
    /// Whether the rows stay in the database after the run.
    pub keep: bool,
}

/// The state of a run at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub phase: &'static str,
    /// Orders in the database whose message was confirmed.
    pub created: u64,
    /// Created orders that are neither paid nor closed.
    pub unpaid: u64,
}

/// Why there is no report. The rows of the run remain; `overdue demo --remove` removes them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A due notice was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The queue of the timeout cannot be examined, or the run's own queue with copies of parked messages.
    #[error(transparent)]
    Queue(#[from] ConsumeError),
    /// No worker consumes the queue of the timeout.
    #[error(
        "no worker consumes queue `{queue}`: start one with `overdue run`, or leave out `--worker external`"
    )]
    NoWorker {
        /// The queue of the timeout.
        queue: String,
    },
    /// A payment panicked; this is a defect of the program.
    #[error("a payment panicked: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

impl Demo {
    /// Plays the script and returns a report. Ends at most `after` + 60 s past the last order, or soon after a stop was
    /// requested. A broken invariant is not an error: the report contains it.
    pub(crate) async fn run(
        &self,
        progress: &watch::Sender<Progress>,
        stop: &Stop,
    ) -> Result<DemoReport, DemoError> {
        // The worker runs until the run has been checked, so it has its own stop.
        let stop_worker = Stop::new();
        let worker = self.in_process.then(|| {
            let (worker, stop) = (Arc::clone(&self.worker), stop_worker.clone());
            tokio::spawn(async move { worker::run(&worker, &stop).await })
        });
        let played = self.play(progress, stop).await;
        stop_worker.request();
        if let Some(worker) = worker {
            // The broker requeues unacked messages when the process ends.
            let _ended = worker.await;
        }
        let mut report = played?;
        report.put_back = self.in_process.then(|| self.worker.counters.read().put_back);
        // A message whose order is gone would be retried and parked, so rows are removed only after all messages.
        if self.keep {
            report.rows = Rows::Kept;
        } else if report.drained {
            self.orders.remove().await?;
            report.rows = Rows::Removed;
        }
        Ok(report)
    }

    async fn play(
        &self,
        progress: &watch::Sender<Progress>,
        stop: &Stop,
    ) -> Result<DemoReport, DemoError> {
        let enter = |phase| progress.send_modify(|progress| progress.phase = phase);
        enter("connecting");
        let began = Instant::now();
        let address = &self.worker.address;
        let parking = ParkingWatch::open(address, &self.worker.topology, &self.run).await?;
        enter("waiting for a worker");
        parking.worker_consumes(&self.queue, stop).await?;
        let publisher = Publisher::connect(address, "overdue demo: publishing").await?;
        self.payments.prepare_payments(self.payment_connections).await?;
        enter("creating orders");
        self.orders.fill_stock().await?;
        let mut customers = Customers::default();
        tokio::select! {
            created = customers.create(self, &publisher, progress, stop) => created?,
            error = self.follow(progress, None, stop) => drop(error?),
        }
        enter("waiting for the deadlines");
        let give_up = Instant::now() + self.script.after.as_duration() + FINAL_TIMEOUT;
        let open = self.follow(progress, Some(give_up), stop).await?;
        let answers = customers.answers().await?;
        enter("checking");
        let finished = !stop.is_requested();
        let mut invariants = self.orders.invariants(finished, &answers).await?;
        let parked = parking.parked(&self.run).await?;
        invariants.push(Invariant {
            what: "no order is in the parking lot".to_owned(),
            broken: u64::try_from(parked.len()).unwrap_or(u64::MAX),
            example: parked.into_iter().next(),
        });
        Ok(DemoReport {
            version: report::VERSION,
            run: self.run.to_string(),
            after_ms: self.script.after.as_millis(),
            created_per_s: per_second(customers.created, customers.creating),
            outcome: self.orders.outcome().await?,
            payments_refused: answers.iter().filter(|it| it.answer == "refused").count(),
            put_back: None,
            run_time_s: (began.elapsed().as_secs_f64() * 100.0).round() / 100.0,
            invariants,
            interrupted: !finished,
            drained: customers.published == 0
                || open.last_path.as_deref() == Some(ClosingPath::Message.as_str()),
            rows: Rows::Needed,
        })
    }

    /// Reports the progress until a stop is requested, no order is unpaid, or `give_up` is reached. Without `give_up` it
    /// never returns.
    async fn follow(
        &self,
        progress: &watch::Sender<Progress>,
        give_up: Option<Instant>,
        stop: &Stop,
    ) -> Result<Open, StoreError> {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let open = self.orders.open(self.script.last.as_str()).await?;
            progress.send_modify(|progress| progress.unpaid = open.unpaid);
            let over = |at| open.unpaid == 0 || Instant::now() >= at || stop.is_requested();
            if give_up.is_some_and(over) {
                return Ok(open);
            }
        }
    }
}
