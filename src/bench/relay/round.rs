//! One relayer, once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use lapin::options::QueuePurgeOptions;

use super::{arrived::Arrived, events, relayer::Relayer};
use crate::{
    bench::{
        contestant::Process,
        stage::{BenchError, Stage},
        usage::{Cpu, ProcessUsage},
    },
    broker::{Link, TopologyChange, consume::Subscription, passive},
    objects::{Binding, Queue},
    plan::Change,
    topology::Topology,
};

/// Between two looks whether it is done: what a time may be too long.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For all events of a round.
const PATIENCE: Duration = Duration::from_mins(5);
/// Unsettled deliveries: the most that a quorum queue takes.
const PREFETCH: u16 = 2_000;
/// Deliveries acked at once.
const ACKED_AT_ONCE: u64 = 500;

/// What was measured of one relayer in one round.
#[derive(Clone, Debug, Default)]
pub(super) struct RelayMeasured {
    /// From the start of its process to the deletion of the last row, and to the last confirm.
    pub took: Duration,
    pub cpu: Cpu,
    pub memory: ProcessUsage,
    /// Second copies.
    pub copies: usize,
    /// What is wrong.
    pub broken: Vec<String>,
}

/// What all rounds have in common: a topology, and a subscriber's queue.
pub(super) struct Setup<'a> {
    stage: &'a Stage,
    topology: Topology,
    file: String,
    queue: String,
    link: Link,
}

impl<'a> Setup<'a> {
    pub(super) async fn prepare(stage: &'a Stage) -> Result<Self, BenchError> {
        let (topology, file) = stage.topology(0)?;
        TopologyChange::new(&stage.management, &topology).apply().await?;
        let queue = Queue {
            name: format!("{}.subscriber", topology.name),
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
        let link = Link::open(&stage.address, "overdue bench: looking").await?;
        Ok(Self { stage, topology, file, queue: name, link })
    }

    /// Has one relayer publish so many events.
    pub(super) async fn run(
        &self,
        relayer: &Relayer,
        events: usize,
    ) -> Result<RelayMeasured, BenchError> {
        events::fill(&self.stage.store, events).await?;
        self.purge().await?;
        let before = self.stage.meters.read(&[]);
        let began = Instant::now();
        let mut process = self.start(relayer, events)?;
        self.until_done(&mut process, relayer, events, began).await?;
        let took = began.elapsed();
        let mut cpu = before.until(&self.stage.meters.read(&[]));
        let memory = process.usage().unwrap_or_default();
        cpu.worker_s = Some(memory.cpu.as_secs_f64());
        process.stop().await;
        let mut measured = RelayMeasured { took, cpu, memory, ..RelayMeasured::default() };
        if relayer.publishes() {
            let arrived = self.receive().await?;
            measured.copies = arrived.copies();
            measured.broken = arrived.broken(events);
        }
        Ok(measured)
    }

    fn start(&self, relayer: &Relayer, events: usize) -> Result<Process, BenchError> {
        let mut environment = self.stage.environment.clone();
        if let Relayer::Worker { program, .. } = relayer {
            environment.push(("OVERDUE_TOPOLOGY".to_owned(), self.file.clone()));
            return Ok(Process::start(program, &["run".to_owned()], &environment)?);
        }
        let (exchange, events) = (self.topology.events_exchange(), events.to_string());
        let arguments = ["bench", "relayer", relayer.word(), "--exchange", &exchange];
        let arguments = arguments.into_iter().chain(["--events", &events]);
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        Ok(Process::start(&self.stage.program, &arguments, &environment)?)
    }

    async fn until_done(
        &self,
        process: &mut Process,
        relayer: &Relayer,
        events: usize,
        began: Instant,
    ) -> Result<(), BenchError> {
        let all = u64::try_from(events).unwrap_or(u64::MAX);
        while !self.is_done(relayer, all).await? {
            process.check()?;
            if began.elapsed() > PATIENCE {
                let what = format!("{relayer}: there are still events to publish");
                return Err(BenchError::Stuck { what, waited: PATIENCE });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn is_done(&self, relayer: &Relayer, events: u64) -> Result<bool, BenchError> {
        const SQL: &str = include_str!("../../../sql/bench_outbox.sql");
        if !relayer.empties() {
            return Ok(passive::ready(&self.link, &self.queue).await?.unwrap_or_default() >= events);
        }
        let store = &self.stage.store;
        let client = store.client().await?;
        let statement = store.named("bench_outbox", client.prepare_cached(SQL).await)?;
        let row = store.named("bench_outbox", client.query_one(&statement, &[]).await)?;
        Ok(!row.get::<_, bool>(0))
    }

    async fn purge(&self) -> Result<(), BenchError> {
        let channel = self.link.channel().await?;
        let purged = channel.queue_purge(self.queue.as_str().into(), QueuePurgeOptions::default());
        self.link.answered(purged).await?;
        Ok(())
    }

    /// Takes everything that has arrived.
    async fn receive(&self) -> Result<Arrived, BenchError> {
        let there = passive::ready(&self.link, &self.queue).await?.unwrap_or_default();
        let mut arrived = Arrived::default();
        let mut subscription = Subscription::open(&self.link, &self.queue, PREFETCH).await?;
        for number in 1..=there {
            let received = subscription.next().await?;
            arrived.add(received.message_id.as_deref(), &received.body);
            if number % ACKED_AT_ONCE == 0 || number == there {
                subscription.ack_through(received.tag).await?;
            }
        }
        subscription.close().await?;
        Ok(arrived)
    }
}
