//! Two pools of connections. A statement is cancelled when its caller drops it, and fails when the server is silent without closing
//! its connections.
//!
//! Statements that close orders have a separate pool, so they never wait for a connection that a relay or a burst keeps. The lock
//! time-out of this pool is set when a connection is opened. A limit per transaction would cost two more statements (`BEGIN; SET
//! LOCAL`, `COMMIT`), and a small batch costs little more than that.

use std::{
    ops::{Deref, Range},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, QueueMode,
    RecyclingMethod, Runtime,
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{Config, NoTls, Row, SimpleQueryMessage, types::ToSql};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    CONNECT_TIMEOUT, CREATE_TIMEOUT, Store, StoreError,
    clock::DatabaseTime,
    connect::Connector,
    contract::{Contract, taken},
    refusal,
};

/// A pooled connection.
pub type Connection = Object;

/// Limit for each lock of a closing statement: payments and other batches lock the stock of an order for milliseconds, and a batch
/// that waits longer makes all of its orders late.
pub(crate) const CLOSING_LOCK_TIMEOUT: Duration = Duration::from_millis(50);
/// Equal to the statement time-out: a longer wait means that the database is slow, not that the pool is too small.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The user, and the schemas of the search path that it may not use, from the newest connection. PostgreSQL reports their tables as
/// missing.
pub(super) type ClosedSchemas = Arc<Mutex<Option<(String, String)>>>;

/// The encoding of a database if `initdb` found no locale.
const NO_ENCODING: &str = "SQL_ASCII";

const OPENED: &str = include_str!("../../sql/session_opened.sql");

/// The pool for a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolKind {
    Closing,
    Anything,
}

#[derive(Clone)]
pub(super) struct Pools {
    closing: Pool,
    anything: Pool,
}

impl Pools {
    /// Opens at most `connections` in both pools, and at least one each; the larger half closes orders.
    pub(super) fn new(
        config: &Config,
        connector: &Connector,
        connections: usize,
        closed_schemas: &ClosedSchemas,
    ) -> Result<Self, StoreError> {
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        let others = u32::try_from(hosts.saturating_sub(1)).unwrap_or(u32::MAX);
        let create_timeout = CREATE_TIMEOUT + CONNECT_TIMEOUT.saturating_mul(others);
        let pool = |config, connections: usize| {
            let closed_schemas = Arc::clone(closed_schemas);
            // Fast recycling: a dead connection shows at its first statement. That costs one retry instead of a round trip each
            // time.
            let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let built = Pool::builder(Manager::from_connect(config, connector.clone(), recycling))
                .max_size(connections.max(1))
                // The connection used last is in the caches of the processor, and its statements are prepared.
                .queue_mode(QueueMode::Lifo)
                .runtime(Runtime::Tokio1)
                .wait_timeout(Some(WAIT_TIMEOUT))
                .create_timeout(Some(create_timeout))
                .post_create(Hook::async_fn(move |client, _| {
                    let closed_schemas = Arc::clone(&closed_schemas);
                    Box::pin(async move { opened(client, &closed_schemas).await })
                }))
                .build();
            built.map_err(|error| StoreError::Address(error.to_string()))
        };
        // PostgreSQL uses the last of two values: a lock time-out in the URL applies to the other pool only.
        let mut limited = config.clone();
        let options = config.get_options().unwrap_or_default();
        limited.options(format!("{options} -c lock_timeout={}", CLOSING_LOCK_TIMEOUT.as_millis()));
        Ok(Self {
            closing: pool(limited, connections.div_ceil(2))?,
            anything: pool(config.clone(), connections / 2)?,
        })
    }

    const fn of(&self, pool: PoolKind) -> &Pool {
        match pool {
            PoolKind::Closing => &self.closing,
            PoolKind::Anything => &self.anything,
        }
    }

    fn closing(&self) -> usize {
        self.closing.status().max_size
    }

    /// Drops every idle connection.
    pub(super) fn drop_connections(&self) {
        self.closing.retain(|_, _| false);
        self.anything.retain(|_, _| false);
    }
}

/// Checks a new connection.
async fn opened(client: &ClientWrapper, closed_schemas: &ClosedSchemas) -> Result<(), HookError> {
    let asked = timeout(CREATE_TIMEOUT, client.simple_query(OPENED)).await;
    let answer = asked.map_err(|_elapsed| HookError::message("it does not answer"))?;
    let answer = answer.map_err(HookError::Backend)?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let text = |column: usize| row.and_then(|row| row.get(column)).map(str::to_owned);
    if text(2).as_deref() == Some(NO_ENCODING) {
        // Texts of this encoding are bytes, which need not be UTF-8.
        return Err(HookError::message(NO_ENCODING));
    }
    *closed_schemas.lock() = text(0).zip(text(1));
    Ok(())
}

/// How a transaction of one statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Rollback,
}

/// Checks deferred constraints, as a commit would. It is a separate batch, so that the ROLLBACK after it runs even if it fails.
const CHECK_DEFERRED: &str = "SET CONSTRAINTS ALL IMMEDIATE";

impl End {
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::Commit => "COMMIT",
            Self::Rollback => "ROLLBACK",
        }
    }
}

/// The limits of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionLimits {
    /// Limit for each wait for a lock; `None` uses the limit of the connection.
    pub(crate) lock: Option<Duration>,
    /// Limit for each statement; `None` uses the limit of the connection.
    pub(crate) statement: Option<Duration>,
}

impl TransactionLimits {
    /// The limits of the connection.
    pub(crate) const NONE: Self = Self { lock: None, statement: None };
    /// Limits for a DELETE that is retried later: it hardly waits for other sessions, and hardly delays them.
    pub(super) const DELETION: Self =
        Self { lock: Some(Duration::from_millis(100)), statement: Some(Duration::from_secs(5)) };

    /// Begins a transaction with these limits. READ COMMITTED, whatever the default is: each statement sees what was committed
    /// before it.
    pub(super) fn begin(self) -> String {
        let set = |name, limit: Option<Duration>| {
            limit.map_or_else(String::new, |limit| {
                format!("; SET LOCAL {name} = {}", limit.as_millis())
            })
        };
        let (lock, statement) =
            (set("lock_timeout", self.lock), set("statement_timeout", self.statement));
        format!("BEGIN ISOLATION LEVEL READ COMMITTED{lock}{statement}")
    }
}

/// A statement, its parameters, and the contract of its parameters and columns.
#[derive(Clone, Copy)]
pub(super) struct StatementCall<'a> {
    pub(super) name: &'static str,
    pub(super) sql: &'a str,
    pub(super) parameters: &'a [&'a (dyn ToSql + Sync)],
    pub(super) contract: Contract<'a>,
}

impl<'a> StatementCall<'a> {
    pub(super) const fn new(
        name: &'static str,
        sql: &'a str,
        parameters: &'a [&'a (dyn ToSql + Sync)],
    ) -> Self {
        Self { name, sql, parameters, contract: Contract::None }
    }
}

/// Reads a count.
pub(super) fn count(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}

/// The transaction of a statement.
pub(super) enum Mode<'a> {
    /// A transaction of this statement alone.
    Alone,
    /// Begin, statements that must succeed first, and the end.
    Between(String, &'a [StatementCall<'a>], &'static str),
    /// Prepares and checks the statement only.
    Prepared,
}

impl Mode<'_> {
    /// A transaction with its own limits.
    pub(super) fn transaction(limits: TransactionLimits, end: End) -> Self {
        Self::Between(limits.begin(), &[], end.sql())
    }
}

impl Store {
    /// Limit of statements that close orders at once.
    pub(crate) fn closing_connections(&self) -> usize {
        self.pools.closing()
    }

    pub(crate) async fn rows(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.execute(PoolKind::Anything, StatementCall::new(name, sql, parameters)).await
    }

    /// Runs a statement that always returns a row.
    pub(crate) async fn one(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, StoreError> {
        let rows = self.rows(name, sql, parameters).await?;
        let silent = || StoreError::Silent { address: self.address.to_string() };
        rows.into_iter().next().ok_or_else(silent)
    }

    /// Plans a statement, which shows missing tables, columns and permissions.
    pub(super) async fn explain(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<(), StoreError> {
        self.rows(name, &format!("EXPLAIN {sql}"), parameters).await.map(drop)
    }

    /// Runs a statement as a transaction of its own.
    pub(super) async fn execute(
        &self,
        pool: PoolKind,
        question: StatementCall<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.run(pool, question, Mode::Alone).await?.0)
    }

    /// Runs a statement in a transaction with its own limits.
    pub(super) async fn in_transaction(
        &self,
        pool: PoolKind,
        limits: TransactionLimits,
        question: StatementCall<'_>,
        end: End,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.run(pool, question, Mode::transaction(limits, end)).await?.0)
    }

    /// Closes orders if all statements in `before` succeed, in one transaction.
    pub(super) async fn close_behind(
        &self,
        before: &[StatementCall<'_>],
        limits: TransactionLimits,
        question: StatementCall<'_>,
        end: End,
    ) -> Result<Vec<Row>, StoreError> {
        let mut begin = limits.begin();
        if question.contract.names_schemas() {
            begin += &self.theirs_first;
        }
        let mode = Mode::Between(begin, before, end.sql());
        Ok(self.run(PoolKind::Closing, question, mode).await?.0)
    }

    /// Prepares and checks a statement without running it.
    pub(super) async fn prepare(&self, question: StatementCall<'_>) -> Result<(), StoreError> {
        self.run(PoolKind::Anything, question, Mode::Prepared).await.map(drop)
    }

    /// Reads the database's clock. The range is the time here between query and answer.
    pub(super) async fn read_clock(&self) -> Result<(DatabaseTime, Range<Instant>), StoreError> {
        let question = StatementCall::new("clock", "SELECT clock_timestamp()", &[]);
        let (rows, when) = self.run(PoolKind::Anything, question, Mode::Alone).await?;
        Ok((rows[0].get(0), when))
    }

    async fn run(
        &self,
        pool: PoolKind,
        question: StatementCall<'_>,
        mode: Mode<'_>,
    ) -> Result<(Vec<Row>, Range<Instant>), StoreError> {
        let running = async {
            let client = self.cancellable(pool).await?;
            let answer = self.run_on(&client, question, mode).await;
            let answer = answer.map_err(|error| question.contract.failure(error, question.sql));
            if !answer.as_ref().is_err_and(|error| error.is_stale() || error.is_misfit()) {
                // After such an error the next attempt prepares the statement on another connection.
                client.done();
            }
            answer
        };
        self.with_watchdog(Box::pin(running)).await.inspect(|_| self.connector.succeeded())
    }

    /// Sends BEGIN, the statements and the end at once, so that dropping this future leaves no open transaction. For a rollback it
    /// awaits BEGIN first. Returns also the time of query and answer.
    pub(super) async fn run_on(
        &self,
        client: &ClientWrapper,
        StatementCall { name, sql, parameters, contract }: StatementCall<'_>,
        mode: Mode<'_>,
    ) -> Result<(Vec<Row>, Range<Instant>), StoreError> {
        let statement = client.prepare_cached(&self.in_own_schema(sql)).await;
        let statement = self.named(name, statement)?;
        contract.check(&statement)?;
        let parameters = taken(&statement, parameters);
        let sent = Instant::now();
        let rows = match mode {
            Mode::Prepared => Ok(Vec::new()),
            Mode::Alone => client.query(&statement, parameters).await,
            Mode::Between(before, first, after) => {
                let mut prepared = Vec::with_capacity(first.len());
                for question in first {
                    let sql = self.in_own_schema(question.sql);
                    let statement = client.prepare_cached(&sql).await;
                    let statement = self.named(question.name, statement);
                    let of_question = |error| question.contract.failure(error, question.sql);
                    prepared.push((question, statement.map_err(of_question)?));
                }
                // Joined futures are polled one after the other, and so sent in this order.
                let firsts = join_all(prepared.iter().map(async |(question, statement)| {
                    let answered = client.query(statement, question.parameters).await;
                    let answered = self.named(question.name, answered).map(drop);
                    answered.map_err(|error| question.contract.failure(error, question.sql))
                }));
                // If BEGIN were cancelled, the statement after it would be committed.
                let is_undone = after == End::Rollback.sql();
                if is_undone {
                    let begun = client.batch_execute(&before).await;
                    if begun.is_err() {
                        let _ended = client.batch_execute(after).await;
                    }
                    self.named(name, begun)?;
                }
                let beginning =
                    async { if is_undone { Ok(()) } else { client.batch_execute(&before).await } };
                let checking = async {
                    if is_undone { client.batch_execute(CHECK_DEFERRED).await } else { Ok(()) }
                };
                let (begun, firsts, rows, checked, ended) = tokio::join!(
                    biased;
                    beginning,
                    firsts,
                    async { client.query(&statement, parameters).await },
                    checking,
                    client.batch_execute(after),
                );
                // The first failure is the cause of the failures after it.
                firsts.into_iter().collect::<Result<(), _>>()?;
                begun.and(rows).and_then(|rows| checked.and(ended).map(|()| rows))
            }
        };
        Ok((self.named(name, rows)?, sent..Instant::now()))
    }

    /// A connection from the pool for everything except closing.
    ///
    /// # Errors
    /// The server is not reachable, refuses the login, or has no such database.
    pub async fn client(&self) -> Result<Connection, StoreError> {
        self.connection(PoolKind::Anything).await
    }

    async fn connection(&self, pool: PoolKind) -> Result<Connection, StoreError> {
        let address = || self.address.to_string();
        self.pools.of(pool).get().await.map_err(|error| match error {
            PoolError::Backend(source) | PoolError::PostCreateHook(HookError::Backend(source)) => {
                match refusal(&source) {
                    Some(reason) => StoreError::Tls { address: address(), reason },
                    None => StoreError::Connect { address: address(), source },
                }
            }
            PoolError::PostCreateHook(HookError::Message(text)) if text == NO_ENCODING => {
                StoreError::Encoding { address: address() }
            }
            other => StoreError::Pool { address: address(), reason: other.to_string() },
        })
    }

    /// A connection that leaves its pool, so the pool may open another one.
    pub(super) async fn detached(&self) -> Result<ClientWrapper, StoreError> {
        Ok(Connection::take(self.connection(PoolKind::Anything).await?))
    }

    /// A connection whose statement is cancelled when its caller drops it.
    pub(super) async fn cancellable(&self, pool: PoolKind) -> Result<Cancellable, StoreError> {
        let client = self.connection(pool).await?;
        Ok(Cancellable { client: Some(client), tls: self.tls.clone(), is_done: false })
    }

    /// Waits for `work` while the server answers on a new connection. A slow statement ends by its own time-out; a silent server is
    /// an error. Dropped work must not return its connection to the pool.
    pub(super) async fn with_watchdog<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut work = pin!(work);
        loop {
            if let Ok(result) = timeout(self.timing.database_silence, &mut work).await {
                return result;
            }
            tokio::select! {
                biased;
                result = &mut work => return result,
                // The future is boxed because it is large and rarely polled.
                answers = Box::pin(self.answers()) => if !answers {
                    return Err(StoreError::Silent { address: self.address.to_string() });
                },
            }
        }
    }

    /// Whether the server, or its machine, answers a new connection. A refusal, e.g. because of too many connections, is an answer.
    async fn answers(&self) -> bool {
        timeout(self.timing.database_probe, self.connector.say_hello()).await.is_ok()
    }
}

/// A connection that leaves its pool, and cancels its statement, if it is dropped before [`Cancellable::done`]. Otherwise the
/// statement would continue, and the next user of the connection would wait for it.
pub(super) struct Cancellable {
    /// `None` only during the drop.
    client: Option<Connection>,
    tls: Option<MakeRustlsConnect>,
    is_done: bool,
}

impl Cancellable {
    /// Returns the connection to the pool.
    pub(super) fn done(mut self) {
        self.is_done = true;
    }
}

impl Deref for Cancellable {
    type Target = Connection;

    #[expect(clippy::expect_used, reason = "only Drop takes it")]
    fn deref(&self) -> &Connection {
        self.client.as_ref().expect("a connection until it is dropped")
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        let Some(client) = self.client.take().filter(|_| !self.is_done) else { return };
        let (token, tls) = (client.cancel_token(), self.tls.take());
        let client = Connection::take(client);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            // If the cancellation does not arrive, the statement time-out ends the statement.
            let _cancelled = match tls {
                Some(tls) => token.cancel_query(tls).await,
                None => token.cancel_query(NoTls).await,
            };
            drop(client);
        });
    }
}
