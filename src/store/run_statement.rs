//! Running a statement: how long it may wait, cancelled when nobody waits for it any more, and given up when the server has
//! stopped answering without closing its connections.

use std::{ops::Deref, pin::pin, time::Duration};

use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{NoTls, Row, types::ToSql};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Store, StoreError, TlsConnect, session::Connection};

impl Store {
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

    /// Runs a prepared statement of ours as long as the server answers.
    pub(super) async fn rows(
        &self,
        name: &'static str,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let work = async {
            let client = self.cancellable().await?;
            let statement = self.named(name, client.prepare_cached(sql).await)?;
            let rows = self.named(name, client.query(&statement, parameters).await)?;
            client.done();
            Ok(rows)
        };
        self.attended(Box::pin(work)).await
    }

    /// Whether the server, or the machine it was on, says anything to a new connection: that it has too many, or that
    /// it takes none, is an answer as well.
    async fn answers(&self) -> bool {
        let asking = async {
            match &self.tls {
                Some(tls) => ask(&self.config, tls.clone()).await,
                None => ask(&self.config, NoTls).await,
            }
        };
        timeout(self.timing.database_probe, asking).await.is_ok()
    }
}

async fn ask<T: TlsConnect>(
    config: &tokio_postgres::Config,
    tls: T,
) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = config.connect(tls).await?;
    let asking = async {
        let asked = client.simple_query("").await;
        // The connection ends with its client.
        drop(client);
        asked
    };
    let (asked, _ended) = tokio::join!(asking, connection);
    asked.map(drop)
}

/// Dropped before [`Cancellable::done`], it cancels what runs and leaves the pool: the statement would otherwise go on,
/// and the next user of the connection would wait for it.
pub(super) struct Cancellable {
    /// Empty only while it is dropped.
    client: Option<Connection>,
    tls: Option<MakeRustlsConnect>,
    is_done: bool,
}

impl Store {
    pub(super) async fn cancellable(&self) -> Result<Cancellable, StoreError> {
        let client = self.cancelling(self.any_client().await?);
        self.named("RESET lock_timeout", client.unlimited().await)?;
        Ok(client)
    }

    /// One that waits for locks as long as whoever had it before.
    pub(super) async fn any_cancellable(&self) -> Result<Cancellable, StoreError> {
        Ok(self.cancelling(self.any_client().await?))
    }

    fn cancelling(&self, client: Connection) -> Cancellable {
        Cancellable { client: Some(client), tls: self.tls.clone(), is_done: false }
    }
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

/// The limits of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// For each lock that somebody else holds.
    pub(crate) lock: Duration,
    /// In all; none where the session's limit is enough.
    pub(crate) statement: Option<Duration>,
}

impl Patience {
    /// Longer than any sane payment transaction.
    pub(super) const LONG: Self = Self { lock: Duration::from_secs(5), statement: None };

    /// Begins a transaction with these limits.
    pub(super) fn begin(self) -> String {
        let lock_ms = self.lock.as_millis();
        let statement = self.statement.map_or_else(String::new, |limit| {
            format!("; SET LOCAL statement_timeout = {}", limit.as_millis())
        });
        format!("BEGIN; SET LOCAL lock_timeout = {lock_ms}{statement}")
    }
}
