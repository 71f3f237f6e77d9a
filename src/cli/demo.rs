//! `overdue demo`: orders that are paid, orders that are not, and a worker that closes only those.

pub(super) mod options;
mod progress;

use clap::Args;
use rand::{SeedableRng, rngs::StdRng};

use super::{exit::Failure, output::print, setup};
use crate::{
    config::Settings,
    demo::script::{DemoShape, Script},
    order_service::{OrderService, RunId},
    text::counted,
    topology::{level::LevelError, route::Delay},
};
use options::RunOptions;

/// Created per second where nothing else is asked for: 2,000 orders take two seconds.
const RATE: u32 = 1_000;

/// Play orders, payments and deadlines against a real worker, and check every invariant
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Orders
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    orders: u32,
    /// From creation to deadline: a level of the topology
    #[arg(long, default_value = "10s", value_name = "LEVEL")]
    after: String,
    /// Share of the orders that are paid well before their deadline, 0 to 1
    #[arg(long, default_value_t = 0.5, value_parser = share)]
    paid_share: f64,
    /// Share that is paid within 50 ms of the deadline, before or after, 0 to 1
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    late_share: f64,
    /// Orders created per second
    #[arg(long, default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Only remove the rows of a run that was kept or interrupted
    #[arg(long, value_name = "RUN", value_parser = RunId::parse, conflicts_with_all = ["orders", "after"])]
    remove: Option<RunId>,
    #[command(flatten)]
    options: RunOptions,
}

impl Demo {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        if let Some(run) = &self.remove {
            return remove(settings, run).await;
        }
        if self.paid_share + self.late_share > 1.0 {
            return Err(Failure::usage("--paid-share and --late-share are more than 1 together"));
        }
        let topology = setup::topology(settings)?;
        let delay = Delay::Level(self.after.clone());
        let route = self.options.route(&topology, &delay)?;
        let shape = DemoShape {
            orders: usize::try_from(self.orders).unwrap_or(usize::MAX),
            after: self
                .after
                .parse()
                .map_err(|error: LevelError| Failure::usage(error.to_string()))?,
            paid_share: self.paid_share,
            late_share: self.late_share,
        };
        let seed = self.options.seed();
        let run = RunId::new("demo", rand::random());
        let script = Script::demo(run, shape, &mut StdRng::seed_from_u64(seed))
            .map_err(|error| Failure::failed(error.to_string()))?;
        let title = format!("{} orders, due after {}, seed {seed}", self.orders, self.after);
        self.options.play(settings, route, script, self.rate, &title).await
    }
}

async fn remove(settings: &Settings, run: &RunId) -> Result<(), Failure> {
    let service = OrderService::new(setup::store(settings)?, run.clone());
    let waiting = service.waiting().await?;
    if waiting > 0 {
        return Err(Failure::failed(format!(
            "{} of {run} still wait for their messages, which would end in the parking lot without them; let a worker \
             close them (overdue run), then remove them",
            counted(waiting, "order")
        )));
    }
    let orders = service.remove().await?;
    print(format!("removed {} of {run}", counted(orders, "order")))
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}
