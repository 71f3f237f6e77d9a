//! Broker, database and users of a storm. Whatever a storm broke works again when it goes.

use std::{env, fs::File};

use overdue::internals::{broker::BrokerAddress, store::Store};
use reqwest::Method;
use serde_json::{Value, json};
use url::Url;

use super::orders::TOPOLOGY;
use crate::{
    containers::{Broker, Database},
    stage::{Heal, heal, lock, nodes_of},
    support::{Services, World, clock::WorkerClock},
};

/// What a worker needs (`overdue permissions`): configure, write, read.
const RIGHTS: [&str; 3] = ["^$", r"^orders\.(again|events|park)$", r"^orders\.unpaid(\.[0-9]+)?$"];
const NO_RIGHTS: [&str; 3] = ["^$", "^$", "^$"];
/// Connections of the order service and of whoever looks, and as many for closing, which nobody opens.
const CONNECTIONS: usize = 80;

/// The stack, and a world on it.
pub struct Site {
    /// The nodes of the broker.
    pub nodes: Vec<Broker>,
    pub database: Database,
    /// Sees the tables of the storm.
    pub store: Store,
    /// The workers' user of the broker.
    worker_user: String,
    /// How workers reach each node: AMQP URI and management API, as a user with the least rights.
    pub worker_urls: Vec<[String; 2]>,
    pub worker_database: String,
    /// None where the machine lacks libfaketime.
    pub worker_clock: Option<WorkerClock>,
    // In the order in which they go: heal the services, delete the world on them, let the next one in.
    _heal: Heal,
    pub world: World,
    services: Vec<Services>,
    _alone: Vec<File>,
}

impl Site {
    /// Tables, users and topology on a stack that nothing else uses meanwhile.
    pub async fn on(services: Vec<Services>) -> Self {
        let alone = lock(&services[0], File::lock).await;
        // A run that was killed may have left them stopped.
        heal(&services).await;
        let (nodes, database) = (nodes_of(&services).await, Database::of(&services[0]).await);
        let world = World::with(services[0].clone(), TOPOLOGY).await.clock_set_by_hand().await;
        // What was declared before the clock has the server's. An hour behind it: commits are dated by that, and later.
        let schema = &world.schema;
        world
            .sql(&format!(
                "ALTER TABLE closures ALTER closed_at SET DEFAULT {schema}.clock_timestamp()"
            ))
            .await;
        let [first, _] = world.broker_user("management", Some(RIGHTS)).await;
        let first = Url::parse(&first).unwrap();
        let worker_user = first.username().to_owned();
        let worker_urls = services.iter().map(|node| {
            [node.broker_url(&world.vhost, None), node.management.to_string()].map(|url| {
                let mut url = Url::parse(&url).unwrap();
                url.set_username(first.username()).unwrap();
                url.set_password(first.password()).unwrap();
                url.to_string()
            })
        });
        let site = Self {
            worker_user,
            worker_urls: worker_urls.collect(),
            worker_database: world.database_user().await,
            store: Store::new(&services[0].database_url(None), &world.search_path, CONNECTIONS)
                .unwrap(),
            worker_clock: WorkerClock::of(world.dir.path()),
            _heal: Heal(services.clone()),
            nodes,
            database,
            world,
            services,
            _alone: alone,
        };
        site.grant_database_rights().await;
        site
    }

    /// How the order service reaches each node.
    pub fn addresses(&self) -> Vec<BrokerAddress> {
        let address = |node: &Services| node.address(&self.world.vhost, None);
        self.services.iter().map(address).collect()
    }

    /// The node that a number means.
    pub fn node(&self, victim: usize) -> &Broker {
        &self.nodes[victim % self.nodes.len()]
    }

    /// The database's clock, by so many seconds; between two transactions, because one compares `now()` with the deadline and
    /// writes `clock_timestamp()` down. The tables of a statement are locked before it gets its snapshot, which its `now()` is read
    /// with, and the clock after it: so `orders` is locked as well.
    pub async fn leap(&self, seconds: i64) -> Result<(), String> {
        let schema = &self.world.schema;
        let leap = format!(
            "LOCK TABLE {schema}.orders, {schema}.clock IN ACCESS EXCLUSIVE MODE;
             UPDATE {schema}.clock SET ahead = ahead + {seconds} * interval '1 second'"
        );
        self.database.ask(&leap).await.map(drop)
    }

    /// Closes every AMQP connection of the workers.
    pub async fn close_worker_connections(&self) -> Result<(), String> {
        let path = ["connections", "username", &self.worker_user];
        let mut closed = Err("no node answers".to_owned());
        for node in &self.services {
            closed = closed.or(node.call(None, Method::DELETE, &path, Value::Null).await.map(drop));
        }
        closed
    }

    /// Takes every right of the workers' user at the broker, or gives it back.
    pub async fn set_broker_rights(&self, granted: bool) -> Result<(), String> {
        let [configure, write, read] = if granted { RIGHTS } else { NO_RIGHTS };
        let path = ["permissions", &self.world.vhost, &self.worker_user];
        let rights = json!({ "configure": configure, "write": write, "read": read });
        let mut set = Err("no node answers".to_owned());
        for node in &self.services {
            if set.is_err() {
                set = node.call(None, Method::PUT, &path, rights.clone()).await.map(drop);
            }
        }
        set
    }

    /// Gives the workers' role what it needs in the database.
    pub async fn grant_database_rights(&self) {
        let name = &self.world.schema;
        let grant = format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {name}"
        );
        self.database.ask(&grant).await.unwrap();
    }

    /// Takes it away.
    pub async fn revoke_database_rights(&self) {
        let name = &self.world.schema;
        let revoke = format!("REVOKE ALL ON ALL TABLES IN SCHEMA {name} FROM {name}");
        self.database.ask(&revoke).await.unwrap();
    }

    /// Ends the database sessions of the workers, or of everybody.
    pub async fn terminate_sessions(&self, workers_only: bool) -> Result<String, String> {
        let whose = if workers_only {
            format!("usename = '{}'", self.world.schema)
        } else {
            "backend_type = 'client backend' AND pid <> pg_backend_pid()".to_owned()
        };
        let sql =
            format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {whose}");
        self.database.ask(&sql).await
    }
}

/// The broker's nodes: one, or what `OVERDUE_CHAOS_NODES` lists, an AMQP URI and the URL of a management API each.
pub fn nodes() -> Vec<Services> {
    let services = Services::chaos();
    #[expect(
        clippy::disallowed_methods,
        reason = "the script that started the nodes says where they are"
    )]
    let Ok(list) = env::var("OVERDUE_CHAOS_NODES") else { return vec![services] };
    let node = |entry: &str| {
        let (broker, management) = entry.split_once(' ').unwrap();
        let [broker, management] = [broker, management].map(|url| Url::parse(url).unwrap());
        Services { broker, management, ..services.clone() }
    };
    list.split(',').map(node).collect()
}
