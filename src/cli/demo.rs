//! `overdue demo`: some orders are paid, others are not, and a worker closes only the unpaid ones.

use std::{fs::File, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{sync::watch, time::interval};

use super::{
    exit::{self, Failure},
    output::{Output, print, report},
    progress::LINE_EVERY,
    run::{Declaring, prepare},
    setup::{self, Services},
};
use crate::{
    config::Settings,
    demo::{
        Demo, DemoError, Progress,
        report::DemoReport,
        script::{DemoShape, Script},
    },
    order_service::{OrderService, RunId},
    store::Store,
    text::counted,
    topology::{
        Topology,
        file::DEFAULT_EFFECT,
        level::{Level, Ttl},
        route::Delay,
    },
};

/// The most findings about a file that the command shows.
const SHOWN: usize = 20;
/// The shortest time from creation to deadline: the order must be created, published and paid in it.
const SHORTEST: Duration = Duration::from_millis(100);
/// Orders created per second by default: 2,000 orders take two seconds.
const RATE: u32 = 1_000;
/// Real orders created per second by default. On two cores with other work, payments and closings were tens of milliseconds late
/// at 500 a second, but not at 300.
const REAL_RATE: u32 = 300;
/// Default speed for real orders: 30 minutes take 3 s.
const REAL_SPEED: u32 = 600;

/// Play orders, payments and deadlines against a real worker
///
/// The command checks every invariant afterwards: for example, that no paid order was closed, and no order early or twice.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// How many orders, or a CSV file of real ones: order_id,purchased_at,approved_at; times like
    /// 2017-10-02T10:56:00Z, approved_at may be empty
    #[arg(long, default_value = "2000", value_name = "N|FILE", value_parser = orders)]
    orders: Orders,
    /// Time from creation to deadline [default: 10s; of real orders 30m]
    #[arg(long, value_name = "DURATION")]
    after: Option<Level>,
    /// How many times faster than real; --after divided by it is at least 100ms [default of real orders: 600]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    speed: Option<u32>,
    /// Share of the orders that are paid well before their deadline, 0 to 1
    #[arg(long, default_value_t = 0.5, value_parser = share)]
    paid_share: f64,
    /// Share that is paid within 50 ms of the deadline, before or after, 0 to 1
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    late_share: f64,
    /// Orders created per second [default: 1000; of real orders 300]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// Worker that closes the orders
    #[arg(long, value_enum, default_value = "internal")]
    worker: WorkerPlace,
    /// The timeout that closes them, with the built-in effect `close` [default: the topology's only one]
    #[arg(long)]
    timeout: Option<String>,
    /// Seed: the same number makes the same orders and payments [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Connections for the payments
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    payers: u16,
    /// Leave the rows of the run in the database
    #[arg(long)]
    keep: bool,
    /// Only remove the rows of a run that was kept or interrupted
    #[arg(long, value_name = "RUN", value_parser = RunId::parse, conflicts_with_all = ["orders", "after"])]
    remove: Option<RunId>,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Debug)]
enum Orders {
    Number(u32),
    Real(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkerPlace {
    /// A worker in this process
    Internal,
    /// A worker that runs already
    External,
}

impl DemoArgs {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        if let Some(run) = self.remove {
            return remove(settings, run).await;
        }
        let run = RunId::new(rand::random());
        // 32 bits are short enough to be typed again.
        let seed = self.seed.unwrap_or_else(|| rand::random::<u32>().into());
        let (script, rate) = self.script(&run, seed)?;
        let orders = script.orders.len();
        report(format!(
            "{run}: {}, due after {}, seed {seed}",
            counted(orders, "order"),
            script.after
        ));
        let demo = self.demo(settings, (run, seed), script, rate).await?;
        let stop = setup::stop_on_signals()?;
        let progress = watch::Sender::default();
        let played = tokio::select! {
            played = demo.run(&progress, &stop) => played,
            () = show(&progress, orders) => return Ok(()),
        };
        let report = played.map_err(|error| failure(&demo.run, error))?;
        self.output.print(&report)?;
        verdict(&report)
    }

    /// The orders, and how many are created per second. A file is read to its end before any order is created.
    fn script(&self, run: &RunId, seed: u64) -> Result<(Script, u32), Failure> {
        match &self.orders {
            Orders::Number(orders) => {
                if self.paid_share + self.late_share > 1.0 {
                    let text = "--paid-share and --late-share are more than 1 together";
                    return Err(Failure::usage(text));
                }
                let shape = DemoShape {
                    orders: *orders,
                    after: self.time("10s", 1)?,
                    paid_share: self.paid_share,
                    late_share: self.late_share,
                };
                let script = Script::random(run, shape, &mut StdRng::seed_from_u64(seed))
                    .map_err(|error| Failure::failed(error.to_string()))?;
                Ok((script, self.rate.unwrap_or(RATE)))
            }
            Orders::Real(path) => {
                let times = self.speed.unwrap_or(REAL_SPEED);
                let (path, time) = (path.display(), self.time("30m", times)?);
                let file = File::open(path.to_string()).map_err(|error| {
                    Failure::configuration(format!(
                        "cannot read the orders file {path}: {error}; name another one with --orders"
                    ))
                })?;
                let script = Script::read(run, file, (times, time)).map_err(|mut findings| {
                    let count = findings.len();
                    let more = if count > SHOWN { "\n  …" } else { "" };
                    findings.truncate(SHOWN);
                    Failure::configuration(format!(
                        "{} in {path}; correct the file and start again, nothing was created\n  {}{more}",
                        counted(count, "mistake"),
                        findings.join("\n  ")
                    ))
                })?;
                Ok((script, self.rate.unwrap_or(REAL_RATE)))
            }
        }
    }

    /// Time from creation to deadline, at the speed of the demo.
    fn time(&self, usual: &str, usual_speed: u32) -> Result<Ttl, Failure> {
        let after = match &self.after {
            Some(after) => after.clone(),
            None => usual.parse().map_err(|error| Failure::usage(format!("{error}")))?,
        };
        let speed = self.speed.unwrap_or(usual_speed);
        let time = after.ttl().as_duration() / speed;
        Ttl::of(time).filter(|_| time >= SHORTEST).ok_or_else(|| {
            let text = format!("{after} at speed {speed} is less than {SHORTEST:?}");
            Failure::usage(format!("{text}: raise --after or lower --speed"))
        })
    }

    async fn demo(
        &self,
        settings: &Settings,
        (run, seed): (RunId, u64),
        script: Script,
        rate: u32,
    ) -> Result<Demo, Failure> {
        let database = &settings.database;
        let delay = Delay::exactly(script.after.as_duration());
        let topology = setup::topology(settings)?;
        let timeout = self.timeout(settings, &topology)?;
        let route = topology.route(timeout, &delay)?;
        // Create the tables first, because preparing a worker checks them.
        let store = setup::store(settings)?;
        OrderService::ensure_tables(&store, &database.search_path).await?;
        let inputs = Services::open(settings)?;
        let worker = match prepare(settings, inputs, Declaring::Missing).await? {
            (worker, None) => worker,
            (_, Some(failure)) => return Err(failure),
        };
        let known = topology.timeout(timeout);
        let queues = known.map(|timeout| topology.business_queues(timeout)).unwrap_or_default();
        // A worker that consumes one shard consumes all of them.
        let queue = queues.into_iter().next().unwrap_or_default();
        let payment_connections = usize::from(self.payers);
        let payments =
            // Payments cannot use the half for closing.
            Store::new(database.url.expose(), &database.search_path, 2 * payment_connections)?;
        Ok(Demo {
            seed,
            script,
            orders: OrderService::new(worker.store.clone(), run.clone()),
            payments: OrderService::new(payments, run.clone()),
            worker: Arc::new(worker),
            in_process: self.worker == WorkerPlace::Internal,
            payment_connections,
            queue,
            route,
            rate,
            keep: self.keep,
            run,
        })
    }

    /// The timeout that closes the orders of a run, which are in the reference tables: unpaid, or paid in time. If other tables
    /// are configured, the demo is refused.
    fn timeout<'a>(
        &'a self,
        settings: &Settings,
        topology: &'a Topology,
    ) -> Result<&'a str, Failure> {
        let is_replaced = settings.effects.contains_key(DEFAULT_EFFECT);
        let closing = topology.timeouts.iter().filter(|it| it.effect == DEFAULT_EFFECT);
        let closing: Vec<&str> =
            closing.filter(|_| !is_replaced).map(|it| it.name.as_str()).collect();
        let file = settings.topology.display();
        let lacks = match (self.timeout.as_deref(), &closing[..]) {
            // `topology.route` reports an unknown name.
            (Some(name), _) if closing.contains(&name) || topology.timeout(name).is_none() => {
                return Ok(name);
            }
            (None, [only]) => return Ok(only),
            (None, [_, _, ..]) => {
                let text = format!("several timeouts in {file} have the effect `{DEFAULT_EFFECT}`");
                return Err(Failure::usage(format!("{text}: name one with --timeout")));
            }
            _ if is_replaced => "the settings have SQL of their own for that effect".to_owned(),
            (Some(name), _) => format!("timeout `{name}` in {file} has another effect"),
            (None, []) => format!("no timeout in {file} has that effect"),
        };
        Err(Failure::configuration(format!(
            "the demo makes orders in the reference tables, and the built-in effect `{DEFAULT_EFFECT}` closes them: {lacks}; \
             name other files with --topology and --config, and a database for the test (docs/sizing.md)"
        )))
    }
}

async fn remove(settings: &Settings, run: RunId) -> Result<(), Failure> {
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

/// A number of orders, or a file. For a file whose name is a number, write `./2000`.
fn orders(text: &str) -> Result<Orders, String> {
    match text.parse() {
        Ok(number) if (1..=1_000_000).contains(&number) => Ok(Orders::Number(number)),
        Ok(_) => Err("a demo has 1 to 1000000 orders".to_owned()),
        Err(_) => Ok(Orders::Real(text.into())),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

/// Adds how to remove the rows of the run.
fn failure(run: &RunId, error: DemoError) -> Failure {
    let failure = match error {
        DemoError::Store(error) => error.into(),
        DemoError::Connect(error) => error.into(),
        DemoError::Publish(error) => error.into(),
        DemoError::NoWorker { .. } => Failure { code: exit::UNAVAILABLE, text: error.to_string() },
        DemoError::Queue(_) | DemoError::Panicked(_) => {
            Failure::failed(crate::text::error_chain(&error))
        }
    };
    let text = format!(
        "{}\nrows of the run may be left; remove them with: overdue demo --remove {run}",
        failure.text
    );
    Failure { text, ..failure }
}

fn verdict(report: &DemoReport) -> Result<(), Failure> {
    match report.broken() {
        0 if report.interrupted => Err(Failure::failed("interrupted")),
        0 => Ok(()),
        1 => Err(Failure::failed("an invariant is broken")),
        count => Err(Failure::failed(format!("{count} invariants are broken"))),
    }
}

/// Reports the progress on standard error every five seconds until the future is dropped.
async fn show(progress: &watch::Sender<Progress>, orders: usize) {
    let mut ticks = interval(LINE_EVERY);
    let began = ticks.tick().await;
    loop {
        let now = ticks.tick().await;
        let Progress { phase, created, unpaid } = *progress.borrow();
        let seconds = (now - began).as_secs();
        report(format!("{seconds} s: {phase}: created {created}, unpaid {unpaid} of {orders}"));
    }
}
