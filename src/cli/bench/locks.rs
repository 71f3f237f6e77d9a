//! `overdue bench locks`: what locked rows cost the others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use clap::Args;

use super::finished::Finished;
use crate::{
    bench::locks::{self, LocksError, LocksSetup, LocksSize, report::LocksReport},
    broker::{Management, TopologyChange},
    cli::{
        exit::Failure,
        output::{Output, report_step},
        setup,
    },
    config::Settings,
    order_service::{OrderService, RunId},
    store::{Store, orders::Effect},
    topology::Topology,
    worker::Worker,
};

/// Connections of the order service.
const ORDER_CONNECTIONS: usize = 2;
/// Connections for payments.
const PAYMENT_CONNECTIONS: usize = 8;

/// Lets a real worker close orders that become due one after the other, while somebody's transaction keeps 20 orders
/// locked, or a hot SKU, or nothing; and pays orders meanwhile.
///
/// In a schema of its own, and a topology of its own, `overdue-bench-…`, in the virtual host of the settings; both are
/// removed at the end. Needs the rights of a topology administrator on it, and to read and write all of it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Locks {
    /// Orders that become due per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Seconds of a round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Rounds of each kind; one more is not counted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Orders of a burst without locks
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    burst: u32,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

impl Locks {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        finished.print(self.output)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<LocksReport>, Failure> {
        let stop = setup::stop_on_signals()?;
        let management = setup::management(settings)?;
        let schema = format!("overdue_bench_{}", std::process::id());
        let name = format!("overdue-bench-{:08x}", rand::random::<u32>());
        let store = Store::new(settings.database.url.expose(), &schema, 1)?;
        report_step(&format!(
            "in {}, exchanges and queues called {name}.*, and in schema {schema}",
            management.address()
        ));
        let measured = tokio::select! {
            measured = self.measure(settings, &management, &name, &schema) => measured,
            () = stop.requested() => Err(Failure::failed("interrupted")),
        };
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        let dropped = store.run_script("drop_schema", &drop).await;
        let removed = management.remove_topology(&name).await;
        let report = measured?;
        dropped?;
        removed?;
        let is_right = report.broken.is_empty();
        Ok(Finished::of(report, is_right))
    }

    async fn measure(
        &self,
        settings: &Settings,
        management: &Management,
        name: &str,
        schema: &str,
    ) -> Result<LocksReport, Failure> {
        let store = |connections| Store::new(settings.database.url.expose(), schema, connections);
        let worker_store = store(settings.database.connections)?;
        worker_store.init(schema, true).await?;
        let topology = topology(name)?;
        TopologyChange::new(management, &topology).apply().await?;
        let effects = BTreeMap::from([("close".to_owned(), Effect::close())]);
        let worker = Worker::new(
            setup::address(settings)?,
            Some(setup::management(settings)?),
            worker_store,
            topology,
            effects,
            settings.worker.clone(),
        );
        let run = RunId::new("bench", rand::random());
        let locks_setup = LocksSetup {
            worker: Arc::new(worker),
            orders: OrderService::new(store(ORDER_CONNECTIONS)?, run.clone()),
            payments: OrderService::new(store(PAYMENT_CONNECTIONS)?, run),
            payment_connections: PAYMENT_CONNECTIONS,
            holder: store(1)?,
        };
        Ok(locks::run(&locks_setup, &self.size(), report_step).await?)
    }

    fn size(&self) -> LocksSize {
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        LocksSize {
            rate: of(self.rate),
            round: Duration::from_secs(self.seconds.into()),
            rounds: of(self.rounds),
            burst: of(self.burst),
        }
    }
}

fn topology(name: &str) -> Result<Topology, Failure> {
    let text = format!(
        "name = \"{name}\"\ndelay.levels = [\"1s\", \"10s\"]\nretry.after = [\"10s\"]\n\
         [[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n"
    );
    Topology::parse(&text).map_err(|findings| Failure::failed(format!("{findings:?}")))
}

impl From<LocksError> for Failure {
    fn from(error: LocksError) -> Self {
        match error {
            LocksError::Connect(error) => error.into(),
            LocksError::Publish(error) => error.into(),
            LocksError::Store(error) => error.into(),
            LocksError::Route(error) => error.into(),
            LocksError::OrderId(_) | LocksError::Stuck { .. } => Self::failed(error.to_string()),
        }
    }
}
