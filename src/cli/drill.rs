//! `overdue drill`: the demo with real orders, each paid when it really was, only faster.

use std::{fs::File, path::PathBuf, time::Duration};

use clap::Args;
use rand::{SeedableRng, rngs::StdRng};

use super::{demo::options::RunOptions, exit::Failure, setup};
use crate::{
    config::Settings,
    drill::{
        self,
        file::{self, RealOrder},
    },
    order_service::RunId,
    text::counted,
    topology::{
        level::{Level, Ttl},
        route::Delay,
    },
};

/// Findings shown of a file with more of them.
const SHOWN: usize = 20;
/// The shortest time that an order can have to be paid: its creation, its publishing and its payment need some of it.
const SHORTEST: Duration = Duration::from_millis(100);
/// Created per second where nothing else is asked for. At 500 a second payments and closings come late by tens of
/// milliseconds on two cores that have other work too, at 300 they do not.
const RATE: u32 = 300;

/// Play real orders at many times their speed, and check that exactly those paid in time stay paid
#[derive(Debug, Args)]
pub(super) struct Drill {
    /// CSV file with the header order_id,purchased_at,approved_at; times like 2017-10-02T10:56:00Z, approved_at may be empty
    #[arg(long, value_name = "FILE")]
    orders: PathBuf,
    /// How long an order really had to be paid
    #[arg(long, default_value = "30m", value_name = "DURATION")]
    after: Level,
    /// How many times faster than real; --after divided by it is at least 100ms
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    speed: u32,
    /// Orders created per second
    #[arg(long, default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    #[command(flatten)]
    options: RunOptions,
}

impl Drill {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let time = self.time()?;
        let route = self.options.route(&topology, &Delay::exactly(time.as_duration()))?;
        let orders = self.read()?;
        let seed = self.options.seed();
        let run = RunId::new("drill", rand::random());
        let script =
            drill::script(run, &orders, (self.speed, time), &mut StdRng::seed_from_u64(seed))
                .map_err(|error| Failure::failed(error.to_string()))?;
        let title = format!(
            "{} orders from {}, due after {} at speed {}, which is {time}",
            orders.len(),
            self.orders.display(),
            self.after,
            self.speed
        );
        self.options.play(settings, route, script, self.rate, &title).await
    }

    /// What is left of the time at that speed.
    fn time(&self) -> Result<Ttl, Failure> {
        let time = self.after.ttl().as_duration() / self.speed;
        let long_enough = Ttl::of(time).filter(|_| time >= SHORTEST);
        long_enough.ok_or_else(|| {
            Failure::usage(format!(
                "{} at speed {} is less than {SHORTEST:?}: lower --speed",
                self.after, self.speed
            ))
        })
    }

    /// The whole file, or everything that is wrong with it; nothing has been created by then.
    fn read(&self) -> Result<Vec<RealOrder>, Failure> {
        let path = self.orders.display();
        let input = File::open(&self.orders).map_err(|error| {
            Failure::configuration(format!(
                "cannot read the orders file {path}: {error}; name another one with --orders"
            ))
        })?;
        file::read(input).map_err(|mut findings| {
            let count = findings.len();
            let more = if count > SHOWN { "\n  …" } else { "" };
            findings.truncate(SHOWN);
            Failure::configuration(format!(
                "{} in {path}; correct the file and start again, nothing was created\n  {}{more}",
                counted(count, "mistake"),
                findings.join("\n  ")
            ))
        })
    }
}
