//! What demo and drill have in common: their options, playing the script, and the result.

use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::progress;
use crate::{
    cli::{
        exit::{self, Failure},
        output::Output,
        run::{Declaring, Inputs, prepare},
        setup,
    },
    config::Settings,
    demo::{self, DemoError, DemoSetup, progress::Progress, report::DemoReport, script::Script},
    order_service::{OrderService, RunId, ensure_tables},
    store::Store,
    topology::{
        Topology,
        file::DEFAULT_EFFECT,
        route::{Delay, Route},
    },
};

/// Who closes the orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkerPlace {
    /// A worker in this process
    Internal,
    /// One that runs already
    External,
}

/// Options of demo and drill.
#[derive(Debug, Args)]
pub(in crate::cli) struct RunOptions {
    /// Who closes the orders
    #[arg(long, value_enum, default_value = "internal")]
    worker: WorkerPlace,
    /// The timeout that closes them [default: the topology's only one with the effect `close`]
    #[arg(long)]
    timeout: Option<String>,
    /// The same number makes the same orders and payments again [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Connections for the payments
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    payers: u16,
    /// Leave the rows of the run in the database
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    output: Output,
}

impl RunOptions {
    /// The number that makes the script.
    pub(in crate::cli) fn seed(&self) -> u64 {
        // Short enough to be typed again.
        self.seed.unwrap_or_else(|| rand::random::<u32>().into())
    }

    /// Where the notices go, or an error that lists what there is.
    pub(in crate::cli) fn route(
        &self,
        topology: &Topology,
        delay: &Delay,
    ) -> Result<Route, Failure> {
        Ok(topology.route(self.timeout(topology)?, delay)?)
    }

    fn timeout<'a>(&'a self, topology: &'a Topology) -> Result<&'a str, Failure> {
        if let Some(timeout) = &self.timeout {
            return Ok(timeout);
        }
        // The orders of a run are unpaid, or paid in time.
        let mut closing =
            topology.timeouts.iter().filter(|timeout| timeout.effect == DEFAULT_EFFECT);
        match (closing.next(), closing.next(), topology.timeouts.as_slice()) {
            (Some(only), None, _) | (None, None, [only]) => Ok(&only.name),
            _ => Err(Failure::usage("the topology has several timeouts: name one with --timeout")),
        }
    }

    /// Plays the script to its end and prints the report.
    pub(in crate::cli) async fn play(
        self,
        settings: &Settings,
        route: Route,
        script: Script,
        rate: u32,
        title: &str,
    ) -> Result<(), Failure> {
        let setup = self.setup(settings, route, rate, &script.run).await?;
        let stop = setup::stop_on_signals()?;
        progress::announce(&script.run, title);
        let progress = Arc::new(Progress::default());
        let script = Arc::new(script);
        let played = tokio::select! {
            played = demo::run(&setup, &script, &progress, &stop) => played,
            () = progress::show(&progress, script.orders.len()) => return Ok(()),
        };
        let report = played.map_err(|error| failure(&script.run, &progress, error))?;
        self.output.print(&report)?;
        verdict(&report)
    }

    async fn setup(
        &self,
        settings: &Settings,
        route: Route,
        rate: u32,
        run: &RunId,
    ) -> Result<DemoSetup, Failure> {
        // The tables first: a worker checks them when it is prepared.
        ensure_tables(&setup::store(settings)?, &settings.database.search_path).await?;
        let inputs = Inputs::read(settings)?;
        let worker = prepare(settings, inputs, Declaring::Missing).await?;
        let timeout = self.timeout(&worker.topology)?;
        let timeout = worker.topology.timeout(timeout).ok_or_else(|| {
            Failure::configuration(format!(
                "timeout `{timeout}` was just removed from the topology"
            ))
        })?;
        let queue = worker.topology.business_queue(timeout);
        let database = &settings.database;
        let payment_connections = usize::from(self.payers);
        let payments =
            Store::new(database.url.expose(), &database.search_path, payment_connections)?;
        Ok(DemoSetup {
            orders: OrderService::new(worker.store.clone(), run.clone()),
            payments: OrderService::new(payments, run.clone()),
            worker: Arc::new(worker),
            in_process: self.worker == WorkerPlace::Internal,
            payment_connections,
            queue,
            route,
            rate,
            keep: self.keep,
        })
    }
}

/// What went wrong, and what to do about the rows.
fn failure(run: &RunId, progress: &Progress, error: DemoError) -> Failure {
    let failure = match error {
        DemoError::Store(error) => error.into(),
        DemoError::Connect(error) => error.into(),
        DemoError::Publish(error) => error.into(),
        DemoError::NoWorker { .. } => Failure { code: exit::UNAVAILABLE, text: error.to_string() },
        DemoError::Queue { .. } | DemoError::Panicked(_) => {
            Failure::failed(crate::text::error_chain(&error))
        }
    };
    if !progress.read().has_rows {
        return failure;
    }
    let text =
        format!("{}\nits rows stay; remove them with: overdue demo --remove {run}", failure.text);
    Failure { text, ..failure }
}

fn verdict(report: &DemoReport) -> Result<(), Failure> {
    match report.broken.len() {
        0 if report.interrupted => Err(Failure::failed("interrupted")),
        0 => Ok(()),
        1 => Err(Failure::failed("an invariant is broken")),
        count => Err(Failure::failed(format!("{count} invariants are broken"))),
    }
}
