//! The connections: two pools, and statements that are cancelled when nothing waits for them any more, and given up when the
//! server has stopped answering without closing its connections.
//!
//! What closes orders has a pool of its own. So it waits for no connection that a relay or the reader of a burst keeps, and how
//! long it waits for locks is fixed when a connection is opened: a limit of one transaction costs two statements more (`BEGIN;
//! SET LOCAL`, `COMMIT`), and a small batch little more than that.

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

/// A connection that goes back to its pool.
pub type Connection = Object;

/// For each lock, of a statement that closes orders: payments and other batches hold the stock of an order for milliseconds, and a
/// batch that waits longer makes all of its orders late.
pub(crate) const CLOSING_LOCK_TIMEOUT: Duration = Duration::from_millis(50);
/// Longer than any statement takes; then it is not the pool that is short.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The user, and the schemas of the search path that it may not use, as of the newest connection: their tables are as if they
/// were not there.
pub(super) type ClosedSchemas = Arc<Mutex<Option<(String, String)>>>;

/// What a database has if `initdb` found no locale.
const NO_ENCODING: &str = "SQL_ASCII";

const OPENED: &str = include_str!("../../sql/session_opened.sql");

/// Which connections a statement is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Closing,
    Anything,
}

/// Both pools.
#[derive(Clone)]
pub(super) struct Pools {
    closing: Pool,
    anything: Pool,
}

impl Pools {
    /// At most `connections` together, and at least one each; the larger half closes orders.
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
            // Fast: a dead connection shows at its first statement, and costs one retry instead of a round trip each time.
            let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let built = Pool::builder(Manager::from_connect(config, connector.clone(), recycling))
                .max_size(connections.max(1))
                // What was used last is in the caches of the processor, and has its statements prepared.
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
        // Of two, PostgreSQL takes the last: what the URL says of locks is for the others.
        let mut limited = config.clone();
        let options = config.get_options().unwrap_or_default();
        limited.options(format!("{options} -c lock_timeout={}", CLOSING_LOCK_TIMEOUT.as_millis()));
        Ok(Self {
            closing: pool(limited, connections.div_ceil(2))?,
            anything: pool(config.clone(), connections / 2)?,
        })
    }

    const fn of(&self, purpose: For) -> &Pool {
        match purpose {
            For::Closing => &self.closing,
            For::Anything => &self.anything,
        }
    }

    /// How many connections may close orders.
    fn closing(&self) -> usize {
        self.closing.status().max_size
    }

    /// Forgets every idle connection.
    pub(super) fn drop_connections(&self) {
        self.closing.retain(|_, _| false);
        self.anything.retain(|_, _| false);
    }
}

/// Of each new connection.
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
        // Its texts are bytes, which need not be UTF-8.
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

/// A commit would check what was deferred. As a batch of its own: if it fails, the ROLLBACK behind it is executed all the same.
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
    /// For each lock that somebody else holds; none where that of the connection is enough.
    pub(crate) lock: Option<Duration>,
    /// For its statement; none likewise.
    pub(crate) statement: Option<Duration>,
}

impl TransactionLimits {
    /// Those of the connection.
    pub(crate) const NONE: Self = Self { lock: None, statement: None };
    /// For what is tried again later: it waits for nobody, and keeps nobody waiting.
    pub(super) const DELETION: Self =
        Self { lock: Some(Duration::from_millis(100)), statement: Some(Duration::from_secs(5)) };

    /// Begins a transaction with them. Each of its statements sees what was committed before it, whatever the default is.
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

/// A statement, its parameters, and what it has to take and give.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) name: &'static str,
    pub(super) sql: &'a str,
    pub(super) parameters: &'a [&'a (dyn ToSql + Sync)],
    pub(super) contract: Contract<'a>,
}

impl<'a> Question<'a> {
    pub(super) const fn new(
        name: &'static str,
        sql: &'a str,
        parameters: &'a [&'a (dyn ToSql + Sync)],
    ) -> Self {
        Self { name, sql, parameters, contract: Contract::None }
    }
}

/// A cell that is a count.
pub(super) fn count(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}

/// How a statement is run.
pub(super) enum Mode<'a> {
    /// As its own transaction.
    Alone,
    /// Between these; behind others that have to succeed.
    Between(String, &'a [Question<'a>], &'static str),
    /// Only prepared and checked.
    Prepared,
}

impl Mode<'_> {
    /// In a transaction with limits of its own.
    pub(super) fn transaction(limits: TransactionLimits, end: End) -> Self {
        Self::Between(limits.begin(), &[], end.sql())
    }
}

impl Store {
    /// How many statements may close orders at once.
    pub(crate) fn closing_connections(&self) -> usize {
        self.pools.closing()
    }

    /// Runs a statement.
    pub(crate) async fn rows(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.ask(For::Anything, Question::new(name, sql, parameters)).await
    }

    /// Runs a statement that always gives a row.
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

    /// Plans a statement: missing tables, columns and permissions show.
    pub(super) async fn explain(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<(), StoreError> {
        self.rows(name, &format!("EXPLAIN {sql}"), parameters).await.map(drop)
    }

    /// Runs a statement, which is its own transaction.
    pub(super) async fn ask(
        &self,
        purpose: For,
        question: Question<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.run(purpose, question, Mode::Alone).await?.0)
    }

    /// Runs a statement in a transaction with limits of its own.
    pub(super) async fn in_transaction(
        &self,
        purpose: For,
        limits: TransactionLimits,
        question: Question<'_>,
        end: End,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.run(purpose, question, Mode::transaction(limits, end)).await?.0)
    }

    /// Closes orders, if everything in `before` succeeds: in a transaction that all are in.
    pub(super) async fn close_behind(
        &self,
        before: &[Question<'_>],
        limits: TransactionLimits,
        question: Question<'_>,
        end: End,
    ) -> Result<Vec<Row>, StoreError> {
        let mut begin = limits.begin();
        if question.contract.names_schemas() {
            begin += &self.theirs_first;
        }
        let mode = Mode::Between(begin, before, end.sql());
        Ok(self.run(For::Closing, question, mode).await?.0)
    }

    /// Prepares and checks a statement, and does not run it.
    pub(super) async fn prepare(&self, question: Question<'_>) -> Result<(), StoreError> {
        self.run(For::Anything, question, Mode::Prepared).await.map(drop)
    }

    /// The database's clock, and between which instants here it was read.
    pub(super) async fn read_clock(&self) -> Result<(DatabaseTime, Range<Instant>), StoreError> {
        let question = Question::new("clock", "SELECT clock_timestamp()", &[]);
        let (rows, when) = self.run(For::Anything, question, Mode::Alone).await?;
        Ok((rows[0].get(0), when))
    }

    async fn run(
        &self,
        purpose: For,
        question: Question<'_>,
        mode: Mode<'_>,
    ) -> Result<(Vec<Row>, Range<Instant>), StoreError> {
        let running = async {
            let client = self.cancellable(purpose).await?;
            let answer = self.run_on(&client, question, mode).await;
            let answer = answer.map_err(|error| question.contract.failure(error, question.sql));
            if !answer.as_ref().is_err_and(|error| error.is_stale() || error.is_misfit()) {
                // Otherwise the next attempt prepares it again, on another connection.
                client.done();
            }
            answer
        };
        self.attended(Box::pin(running)).await.inspect(|_| self.connector.succeeded())
    }

    /// What is sent goes out in one piece, but for what is to be undone, which waits for its BEGIN: whoever drops this leaves no
    /// open transaction behind. Gives also when it was sent and answered.
    pub(super) async fn run_on(
        &self,
        client: &ClientWrapper,
        Question { name, sql, parameters, contract }: Question<'_>,
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
                // Joined futures are polled, and so sent, one after the other.
                let firsts = join_all(prepared.iter().map(async |(question, statement)| {
                    let answered = client.query(statement, question.parameters).await;
                    let answered = self.named(question.name, answered).map(drop);
                    answered.map_err(|error| question.contract.failure(error, question.sql))
                }));
                // Behind a BEGIN that was cancelled it would be committed.
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
                // What comes behind a failure fails for no other reason.
                firsts.into_iter().collect::<Result<(), _>>()?;
                begun.and(rows).and_then(|rows| checked.and(ended).map(|()| rows))
            }
        };
        Ok((self.named(name, rows)?, sent..Instant::now()))
    }

    /// A connection of the pool that is for everything but closing.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the login, or has no such database.
    pub async fn client(&self) -> Result<Connection, StoreError> {
        self.connection(For::Anything).await
    }

    async fn connection(&self, purpose: For) -> Result<Connection, StoreError> {
        let address = || self.address.to_string();
        self.pools.of(purpose).get().await.map_err(|error| match error {
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

    /// A connection that leaves its pool, which may open another one in its place.
    pub(super) async fn detached(&self) -> Result<ClientWrapper, StoreError> {
        Ok(Connection::take(self.connection(For::Anything).await?))
    }

    /// A connection whose statement is cancelled when nothing waits for it any more.
    pub(super) async fn cancellable(&self, purpose: For) -> Result<Cancellable, StoreError> {
        let client = self.connection(purpose).await?;
        Ok(Cancellable { client: Some(client), tls: self.tls.clone(), is_done: false })
    }

    /// Waits for `work` as long as the server answers to others: a slow statement ends by its own time-out, a silent
    /// server is given up. Work that is dropped must not leave its connection to the pool.
    pub(super) async fn attended<T>(
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
                // Seldom needed, and large.
                answers = Box::pin(self.answers()) => if !answers {
                    return Err(StoreError::Silent { address: self.address.to_string() });
                },
            }
        }
    }

    /// Whether the server, or the machine it was on, says anything to a new connection: that it has too many, or that
    /// it takes none, is an answer as well.
    async fn answers(&self) -> bool {
        timeout(self.timing.database_probe, self.connector.say_hello()).await.is_ok()
    }
}

/// Dropped before [`Cancellable::done`], it cancels what runs and leaves the pool: the statement would otherwise go on,
/// and the next user of the connection would wait for it.
pub(super) struct Cancellable {
    /// Empty only while it is dropped.
    client: Option<Connection>,
    tls: Option<MakeRustlsConnect>,
    is_done: bool,
}

impl Cancellable {
    /// The connection goes back to the pool.
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
            // Where it does not arrive, the statement time-out ends the statement.
            let _cancelled = match tls {
                Some(tls) => token.cancel_query(tls).await,
                None => token.cancel_query(NoTls).await,
            };
            drop(client);
        });
    }
}
