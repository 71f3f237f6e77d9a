//! A test's own world: a virtual host, a schema and a topology that no other test sees.

use std::{collections::BTreeSet, error::Error, path::PathBuf, sync::Mutex, thread};

use overdue::internals::{
    broker::{BrokerAddress, Management, Publisher, TopologyChange},
    export::definitions,
    objects::Objects,
    store::Store,
    topology::Topology,
};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};
use tokio_postgres::NoTls;
use url::Url;

use super::Services;

macro_rules! topology {
    () => {
        r#"
name = "orders"

[delay]
levels = ["100ms", "200ms", "300ms", "500ms", "1s", "2s", "30m"]

[[timeout]]
name = "unpaid"
after = "1s"
after_by_category = { virtual = "500ms" }

[retry]
after = ["100ms", "200ms", "300ms"]
"#
    };
}

/// Short levels, so that a test takes a second, and one that is longer than any test.
pub const TOPOLOGY: &str = topology!();

/// [`TOPOLOGY`] with classic queues, for tests of other subjects: making and deleting a quorum queue's log takes time.
pub const CLASSIC: &str = concat!(topology!(), "\n[queues]\ntype = \"classic\"\n");

/// The virtual host and schema of one test; drop deletes both, also after a panic.
pub struct World {
    pub services: Services,
    pub vhost: String,
    /// The schema with all tables.
    pub schema: String,
    /// `search_path` of the world's programs: usually only the schema.
    pub search_path: String,
    /// The content of `topology.toml` in [`World::dir`].
    pub topology: Topology,
    /// The database, as the tests use it.
    pub store: Store,
    pub dir: TempDir,
    // Dropped last: deletes the virtual host and the schema.
    teardown: Teardown,
}

impl World {
    /// A world with the tables, and [`CLASSIC`] declared.
    pub async fn new() -> Self {
        Self::with(Services::main(), CLASSIC).await
    }

    /// Like [`World::new`], with another topology.
    pub async fn of(topology: &str) -> Self {
        Self::with(Services::main(), topology).await
    }

    /// Like [`World::new`], with other services and another topology.
    pub async fn with(services: Services, topology: &str) -> Self {
        let world = Self::bare(services, topology).await;
        let (tables, ()) = tokio::join!(world.store.init(&world.schema, true), world.import());
        tables.unwrap();
        world
    }

    /// A world with the tables and an empty virtual host, for tests of statements.
    pub async fn of_tables() -> Self {
        let world = Self::empty().await;
        world.store.init(&world.schema, true).await.unwrap();
        world
    }

    /// A world without the tables, with this topology declared.
    pub async fn applied(topology: &str) -> Self {
        let world = Self::bare(Services::main(), topology).await;
        world.import().await;
        world
    }

    /// An empty virtual host and an empty schema, with the file [`TOPOLOGY`].
    pub async fn empty() -> Self {
        Self::bare(Services::main(), TOPOLOGY).await
    }

    /// Like [`World::empty`], with other services and another topology file.
    pub async fn bare(services: Services, topology: &str) -> Self {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let users = Mutex::default();
        let teardown = Teardown { services: services.clone(), name: name.clone(), users };
        let created = services.call(None, Method::PUT, &["vhosts", &name], json!({})).await;
        if let Err(error) = created {
            services.missing("RabbitMQ's management API", &error);
        }
        let store = patient_store(&services, &name);
        if let Err(error) = store.run_script("schema", &format!("CREATE SCHEMA {name}")).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            services.missing("PostgreSQL", &format!("{error}: {}", cause.unwrap_or_default()));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("topology.toml"), topology).unwrap();
        Self {
            vhost: name.clone(),
            search_path: name.clone(),
            schema: name,
            topology: Topology::parse(topology).unwrap(),
            store,
            dir,
            services,
            teardown,
        }
    }

    /// The database with the world's search path, for a test's own statements.
    pub fn patient_store(&self) -> Store {
        patient_store(&self.services, &self.search_path)
    }

    /// The world uses the same schema in another database; the old database is gone.
    pub fn moves_to(&mut self, database: Url) {
        self.services.database = database.clone();
        self.teardown.services.database = database;
        self.store = self.patient_store();
    }

    /// Imports the topology as definitions in one call, in a third of the time of applying it.
    async fn import(&self) {
        let definitions = definitions::render(&self.topology, &self.vhost, false);
        let body = serde_json::from_str(&definitions).unwrap();
        self.call(Method::POST, "definitions", &[], body).await;
    }

    /// Applies a topology.
    pub async fn apply(&self, topology: &Topology) {
        TopologyChange::new(&self.management(), topology).apply().await.unwrap();
    }

    pub fn address(&self) -> BrokerAddress {
        self.services.address(&self.vhost, None)
    }

    pub fn broker_url(&self) -> String {
        self.services.broker_url(&self.vhost, None)
    }

    pub fn management(&self) -> Management {
        self.services.management_of(&self.address())
    }

    /// The objects in the virtual host, without the lock's queue: it is deleted a moment after the lock's release.
    pub async fn objects(&self) -> Objects {
        let mut objects = self.management().observe().await.unwrap().objects;
        // Also locks of other topologies: the broker deletes the queue a moment after its connection.
        let is_lock = |queue: &str| queue.ends_with(".apply.lock");
        objects.queues.retain(|queue, _| !is_lock(queue));
        objects.bindings.retain(|binding| !is_lock(&binding.destination));
        objects
    }

    /// [`World::objects`] without the default objects of every virtual host.
    pub async fn own_objects(&self) -> Objects {
        let mut objects = self.objects().await;
        objects.exchanges.retain(|name, _| !name.is_empty() && !name.starts_with("amq."));
        objects.bindings.retain(|binding| !binding.source.is_empty());
        objects
    }

    /// A publisher on a connection of its own.
    pub async fn publisher(&self) -> Publisher {
        Publisher::connect(&self.address(), "test: publishing").await.unwrap()
    }

    /// Registers a broker user, which the world deletes.
    pub(super) fn deletes_user(&self, name: &str) {
        self.teardown.users.lock().unwrap().insert(name.to_owned());
    }

    pub fn topology_file(&self) -> PathBuf {
        self.dir.path().join("topology.toml")
    }
}

/// The database for a test's own statements, without a time-out for locks.
fn patient_store(services: &Services, search_path: &str) -> Store {
    let url = services.database_url(None);
    let more = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{more}options=-c%20lock_timeout%3D0%20-c%20statement_timeout%3D0");
    // Half of the connections are for closing.
    Store::new(&url, search_path, 12).unwrap()
}

struct Teardown {
    services: Services,
    name: String,
    users: Mutex<BTreeSet<String>>,
}

impl Drop for Teardown {
    fn drop(&mut self) {
        let (services, name) = (self.services.clone(), self.name.clone());
        let users = std::mem::take(&mut *self.users.lock().unwrap());
        // On a thread and a runtime of its own: this may run while the test's runtime unwinds.
        let done = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(delete(&services, &name, &users))
        });
        // The runtime's other tasks continue meanwhile.
        let wait = || done.join();
        let is_shared = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
        let done =
            if Handle::try_current().is_ok_and(is_shared) { block_in_place(wait) } else { wait() };
        if let Ok(Err(why)) = done {
            eprintln!("left behind: virtual host and schema `{}`: {why}", self.name);
        }
    }
}

async fn delete(
    services: &Services,
    name: &str,
    users: &BTreeSet<String>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    for user in users {
        services.forget("users", user).await?;
    }
    services.forget("vhosts", name).await?;
    let (client, connection) = tokio_postgres::connect(&services.database_url(None), NoTls).await?;
    let connection = tokio::spawn(connection);
    // A killed worker's statement that still runs must not block this.
    client
        .batch_execute(&format!(
            "SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {name}, {name}_theirs CASCADE;
             DO $$ DECLARE role text; BEGIN
                 FOR role IN SELECT rolname FROM pg_roles WHERE starts_with(rolname, '{name}') LOOP
                     EXECUTE format('DROP ROLE %I', role);
                 END LOOP;
             END $$"
        ))
        .await?;
    drop(client);
    connection.await??;
    Ok(())
}
