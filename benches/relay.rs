//! The relay of events: how many events per second get from the outbox to the broker, and the cost. Measured for the worker,
//! the AMQP client alone, plain SQL that only takes and deletes the rows, and the usual relay.
//!
//! The outbox is filled beforehand, and each relay is a new process. The time is from its start until the outbox is empty.
//! Every event is received and counted.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use lapin::{Channel, options::QueuePurgeOptions};
use overdue::{
    Binding, Change, Queue, Topology,
    internals::broker::{Link, consume::Subscription},
};
use support::{
    Benchmark, Result, closers, options::Options, process::Process, report::Report, rivals, say,
    shop::per_second, stage::Stage, until, usage::memory_mib,
};

/// Events of the first round, which is not counted.
const WARM_UP: usize = 2_000;
/// Polling interval, which is the error of a measured time.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Most unacked deliveries, the limit of a quorum queue; and deliveries acked at once.
const PREFETCH: u16 = 2_000;
const ACKED_AT_ONCE: u32 = 500;
const TOPOLOGY: &str = "name = \"bench\"\ndelay.levels = [\"10s\"]\nretry.after = [\"10s\"]\n\
                        [[timeout]]\nname = \"unpaid\"\nafter = \"10s\"\n";

/// Programs that publish the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// `overdue run`
    Overdue,
    /// The AMQP client with the same number of events, and no database: a floor
    Client,
    /// Rows locked and deleted, 2,000 at once, and nothing published: the other floor
    Database,
    /// The usual relay: lock 100 rows, publish, wait for the confirms, delete, commit
    SkipLocked,
}

/// How fast events get from the outbox to the broker
#[derive(Debug, Parser)]
struct Relay {
    /// Events in the outbox, two of each order
    #[arg(long, default_value_t = 50_000)]
    events: usize,
    /// Measure only these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Who>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Relay>()
}

impl Benchmark for Relay {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        self.events = 500;
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let (all, rounds) = (self.events.max(1), self.options.rounds_or(5));
        let what = format!(
            "{all} events in the outbox, two of each order, to one quorum queue; lapin alone has at most {} unconfirmed; \
             medians of {rounds} rounds",
            rivals::WINDOW
        );
        let mut report = Report::new("relay", what, stage);
        let relayers = self.relayers()?;
        report.show(relayers.iter().map(|relayer| &relayer.name));
        let subscriber = Subscriber::declare(stage).await?;
        for number in 0..=rounds {
            let events = if number == 0 { all.min(WARM_UP) } else { all };
            for step in 0..relayers.len() {
                let relayer = &relayers[(step + number) % relayers.len()];
                say(&format!("round {number} of {rounds}: {}", relayer.name));
                let counted = (number > 0).then_some(&mut report);
                subscriber.round(stage, relayer, events, counted).await?;
            }
        }
        for ours in relayers.iter().filter(|relayer| relayer.who == Who::Overdue) {
            for other in relayers.iter().filter(|other| other.who != Who::Overdue) {
                report.compare("events_per_s", &ours.name, &other.name);
            }
        }
        Ok(report)
    }
}

/// A contestant, with the program that is started for it.
struct Relayer {
    who: Who,
    program: PathBuf,
    name: String,
}

impl Relay {
    fn relayers(&self) -> Result<Vec<Relayer>> {
        let this = std::env::current_exe()?;
        let wanted = Who::value_variants().iter();
        let wanted = wanted.filter(|who| self.only.is_empty() || self.only.contains(who));
        let mut relayers = Vec::new();
        for &who in wanted {
            let title = match who {
                Who::Overdue => {
                    let programs = self.options.programs().into_iter();
                    relayers.extend(programs.map(|(program, label)| Relayer {
                        who,
                        program,
                        name: format!("overdue{label}"),
                    }));
                    continue;
                }
                Who::Client => "lapin alone",
                Who::Database => "plain SQL, 2,000 at once",
                Who::SkipLocked => "SKIP LOCKED, 100 at once",
            };
            relayers.push(Relayer { who, program: this.clone(), name: title.to_owned() });
        }
        Ok(relayers)
    }
}

/// A topology, and the queue that receives its events.
struct Subscriber {
    topology: Topology,
    file: String,
    queue: String,
    link: Link,
    channel: Channel,
}

impl Subscriber {
    async fn declare(stage: &Stage) -> Result<Self> {
        let (topology, file) = stage.topology(TOPOLOGY).await?;
        let queue = Queue {
            name: "subscriber".to_owned(),
            kind: "quorum".to_owned(),
            durable: true,
            auto_delete: false,
            exclusive: false,
            arguments: BTreeMap::new(),
        };
        let name = queue.name.clone();
        let binding = Binding {
            source: topology.events_exchange(),
            destination: name.clone(),
            to_queue: true,
            routing_key: "#".to_owned(),
            arguments: BTreeMap::new(),
        };
        for change in [Change::CreateQueue(queue), Change::Bind(binding)] {
            stage.management.apply(&change).await?;
        }
        let link = Link::open(&stage.address, "bench: looking").await?;
        let channel = link.channel().await?;
        Ok(Self { topology, file, queue: name, link, channel })
    }

    /// Starts a relay and measures until it has published all events.
    async fn round(
        &self,
        stage: &Stage,
        relayer: &Relayer,
        events: usize,
        report: Option<&mut Report>,
    ) -> Result<()> {
        fill(stage, events).await?;
        let purge = QueuePurgeOptions::default();
        self.channel.queue_purge(self.queue.as_str().into(), purge).await?;
        let before = stage.meters.read(&[]);
        let began = Instant::now();
        let mut process = self.start(stage, relayer, events)?;
        let client = stage.store.client().await?;
        until("there are still events to publish", LOOK_EVERY, async || {
            process.check()?;
            let is_done = if relayer.who == Who::Client {
                usize::try_from(closers::counts(&self.channel, &self.queue).await?.0)? >= events
            } else {
                client.query_one("SELECT NOT EXISTS (SELECT FROM outbox)", &[]).await?.get(0)
            };
            Ok(is_done.then_some(()))
        })
        .await?;
        let took = began.elapsed();
        let (after, now) = (stage.meters.read(&[]), stage.meters.read(&[process.id()]));
        let memory = memory_mib(process.id(), "VmHWM");
        process.stop().await?;
        let arrived = if relayer.who == Who::Database { None } else { Some(self.receive().await?) };
        let Some(report) = report else { return Ok(()) };
        let name = &relayer.name;
        report.add(
            name,
            [("events_per_s", per_second(events, took)), ("took_s", took.as_secs_f64())],
        );
        // The process is new, so its whole CPU time counts.
        report.add(name, now.worker_s().map(|cpu| ("worker_cpu_s", cpu)));
        report.add(name, before.until(&after).into_iter().filter(|(name, _)| *name != "of_s"));
        report.add(name, [("peak_mib", memory)]);
        if let Some(arrived) = arrived {
            report.wrong(name, arrived.wrong(events));
            report.add(name, [("copies", arrived.copies)]);
        }
        Ok(())
    }

    fn start(&self, stage: &Stage, relayer: &Relayer, events: usize) -> Result<Process> {
        let mut environment = stage.environment.clone();
        environment.push(("OVERDUE_TOPOLOGY", self.file.clone()));
        let rival = match relayer.who {
            Who::Overdue => return Process::start(&relayer.program, &["run"], &environment),
            Who::Client => "client",
            Who::Database => "database",
            Who::SkipLocked => "skip-locked",
        };
        let (exchange, count) = (self.topology.events_exchange(), events.to_string());
        let arguments = ["--rival", rival, "--target", &exchange, "--count", &count];
        let arguments = [&arguments[..], &["--schema", &stage.name]].concat();
        Process::start(Path::new(&relayer.program), &arguments, &environment)
    }

    /// Receives all arrived events.
    async fn receive(&self) -> Result<Arrived> {
        let there = closers::counts(&self.channel, &self.queue).await?.0;
        let mut arrived = Arrived::default();
        let mut subscription = Subscription::open(&self.link, &self.queue, PREFETCH).await?;
        for number in 1..=there {
            let received = subscription.next().await?;
            arrived.add(received.message_id.as_deref(), &received.body);
            if number % ACKED_AT_ONCE == 0 || number == there {
                subscription.ack_through(received.tag).await?;
            }
        }
        subscription.give_back_all().await?;
        Ok(arrived)
    }
}

/// Empties and fills the outbox, and leaves it as autovacuum and the checkpointer do after a while.
async fn fill(stage: &Stage, events: usize) -> Result<()> {
    const CLEAR: &str = include_str!("sql/clear.sql");
    const FILL: &str = include_str!("sql/outbox_fill.sql");
    stage.store.run_script("clear", CLEAR).await?;
    let (names, order_ids): (Vec<&str>, Vec<String>) = (0..events).map(rivals::event).unzip();
    let client = stage.store.client().await?;
    client.execute(FILL, &[&names, &order_ids]).await?;
    client.batch_execute("VACUUM (ANALYZE) outbox").await?;
    let _not_permitted = client.batch_execute("CHECKPOINT").await;
    Ok(())
}

/// Received events: none may be lost, and the events of an order must arrive in the order of their ids.
#[derive(Default)]
struct Arrived {
    seen: BTreeSet<u64>,
    last: BTreeMap<String, u64>,
    /// Copies by id: events are published at least once.
    copies: f64,
    disordered: usize,
    unreadable: usize,
}

impl Arrived {
    fn add(&mut self, message_id: Option<&str>, body: &[u8]) {
        let id = message_id.and_then(|id| id.split_once('@')?.0.parse::<u64>().ok());
        let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let order_id = body.as_ref().and_then(|body| body["order_id"].as_str());
        let (Some(id), Some(order_id)) = (id, order_id) else {
            self.unreadable += 1;
            return;
        };
        if !self.seen.insert(id) {
            self.copies += 1.0;
            return;
        }
        let last = self.last.entry(order_id.to_owned()).or_insert(id);
        self.disordered += usize::from(id < *last);
        *last = id;
    }

    fn wrong(&self, events: usize) -> Vec<String> {
        let found = [
            (events.abs_diff(self.seen.len()), "events too few or too many arrived"),
            (self.disordered, "events came before others of their order"),
            (self.unreadable, "messages are not events"),
        ];
        let found = found.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, what)| format!("{count} {what}")).collect()
    }
}
