//! The edge to PostgreSQL: the pool, the classes of failures, and every statement of the program.

pub(crate) mod acceptance;
pub(crate) mod clock;
mod connect;
mod contract;
mod dry_run;
mod effect_trial;
mod effect_watch;
pub(crate) mod effects;
pub(crate) mod failure;
mod health;
pub(crate) mod history;
mod one_order;
pub(crate) mod orders;
pub(crate) mod outbox;
pub(crate) mod outgoing;
pub(crate) mod overdue;
pub(crate) mod own_tables;
pub(crate) mod pauses;
pub(crate) mod pool;
mod pooler;
pub(crate) mod proposal_facts;
pub(crate) mod schedule;
pub(crate) mod status;
mod tls_parameters;

use std::{
    borrow::Cow, error::Error as _, fmt, net::IpAddr, path::Path, sync::Arc, time::Duration,
};

use tokio::sync::Semaphore;
use tokio_postgres::{config::Host, error::SqlState};
use tokio_postgres_rustls::MakeRustlsConnect;

use clock::DatabaseTime;
use connect::Connector;
pub use failure::{FailureKind, StoreError};
use pool::{ClosedSchemas, Pools};
use tls_parameters::SslParameters;

use crate::{
    doctor::facts::{Encryption, is_loopback},
    timing::Timing,
    tls,
};

/// `application_name` of each session.
const APPLICATION: &str = "overdue";
/// Limit for TCP, TLS and login, to one address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Limit for one connection to one host. It is shorter than the wait for a server that falls silent, so that a server that has
/// never answered gets its own error.
const CREATE_TIMEOUT: Duration = Duration::from_secs(7);
/// A statement of `overdue` takes milliseconds; a longer one means that something is broken.
const STATEMENT_TIMEOUT_MS: u32 = 30_000;
/// Limit for each wait for a lock, except in the pool that closes orders: longer than any sane payment transaction.
const LOCK_TIMEOUT_MS: u32 = 5_000;
/// The statements are short and repeat, so each is planned once per connection, without the ids. A custom plan for a single order
/// would cost more than its execution. Generic plans use an index even for a table that was empty. The order of their locks does
/// not depend on the size of a table.
const PLANNER: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off";
/// A session with the value `direct` has received its options: no pooler has dropped them.
const SESSION: &str = "overdue.session";
/// The server is considered gone if it acknowledges no bytes for this time.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(9);
/// Idle time before the first keepalive probe, and between two probes.
const KEEPALIVE: Duration = Duration::from_secs(3);

/// The database of the orders.
#[derive(Clone)]
pub struct Store {
    pools: Pools,
    address: Arc<str>,
    /// TLS of connections outside the pool; `None` if connections are in plain text.
    tls: Option<MakeRustlsConnect>,
    connector: Connector,
    /// How `tls` verifies the server, if the server offers TLS.
    encryption: Encryption,
    /// The settings of connections outside the pool.
    config: Arc<tokio_postgres::Config>,
    timing: Arc<Timing>,
    closed_schemas: ClosedSchemas,
    burst_locks: Arc<Semaphore>,
    /// The first schema of `database.search_path`.
    own_schema: Arc<str>,
    /// Sets the search path with our schema last, if there are others: a trigger on a team's table then finds the team's `outbox`
    /// first.
    theirs_first: Arc<str>,
}

/// Wraps a connection in TLS, or leaves it in plain text.
trait TlsConnect:
    tokio_postgres::tls::MakeTlsConnect<
        tokio_postgres::Socket,
        Stream: Send,
        TlsConnect: Send + tokio_postgres::tls::TlsConnect<tokio_postgres::Socket, Future: Send>,
    > + Send
{
}

impl TlsConnect for MakeRustlsConnect {}
impl TlsConnect for tokio_postgres::NoTls {}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.address)
    }
}

impl Store {
    /// Connects to `url` (`postgres://user:password@host/database`) with at most `connections`, and at least two.
    ///
    /// `search_path` is a comma-separated list of schemas. The first schema contains the tables of `overdue`, whatever search path
    /// a session has. The tables of effects are looked up along all schemas. The first statement opens the first connection.
    ///
    /// # Errors
    /// The URL or the name of the first schema cannot be used, or TLS is requested and the machine has no root certificates.
    pub fn new(url: &str, search_path: &str, connections: usize) -> Result<Self, StoreError> {
        Self::open(url, search_path, connections, "")
    }

    /// Like [`Store::new`]; the built-in effect writes no events (`overdue.events` is off in its sessions).
    pub fn without_events(
        url: &str,
        search_path: &str,
        connections: usize,
    ) -> Result<Self, StoreError> {
        Self::open(url, search_path, connections, " -c overdue.events=off")
    }

    fn open(
        url: &str,
        search_path: &str,
        connections: usize,
        more: &str,
    ) -> Result<Self, StoreError> {
        let own_schema = own_tables::own_schema(search_path)?.into();
        let (url, parameters) = SslParameters::take(url)?;
        let mut config: tokio_postgres::Config =
            url.parse().map_err(|error: tokio_postgres::Error| {
                StoreError::Address(crate::text::error_chain(&error))
            })?;
        let options = format!(
            "-c search_path={} -c statement_timeout={STATEMENT_TIMEOUT_MS} -c lock_timeout={LOCK_TIMEOUT_MS} {PLANNER} -c {SESSION}=direct{more}",
            search_path.replace(' ', "")
        );
        // PostgreSQL uses the last of two values: the URL overrides the options that are set here.
        let given = config.get_options().map(|given| format!(" {given}")).unwrap_or_default();
        config
            .options(format!("{options}{given}"))
            .application_name(APPLICATION)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(TCP_USER_TIMEOUT)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE)
            .keepalives_retries(2);
        let address = address_of(&config);
        // `hostaddr` is the real address of a host.
        let local = hosts(&config).all(|host| is_loopback(&host))
            && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let tls = parameters.tls(&mut config, local)?;
        let encryption = tls.as_ref().map_or(Encryption::None, |tls| tls.verification.into());
        let tls = match tls {
            Some(tls) => Some(MakeRustlsConnect::new(tls.client().map_err(|error| {
                StoreError::Tls { address: address.clone(), reason: error.to_string() }
            })?)),
            None => None,
        };
        let closed_schemas = ClosedSchemas::default();
        let connector = Connector::new(tls.clone());
        let pools = Pools::new(&config, &connector, connections, &closed_schemas)?;
        let (address, config) = (address.into(), Arc::new(config));
        let theirs_first = theirs_first(search_path).into();
        let (timing, burst_locks) = (Arc::default(), overdue::permits(connections / 2));
        Ok(Self {
            pools,
            address,
            tls,
            connector,
            encryption,
            config,
            timing,
            closed_schemas,
            burst_locks,
            own_schema,
            theirs_first,
        })
    }

    /// Replaces the time-outs of waits.
    pub fn with_timing(self, timing: Arc<Timing>) -> Self {
        Self { timing, ..self }
    }

    /// Reads the URL again from this file when a login is refused.
    pub(crate) fn with_url_file(self, file: Option<&Path>) -> Self {
        if let Some(file) = file {
            self.connector.reads_again(file);
        }
        self
    }

    /// Time for which every login has been refused and no statement has succeeded.
    pub(crate) fn refused_for(&self) -> Duration {
        self.connector.refused_for()
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Host, port and name of the database, without the password, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Checks that the database answers and can be written to.
    ///
    /// # Errors
    /// The database does not answer, or is read-only.
    pub async fn ping(&self) -> Result<(), StoreError> {
        // A standby is read-only, and so is a primary with `default_transaction_read_only`.
        const SQL: &str = "SELECT current_setting('transaction_read_only')::boolean";
        if self.one("ping", SQL, &[]).await?.get(0) {
            return Err(StoreError::ReadOnly { address: self.address.to_string() });
        }
        Ok(())
    }

    /// The database's clock.
    pub(crate) async fn now(&self) -> Result<DatabaseTime, StoreError> {
        Ok(self.read_clock().await?.0)
    }

    /// Drops every idle connection: after a failover they lead to the old primary.
    pub fn drop_connections(&self) {
        self.pools.drop_connections();
    }

    /// Runs a script of several statements in one transaction.
    pub async fn run_script(&self, name: &'static str, script: &str) -> Result<(), StoreError> {
        let mut client = self.client().await?;
        let transaction = self.named(name, client.transaction().await)?;
        self.named(name, transaction.batch_execute(script).await)?;
        self.named(name, transaction.commit().await)
    }

    /// Replaces `{own}` in a statement by the schema of our tables.
    pub fn in_own_schema<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        own_tables::in_own_schema(&self.own_schema, sql)
    }

    /// Adds the name of the statement to its failure.
    pub(crate) fn named<T>(
        &self,
        statement: &'static str,
        result: Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        result.map_err(|source| {
            if let Some(paused) = pauses::refused(&source) {
                return paused;
            }
            // The client gives each statement another name, so a pooler has caused this error.
            if source.code() == Some(&SqlState::DUPLICATE_PSTATEMENT) {
                return self.no_statements();
            }
            let address = self.address.to_string();
            match self.closed_schemas.lock().clone() {
                Some((user, schemas)) if self.is_refused(&schemas, &source) => {
                    StoreError::ClosedSchema { user, schemas, address, source }
                }
                _ => StoreError::Statement { statement, address, source },
            }
        })
    }

    /// Whether the user may not use the schema of a name: PostgreSQL skips such schemas, and reports an error for our own.
    fn is_refused(&self, closed: &str, error: &tokio_postgres::Error) -> bool {
        const NOTHING: [SqlState; 3] = [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_FUNCTION,
            SqlState::INVALID_SCHEMA_NAME,
        ];
        let is_own = || closed.split(", ").any(|it| *it == *self.own_schema);
        error.code().is_some_and(|code| {
            NOTHING.contains(code) || *code == SqlState::INSUFFICIENT_PRIVILEGE && is_own()
        })
    }
}

/// SQL that moves the first schema of a search path behind the others, but not behind `pg_catalog`; empty without others.
fn theirs_first(search_path: &str) -> String {
    const OF_POSTGRESQL: &str = "pg_catalog";
    let Some((ours, others)) = search_path.split_once(',') else { return String::new() };
    let (last, theirs): (Vec<&str>, Vec<&str>) =
        others.split(',').map(str::trim).partition(|name| *name == OF_POSTGRESQL);
    if theirs.is_empty() {
        return String::new();
    }
    let all: Vec<&str> = theirs.into_iter().chain([ours.trim()]).chain(last).collect();
    format!("; SET LOCAL search_path = {}", all.join(", "))
}

/// The reason why TLS failed; `None` for any other failure.
fn refusal(error: &tokio_postgres::Error) -> Option<String> {
    // The client has no other mark for this error.
    if error.source().is_some_and(|source| source.to_string() == "server does not support TLS") {
        return Some(
            "it offers none: set ssl = on there; for plain text write sslmode=disable into database.url".to_owned(),
        );
    }
    tls::refusal(error, tls::POSTGRESQL)
}

fn address_of(config: &tokio_postgres::Config) -> String {
    let ports = config.get_ports();
    let each = hosts(config).enumerate().map(|(index, host)| {
        // A single port is for all hosts.
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        format!("{host}:{port}")
    });
    let each: Vec<String> = each.collect();
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or("postgres");
    format!("{} database `{database}`", each.join(","))
}

fn hosts(config: &tokio_postgres::Config) -> impl Iterator<Item = String> {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let nobody = config.get_hosts().is_empty().then(|| "localhost".to_owned());
    hosts.chain(nobody)
}
