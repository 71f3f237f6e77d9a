//! A virtual host and a schema for a benchmark, and the topologies in it.

use std::fmt;

use overdue::{BrokerAddress, Management, Store, Topology, TopologyChange};
use reqwest::{Client, Method};
use serde_json::json;
use tempfile::TempDir;
use url::Url;

use super::{Result, options::Options, say, usage::Meters};

/// Connections of the benchmark itself: inserts, polls, and plain SQL.
const CONNECTIONS: usize = 8;

/// The broker and the database of a benchmark.
pub struct Stage {
    pub address: BrokerAddress,
    pub management: Management,
    pub store: Store,
    pub meters: Meters,
    pub server: Server,
    /// Folder for files of a round.
    pub folder: TempDir,
    /// Settings for processes that use the same broker, database and schema.
    pub environment: Vec<(&'static str, String)>,
    /// URL of the database, for another store.
    pub url: String,
    /// Name of virtual host and schema.
    pub name: String,
    vhost: Url,
}

impl Stage {
    /// Creates the virtual host and the schema.
    pub async fn open(options: &Options) -> Result<Self> {
        let name = format!("overdue_bench_{}", std::process::id());
        let mut broker = Url::parse(&options.broker_url)?;
        broker.set_path(&format!("/{name}"));
        let address = BrokerAddress::parse(broker.as_str(), Some(&options.management_url))?;
        let mut vhost = Url::parse(&options.management_url)?;
        vhost.set_path(&format!("/api/vhosts/{name}"));
        vhost.set_query(None);
        let store = Store::new(&options.database_url, &name, CONNECTIONS)?;
        let server = Server::read(&store).await?;
        call(Method::PUT, &vhost).await?;
        let environment = vec![
            ("OVERDUE_BROKER__URL", broker.to_string()),
            ("OVERDUE_BROKER__MANAGEMENT_URL", options.management_url.clone()),
            ("OVERDUE_DATABASE__URL", options.database_url.clone()),
            ("OVERDUE_DATABASE__SEARCH_PATH", name.clone()),
            ("OVERDUE_LOG__FILTER", "warn".to_owned()),
            // Several workers cannot share a port.
            ("OVERDUE_WORKER__LISTEN", String::new()),
        ];
        let stage = Self {
            management: Management::new(&address)?,
            address,
            store,
            meters: Meters::find(options),
            server,
            folder: tempfile::tempdir()?,
            environment,
            url: options.database_url.clone(),
            name,
            vhost,
        };
        say(&format!("in the virtual host and the schema {}", stage.name));
        if let Err(error) = stage.store.init(&stage.name, true).await {
            stage.close().await?;
            return Err(error.into());
        }
        Ok(stage)
    }

    /// Deletes the virtual host and the schema.
    pub async fn close(&self) -> Result<()> {
        let name = &self.name;
        let drop = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
        let dropped = self.store.run_script("drop_schema", &drop).await;
        call(Method::DELETE, &self.vhost).await?;
        Ok(dropped?)
    }

    /// Declares a topology; returns it with the path of its file.
    pub async fn topology(&self, text: &str) -> Result<(Topology, String)> {
        let topology = Topology::parse(text).map_err(|wrong| format!("{wrong:?}"))?;
        TopologyChange::new(&self.management, &topology).apply().await?;
        let file = self.folder.path().join(format!("{}.toml", topology.name));
        std::fs::write(&file, text)?;
        Ok((topology, file.display().to_string()))
    }
}

/// A call of the management API.
async fn call(how: Method, url: &Url) -> Result<()> {
    Client::new().request(how, url.clone()).json(&json!({})).send().await?.error_for_status()?;
    Ok(())
}

/// Cores, versions and settings that the numbers depend on.
pub struct Server {
    version: String,
    fsync: String,
    synchronous_commit: String,
    /// `track_commit_timestamp`: whether lateness is measured to the commit.
    pub commit_times: bool,
}

impl Server {
    async fn read(store: &Store) -> Result<Self> {
        const SQL: &str = "SELECT current_setting('server_version'), current_setting('fsync'), \
            current_setting('synchronous_commit'), current_setting('track_commit_timestamp')::boolean";
        let row = store.client().await?.query_one(SQL, &[]).await?;
        Ok(Self {
            version: row.get(0),
            fsync: row.get(1),
            synchronous_commit: row.get(2),
            commit_times: row.get(3),
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, fsync, synchronous_commit, commit_times } = self;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let late =
            if *commit_times { "commit" } else { "statement: track_commit_timestamp is off" };
        write!(
            f,
            "{cores} cores, PostgreSQL {version}, fsync {fsync}, synchronous_commit {synchronous_commit}; late is to the {late}"
        )
    }
}
