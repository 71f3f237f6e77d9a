//! Broker, database and users of a storm. Drop undoes every fault.

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

/// The rights of a worker (`overdue permissions`): configure, write, read.
const RIGHTS: [&str; 3] = ["^$", r"^orders\.(again|events|park)$", r"^orders\.unpaid(\.[0-9]+)?$"];
const NO_RIGHTS: [&str; 3] = ["^$", "^$", "^$"];
/// Connections of the order service and the tests; the pool reserves as many for closing, which are never opened.
const CONNECTIONS: usize = 80;

pub struct Site {
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
    // Dropped in this order: heal the services, delete the world, unlock the services for the next test.
    _heal: Heal,
    pub world: World,
    services: Vec<Services>,
    _alone: Vec<File>,
}

impl Site {
    /// Creates tables, users and topology on a stack that no other test uses meanwhile.
    pub async fn on(services: Vec<Services>) -> Self {
        let alone = lock(&services[0], File::lock).await;
        // A killed run may have left the services stopped.
        heal(&services).await;
        let (nodes, database) = (nodes_of(&services).await, Database::of(&services[0]).await);
        let world = World::with(services[0].clone(), TOPOLOGY).await.clock_set_by_hand().await;
        // Defaults from before the clock use the server's time.
        // An hour behind it: commit timestamps have the server's time, and must be later.
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

    /// The address of each node.
    pub fn addresses(&self) -> Vec<BrokerAddress> {
        let address = |node: &Services| node.address(&self.world.vhost, None);
        self.services.iter().map(address).collect()
    }

    /// The node with this number, modulo their number.
    pub fn node(&self, victim: usize) -> &Broker {
        &self.nodes[victim % self.nodes.len()]
    }

    /// Moves the database's clock by `seconds`. It locks tables to run between two transactions: a transaction compares `now()`
    /// with the deadline and writes `clock_timestamp()`. A statement locks its tables before its snapshot, which decides its
    /// `now()`; it reads the clock later. Therefore `orders` is locked as well.
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

    /// Revokes or grants all rights of the workers' user at the broker.
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

    /// Grants the workers' role its rights in the database.
    pub async fn grant_database_rights(&self) {
        let name = &self.world.schema;
        let grant = format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {name}"
        );
        self.database.ask(&grant).await.unwrap();
    }

    /// Revokes all rights of the workers' role.
    pub async fn revoke_database_rights(&self) {
        let name = &self.world.schema;
        let revoke = format!("REVOKE ALL ON ALL TABLES IN SCHEMA {name} FROM {name}");
        self.database.ask(&revoke).await.unwrap();
    }

    /// Ends the database sessions of the workers, or all client sessions.
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

/// The broker's nodes: one, or the list in `OVERDUE_CHAOS_NODES` (an AMQP URI and a management URL each).
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
