//! The closers of orders: the worker as a program, and designs that others build in its place.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use lapin::{Channel, options::QueueDeclareOptions, types::FieldTable};
use overdue::{Delay, Route, Topology, internals::broker::Link};

use super::{
    Result, options::Options, process::Process, report::Number, stage::Stage, until,
    usage::memory_mib,
};

pub const TIMEOUT: &str = "unpaid";
/// Longer than the `expiration` of any notice.
const LONG: Duration = Duration::from_hours(1);
/// Polling interval: polls cost the database a little, the same for each closer.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time from the last delivery of the queue until its ack.
const ACKS: Duration = Duration::from_millis(300);

/// Ways of closing orders, in the order in which they are measured and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// `overdue run` as a process of its own, with default settings
    Overdue,
    /// Two workers, which share the work
    #[value(name = "overdue-x2")]
    OverdueX2,
    /// Three workers
    #[value(name = "overdue-x3")]
    OverdueX3,
    /// A worker with `events.publish = false`: it writes no outbox row and publishes nothing
    OverdueNoEvents,
    /// Batches on two connections, all ids known, without messages: the floor
    PlainSql,
    /// A poller that reads the database every 10 ms
    Poller,
    /// A transaction and an ack for each message; no audit row and no event
    Tutorial,
    /// A consumer that only acks
    Broker,
}

/// A way of closing orders, with its program.
#[derive(Clone, Debug)]
pub struct Closer {
    pub way: Way,
    program: PathBuf,
    pub name: String,
    /// Number of processes.
    workers: usize,
}

impl Way {
    const fn is_worker(self) -> bool {
        matches!(self, Self::Overdue | Self::OverdueX2 | Self::OverdueX3 | Self::OverdueNoEvents)
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Overdue => "overdue",
            Self::OverdueX2 => "overdue x2",
            Self::OverdueX3 => "overdue x3",
            Self::OverdueNoEvents => "overdue, no events",
            Self::PlainSql => "plain SQL, 2 connections",
            Self::Poller => "poller, every 10 ms",
            Self::Tutorial => "tutorial, one by one",
            Self::Broker => "broker alone",
        }
    }
}

impl Closer {
    /// All `ways`, or the ways in `only`; a worker once for each program.
    pub fn all(ways: &[Way], only: &[Way], options: &Options) -> Result<Vec<Self>> {
        let mut closers = Vec::new();
        for &way in ways.iter().filter(|way| only.is_empty() || only.contains(way)) {
            if way.is_worker() {
                closers.extend(options.programs().into_iter().map(|(program, label)| Self {
                    way,
                    program,
                    name: format!("{}{label}", way.title()),
                    workers: match way {
                        Way::OverdueX3 => 3,
                        Way::OverdueX2 => 2,
                        _ => 1,
                    },
                }));
            } else {
                let program = std::env::current_exe()?;
                let name = way.title().to_owned();
                closers.push(Self { way, program, name, workers: 1 });
            }
        }
        if closers.is_empty() {
            Err("none of those in --only is measured here".into())
        } else {
            Ok(closers)
        }
    }

    /// Several workers of one program.
    pub fn crew(way: Way, program: PathBuf, workers: usize) -> Self {
        Self { way, program, name: format!("{} x{workers}", way.title()), workers }
    }

    pub fn is_worker(&self) -> bool {
        self.way.is_worker()
    }

    /// Whether the orders have notices.
    pub fn needs_notices(&self) -> bool {
        self.is_worker() || matches!(self.way, Way::Tutorial | Way::Broker)
    }

    /// Whether the closer writes a row into `closures` for each order.
    pub fn audits(&self) -> bool {
        self.way != Way::Tutorial
    }

    /// Starts the closer with its own topology; `delays` is the text after the name.
    pub async fn start(&self, stage: &Stage, place: usize, delays: &str) -> Result<Running> {
        self.start_with(stage, place, delays, &[]).await
    }

    /// Like [`Self::start`], with other settings.
    pub async fn start_with(
        &self,
        stage: &Stage,
        place: usize,
        delays: &str,
        settings: &[(&'static str, String)],
    ) -> Result<Running> {
        let mut running = self.spawn(stage, place, delays, settings).await?;
        if self.is_worker() || self.way == Way::Tutorial {
            running.until_all_consume().await?;
        }
        Ok(running)
    }

    /// Like [`Self::start_with`], without a wait: the processes may have no broker yet.
    pub async fn spawn(
        &self,
        stage: &Stage,
        place: usize,
        delays: &str,
        settings: &[(&'static str, String)],
    ) -> Result<Running> {
        let text = format!(
            "name = \"bench-{place}\"\n{delays}[[timeout]]\nname = \"{TIMEOUT}\"\nafter = \"1h\"\n"
        );
        let (topology, file) = stage.topology(&text).await?;
        let queues = topology.business_queues(&topology.timeouts[0]);
        let queue = format!("{}.{TIMEOUT}", topology.name);
        let mut environment = stage.environment.clone();
        environment.push(("OVERDUE_TOPOLOGY", file));
        environment.extend(settings.iter().cloned());
        let rival = |name| ["--rival", name, "--target", &queue, "--schema", &stage.name];
        let processes = match self.way {
            Way::Overdue | Way::OverdueX2 | Way::OverdueX3 => (0..self.workers)
                .map(|_| Process::start(&self.program, &["run"], &environment))
                .collect::<Result<_>>()?,
            Way::OverdueNoEvents => {
                environment.push(("OVERDUE_EVENTS__PUBLISH", "false".to_owned()));
                vec![Process::start(&self.program, &["run"], &environment)?]
            }
            Way::Poller => vec![Process::start(&self.program, &rival("poller"), &environment)?],
            Way::Tutorial => vec![Process::start(&self.program, &rival("tutorial"), &environment)?],
            Way::PlainSql | Way::Broker => Vec::new(),
        };
        let link = Link::open(&stage.address, "bench: looking").await?;
        let channel = link.channel().await?;
        Ok(Running { processes, link, channel, queues, topology })
    }
}

/// A closer that runs.
pub struct Running {
    /// Empty if the closer is a part of this process.
    processes: Vec<Process>,
    /// Connection for queue counts, and for the consumer that only acks.
    pub link: Link,
    channel: Channel,
    /// Queues of due notices: one, or the shards.
    pub queues: Vec<String>,
    pub topology: Topology,
}

impl Running {
    /// Processes of the closer; this process if it has no others.
    pub fn process_ids(&self) -> Vec<u32> {
        if self.processes.is_empty() {
            return vec![std::process::id()];
        }
        self.processes.iter().map(Process::id).collect()
    }

    /// Peak memory of the closer's processes.
    pub fn peak(&self) -> Option<Number> {
        let memory = self.processes.iter().map(|process| memory_mib(process.id(), "VmHWM"));
        (!self.processes.is_empty()).then(|| ("peak_mib", memory.sum()))
    }

    /// The route through a level whose TTL is longer than the delay of any notice.
    pub fn long_route(&self) -> Result<Route> {
        Ok(self.topology.route(TIMEOUT, &Delay::exactly(LONG))?)
    }

    /// Messages and consumers of a queue.
    pub async fn counts(&self, queue: &str) -> Result<(u32, u32)> {
        counts(&self.channel, queue).await
    }

    async fn until_all_consume(&mut self) -> Result<()> {
        let expected = u32::try_from(self.processes.len())?;
        for queue in self.queues.clone() {
            until("nobody consumes the notices", LOOK_EVERY, async || {
                self.check()?;
                Ok((self.counts(&queue).await?.1 >= expected).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// Waits until no order is unpaid.
    pub async fn until_closed(&mut self, stage: &Stage) -> Result<()> {
        const SQL: &str = "SELECT EXISTS (SELECT FROM orders WHERE status = 'unpaid')";
        self.until_no(stage, "there are still unpaid orders", SQL).await
    }

    /// Waits until `schedule()` knows the timeout, which a worker writes next to its first work.
    pub async fn until_scheduled(&mut self, stage: &Stage) -> Result<()> {
        const SQL: &str = "SELECT NOT EXISTS (SELECT FROM schedule_timeouts)";
        self.until_no(stage, "schedule() knows no timeout", SQL).await
    }

    /// Waits until the closer is idle: no notice waits, and none of its events is unpublished.
    pub async fn until_idle(&mut self, stage: &Stage, closer: &Closer) -> Result<()> {
        const SQL: &str = "SELECT EXISTS (SELECT FROM outbox)";
        if closer.needs_notices() {
            let waiting = self.topology.delay_queues().map(|(_, queue)| queue);
            for queue in waiting.chain(self.queues.clone()).collect::<Vec<_>>() {
                until("there are still messages", LOOK_EVERY, async || {
                    self.check()?;
                    Ok((self.counts(&queue).await?.0 == 0).then_some(()))
                })
                .await?;
            }
        }
        if closer.is_worker() && closer.way != Way::OverdueNoEvents {
            self.until_no(stage, "there are still events in the outbox", SQL).await?;
        }
        tokio::time::sleep(ACKS).await;
        Ok(())
    }

    async fn until_no(&mut self, stage: &Stage, what: &str, sql: &str) -> Result<()> {
        let client = stage.store.client().await?;
        let statement = client.prepare_cached(sql).await?;
        until(what, LOOK_EVERY, async || {
            self.check()?;
            Ok((!client.query_one(&statement, &[]).await?.get::<_, bool>(0)).then_some(()))
        })
        .await
    }

    /// Stops all processes.
    pub async fn stop(self) -> Result<()> {
        for process in self.processes {
            process.stop().await?;
        }
        self.link.close().await;
        Ok(())
    }
}

/// Messages and consumers of a queue.
pub async fn counts(channel: &Channel, queue: &str) -> Result<(u32, u32)> {
    let options =
        QueueDeclareOptions { passive: true, durable: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
    Ok((found.message_count(), found.consumer_count()))
}
