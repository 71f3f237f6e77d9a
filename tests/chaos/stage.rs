//! A test's world, partly or wholly on the second stack; the test locks its services of that stack.

use std::{fs::File, io, process::Command, slice, thread};

use crate::{
    containers::{Broker, Database},
    support::{Services, WorkerProcess, World, until},
};

/// A level for each second, so that orders are due in each second of an outage.
pub const TOPOLOGY: &str = r#"
name = "orders"

[delay]
levels = ["100ms", "200ms", "300ms", "1s", "2s", "4s", "5s", "6s", "7s", "25s"]

[[timeout]]
name = "unpaid"
after = "1s"

[retry]
after = ["100ms", "200ms", "300ms"]
"#;

/// World, broker and database of one test; drop undoes every fault.
pub struct Stage {
    pub broker: Broker,
    pub database: Database,
    // Dropped in this order: heal the services, delete the world, unlock the services for the next test.
    _heal: Heal,
    pub world: World,
    _alone: Vec<File>,
}

impl Stage {
    /// A stage on `services`; the test locks those that it may break.
    pub async fn on(services: Services) -> Self {
        let alone = lock(&services, File::lock).await;
        Self::with(services, TOPOLOGY, alone).await
    }

    /// A stage on the broker of the second pair, next to other tests that break only their own queues.
    pub async fn beside_others(topology: &str) -> Self {
        let services = Services::chaos_broker();
        let alone = lock(&services, File::lock_shared).await;
        Self::with(services, topology, alone).await
    }

    async fn with(services: Services, topology: &str, alone: Vec<File>) -> Self {
        // A killed run may have left the services stopped.
        heal(slice::from_ref(&services)).await;
        let (broker, database) = (Broker::of(&services).await, Database::of(&services).await);
        let world = World::with(services.clone(), topology).await;
        Self { broker, database, _heal: Heal(vec![services]), world, _alone: alone }
    }

    /// Starts `overdue run` with our debug log, and waits until it consumes.
    pub async fn worker(&self) -> WorkerProcess {
        self.worker_with(|_| {}).await
    }

    /// Like [`Stage::worker`], with changes of its environment.
    pub async fn worker_with(&self, change: impl FnOnce(&mut Command)) -> WorkerProcess {
        let tell = |command: &mut Command| {
            command.env("OVERDUE_LOG__FILTER", "info,overdue=debug");
            change(command);
        };
        self.world.started(tell).await
    }
}

/// Waits for the lock of those services that are in the second pair, across processes. `File::lock_shared` waits only for exclusive locks.
pub async fn lock(services: &Services, lock: fn(&File) -> io::Result<()>) -> Vec<File> {
    let mut sockets = Vec::new();
    if services.has_chaos_broker() {
        sockets.push(services.broker_socket());
    }
    if services.has_chaos_database() {
        sockets.push(services.database_socket());
    }
    let mut locks = Vec::new();
    for socket in sockets {
        let name = format!("overdue-{}.lock", socket.replace(':', "-"));
        let path = std::env::temp_dir().join(name);
        let locked = tokio::task::spawn_blocking(move || {
            let file = File::options().create(true).append(true).open(path)?;
            lock(&file).map(|()| file)
        });
        locks.push(locked.await.unwrap().unwrap());
    }
    locks
}

pub async fn nodes_of(services: &[Services]) -> Vec<Broker> {
    let mut nodes = Vec::new();
    for (index, node) in services.iter().enumerate() {
        nodes.push(Broker::node(node, index).await);
    }
    nodes
}

/// The nodes of one broker, and their database; drop heals them.
pub struct Heal(pub Vec<Services>);

/// Undoes all faults, and returns when all services are healthy.
pub async fn heal(services: &[Services]) {
    let nodes = nodes_of(services).await;
    // All nodes are started before the first wait: a node of a cluster may wait for the others.
    for node in &nodes {
        node.set_going().await;
    }
    for node in &nodes {
        node.heal().await;
    }
    Database::of(&services[0]).await.heal().await;
}

impl Drop for Heal {
    fn drop(&mut self) {
        let services = self.0.clone();
        // On a thread and a runtime of its own: this may run while the test's runtime unwinds.
        let healed = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(heal(&services));
        });
        if healed.join().is_err() {
            eprintln!("the services are left as they are; `{}` starts them again", self.0[0].start);
        }
    }
}

/// Waits until the worker has logged `text` `times` times.
pub async fn until_logged(worker: &WorkerProcess, text: &str, times: usize) {
    let what = format!("`{text}` {times} times in the worker's log");
    until(&what, async || worker.logged(text), |seen| *seen >= times).await;
}

/// Asserts that the worker still runs, neither parked nor retried a message, and stops on SIGTERM.
pub async fn assert_unharmed(mut worker: WorkerProcess) {
    assert!(worker.is_running(), "the worker ended");
    assert_patient(&worker);
    worker.stops().await;
    let log = worker.log();
    assert!(log.contains(" put_back=0 retried=0 parked=0 "), "the worker's summary differs");
}

/// Asserts that the worker neither parked nor retried a message.
pub fn assert_patient(worker: &WorkerProcess) {
    for line in worker.log().lines() {
        assert!(!line.contains(" put back ") && !line.contains(" parked "), "{line}");
    }
}
