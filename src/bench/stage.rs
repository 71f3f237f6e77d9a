//! What burst and steady work on: a schema, and a topology for each contestant, all of which are their own.

mod delays;
mod error;
mod routes;
mod running;

use std::{fs, path::PathBuf, time::Duration};

use crate::{
    bench::{
        contestant::{Contestant, Process, Run},
        usage::Meters,
    },
    broker::{BrokerAddress, Link, Management, TopologyChange},
    objects::Argument,
    store::Store,
    topology::Topology,
};
pub(crate) use delays::Delays;
use delays::TIMEOUT;
pub(crate) use error::BenchError;
pub(crate) use running::Running;

/// What the benchmark works on.
pub(crate) struct Stage {
    /// Where contestants connect to.
    pub address: BrokerAddress,
    /// Declares the objects of the rivals.
    pub management: Management,
    /// Leads to the schema, with a connection for each of what runs at the same time here.
    pub store: Store,
    /// What the names of all topologies begin with.
    pub name: String,
    /// For topology files; goes with whoever made it.
    pub folder: PathBuf,
    /// This program: rivals are commands of it.
    pub program: PathBuf,
    /// How a process of ours reaches the same broker, database and schema.
    pub environment: Vec<(String, String)>,
    /// Where CPU time is read.
    pub meters: Meters,
    /// How the notices of a steady load wait.
    pub delays: Delays,
}

impl Stage {
    /// What the name of a contestant's topology is.
    fn topology_name(&self, place: usize) -> String {
        format!("{}-{place}", self.name)
    }

    /// The topology of a contestant, and the file it is written to.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn topology(&self, place: usize) -> Result<(Topology, String), BenchError> {
        let text = self.delays.topology(&self.topology_name(place));
        let topology = Topology::parse(&text)
            .map_err(|findings| BenchError::Topology(format!("{findings:?}")))?;
        let file = self.folder.join(format!("{}.toml", topology.name));
        fs::write(&file, &text)?;
        Ok((topology, file.display().to_string()))
    }

    /// Starts a contestant as one process or several, where it is any; `place` is its number among all of them.
    ///
    /// # Errors
    /// See [`BenchError`].
    pub(crate) async fn start(
        &self,
        place: usize,
        contestant: &Contestant,
    ) -> Result<Running, BenchError> {
        let (topology, file) = self.topology(place)?;
        let queue = business_queue(&topology);
        let processes = match contestant {
            Contestant::Worker { program, run, .. } => {
                let mut environment = self.environment.clone();
                environment.push(("OVERDUE_TOPOLOGY".to_owned(), file));
                if contestant.processes() > 1 {
                    // One port is not for several.
                    environment.push(("OVERDUE_WORKER__LISTEN".to_owned(), String::new()));
                }
                if *run == Run::WithoutEvents {
                    environment.push(("OVERDUE_EVENTS__PUBLISH".to_owned(), "false".to_owned()));
                }
                let run = ["run".to_owned()];
                let start = |_| Process::start(program, &run, &environment);
                (0..contestant.processes()).map(start).collect::<Result<_, _>>()?
            }
            Contestant::Poller | Contestant::Tutorial => {
                TopologyChange::new(&self.management, &topology).apply().await?;
                let arguments = ["bench", "contestant", contestant.word(), "--queue", &queue];
                let arguments = arguments.map(str::to_owned);
                vec![Process::start(&self.program, &arguments, &self.environment)?]
            }
            Contestant::PlainSql => Vec::new(),
            Contestant::Broker => {
                TopologyChange::new(&self.management, &topology).apply().await?;
                Vec::new()
            }
        };
        let link = Link::open(&self.address, "overdue bench: looking").await?;
        let mut running = Running::new(processes, link, queue, topology, self.delays);
        if matches!(contestant, Contestant::Worker { .. } | Contestant::Tutorial) {
            running.until_all_consume().await?;
        }
        running.lead = match contestant {
            Contestant::Worker { .. } => self.lead(&running.topology).await?,
            _ => Duration::ZERO,
        };
        Ok(running)
    }

    /// How long before its time the broker lets a notice go, as it was declared.
    async fn lead(&self, topology: &Topology) -> Result<Duration, BenchError> {
        let objects = self.management.observe().await?.objects;
        let leads = topology.delay_queues().filter_map(|(level, queue)| {
            let ttl = match objects.queues.get(&queue)?.arguments.get("x-message-ttl")? {
                Argument::Integer(ms) => Duration::from_millis(u64::try_from(*ms).ok()?),
                _ => return None,
            };
            Some((level.ttl(), level.ttl().as_duration().saturating_sub(ttl)))
        });
        // Of the longest level: short ones may have less.
        Ok(leads.max().map_or(Duration::ZERO, |(_, lead)| lead))
    }

    /// Deletes every exchange and queue of `contestants` topologies.
    ///
    /// # Errors
    /// The management API refuses; what was deleted before is gone.
    pub(crate) async fn remove(
        management: &Management,
        name: &str,
        contestants: usize,
    ) -> Result<(), crate::broker::ManagementError> {
        for place in 0..contestants {
            management.remove_topology(&format!("{name}-{place}")).await?;
        }
        Ok(())
    }
}

fn business_queue(topology: &Topology) -> String {
    topology.timeout(TIMEOUT).map(|timeout| topology.business_queue(timeout)).unwrap_or_default()
}
