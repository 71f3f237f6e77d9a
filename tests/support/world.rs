//! A test's own world: a virtual host, a schema, a topology, and nothing that any other test sees.

use std::{error::Error, path::PathBuf, thread};

use overdue::{
    broker::{BrokerAddress, Management, Publisher, TopologyChange},
    store::Store,
    topology::Topology,
};
use rabbitmq_http_client::{
    password_hashing::{base64_encoded_salted_password_hash_sha256, salt},
    requests::{Permissions, UserParams, VirtualHostParams},
};
use tempfile::TempDir;
use tokio_postgres::NoTls;
use url::Url;

use super::Services;

/// Short levels, so that a test takes a second, and one that never ends within a test.
pub const TOPOLOGY: &str = r#"
name = "orders"

[delay]
levels = ["100ms", "200ms", "300ms", "500ms", "1s", "2s", "30m"]

[[timeout]]
name = "unpaid"
after = "1s"
after_by_category = { virtual = "500ms" }

[retry]
after = ["100ms", "200ms", "300ms"]
"#;

/// One test's virtual host and schema; both are deleted when it goes, also after a panic.
pub struct World {
    /// The services it lives on.
    pub services: Services,
    /// The virtual host.
    pub vhost: String,
    /// The schema with all tables; the whole search path.
    pub schema: String,
    /// What `topology.toml` in [`World::dir`] says.
    pub topology: Topology,
    /// The database, as the tests use it.
    pub store: Store,
    /// A folder of its own.
    pub dir: TempDir,
    // Last: deletes what the others used.
    _teardown: Teardown,
}

impl World {
    /// A world with the tables, and the topology declared.
    pub async fn new() -> Self {
        Self::with(Services::main(), TOPOLOGY).await
    }

    /// Like [`World::new`], with another topology.
    pub async fn of(topology: &str) -> Self {
        Self::with(Services::main(), topology).await
    }

    /// Like [`World::new`], with other services and another topology.
    pub async fn with(services: Services, topology: &str) -> Self {
        let world = Self::bare(services, topology).await;
        world.store.init(&world.schema, true).await.unwrap();
        let management = world.management();
        TopologyChange::new(&management, &world.topology).apply().await.unwrap();
        world
    }

    /// An empty virtual host and an empty schema.
    pub async fn empty() -> Self {
        Self::bare(Services::main(), TOPOLOGY).await
    }

    /// Like [`World::empty`], with other services and another topology.
    pub async fn bare(services: Services, topology: &str) -> Self {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let teardown = Teardown { services: services.clone(), name: name.clone() };
        let created = services.api().create_vhost(&VirtualHostParams::named(&name)).await;
        created.unwrap_or_else(|error| services.missing("RabbitMQ's management API", &error));
        let store = Store::new(&services.database_url(None), &name, 6).unwrap();
        if let Err(error) = store.run_script("schema", &format!("CREATE SCHEMA {name}")).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            services.missing("PostgreSQL", &format!("{error}: {}", cause.unwrap_or_default()));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("topology.toml"), topology).unwrap();
        Self {
            vhost: name.clone(),
            schema: name,
            topology: Topology::parse(topology).unwrap(),
            store,
            dir,
            services,
            _teardown: teardown,
        }
    }

    /// The broker's address.
    pub fn address(&self) -> BrokerAddress {
        self.services.address(&self.vhost, None)
    }

    /// The AMQP URI, with credentials.
    pub fn broker_url(&self) -> String {
        self.services.broker_url(&self.vhost, None)
    }

    /// The management API, as the program uses it.
    pub fn management(&self) -> Management {
        self.services.management_of(&self.address())
    }

    /// A publisher on a connection of its own.
    pub async fn publisher(&self) -> Publisher {
        Publisher::connect(&self.address(), "test: publishing").await.unwrap()
    }

    /// Creates a user of the broker, called like the virtual host, with permissions in it (configure, write, read).
    ///
    /// Returns its AMQP URI and the URL of the management API with its credentials.
    pub async fn broker_user(&self, tags: &str, permissions: Option<[&str; 3]>) -> [String; 2] {
        let (api, name, password) = (self.services.api(), self.vhost.as_str(), "pass word");
        let hash = base64_encoded_salted_password_hash_sha256(&salt(), password);
        api.create_user(&UserParams::new(name, &hash, tags)).await.unwrap();
        if let Some([configure, write, read]) = permissions {
            let permissions = Permissions { user: name, vhost: name, configure, write, read };
            api.declare_permissions(&permissions).await.unwrap();
        }
        [self.broker_url(), self.services.management.to_string()].map(|url| {
            let mut url = Url::parse(&url).unwrap();
            url.set_username(name).unwrap();
            url.set_password(Some(password)).unwrap();
            url.to_string()
        })
    }

    /// Creates a user of the database, called like the schema, that may use it; returns its URL.
    pub async fn database_user(&self) -> String {
        let name = &self.schema;
        let sql = format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {name} TO {name}"
        );
        self.sql(&sql).await;
        let mut url = self.services.database.clone();
        url.set_username(name).unwrap();
        url.set_password(Some("secret")).unwrap();
        url.to_string()
    }

    /// The topology file.
    pub fn topology_file(&self) -> PathBuf {
        self.dir.path().join("topology.toml")
    }
}

struct Teardown {
    services: Services,
    name: String,
}

impl Drop for Teardown {
    fn drop(&mut self) {
        let (services, name) = (self.services.clone(), self.name.clone());
        // A thread and a runtime of its own: this may run while the test's runtime unwinds.
        let done = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(delete(&services, &name))
        });
        if let Ok(Err(why)) = done.join() {
            eprintln!("left behind: virtual host and schema `{}`: {why}", self.name);
        }
    }
}

async fn delete(services: &Services, name: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    services.api().delete_user(name, true).await.map_err(|e| e.to_string())?;
    services.api().delete_vhost(name, true).await.map_err(|e| e.to_string())?;
    let (client, connection) = tokio_postgres::connect(&services.database_url(None), NoTls).await?;
    let connection = tokio::spawn(connection);
    // What still writes there (a worker that was killed) does not hold this up for ever.
    client
        .batch_execute(&format!(
            "SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {name} CASCADE; DROP ROLE IF EXISTS {name}"
        ))
        .await?;
    drop(client);
    connection.await??;
    Ok(())
}
