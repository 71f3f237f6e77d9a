//! A connection of the pool, and how long it waits for locks.
//!
//! A limit of one transaction costs two statements more (`BEGIN; SET LOCAL`, `COMMIT`), each with an answer of its own, and a
//! small batch little more than that. So the limit is the session's, and it is set only where it changes.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool::managed::{self, Metrics, RecycleResult};
use deadpool_postgres::{ClientWrapper, Manager};
use tokio_postgres::{Error, SimpleQueryMessage};

/// A connection that goes back to the pool.
pub type Connection = managed::Object<Sessions>;

/// The lock time-out is as the connection was opened.
const AS_OPENED: u64 = 0;
/// Setting it has failed.
const UNKNOWN: u64 = u64::MAX;

/// Opens connections.
#[derive(Debug)]
pub struct Sessions {
    pub(super) manager: Manager,
    pub(super) closed_schemas: ClosedSchemas,
}

/// The user, and the schemas of the search path that it may not use: their tables are as if they were not there.
pub(super) type ClosedSchemas = Arc<Mutex<Option<(String, String)>>>;

/// What each connection sets when it is opened, to see it again.
pub(super) const MARK: &str = "-c overdue.session=on";
const OPENED: &str = include_str!("../../sql/session_opened.sql");

/// A connection, with the statements that are prepared on it.
#[derive(Debug)]
pub struct Session {
    client: ClientWrapper,
    /// Whether the session is this connection's. A pooler gives each transaction another one, and what is set for a session
    /// would meet others.
    is_own: bool,
    /// In milliseconds.
    lock_timeout: AtomicU64,
}

impl Session {
    /// What sets the time for which each lock is waited for; none where it is set already. To be sent before the next
    /// statement.
    pub(super) fn limit(&self, lock: Duration) -> Option<String> {
        if !self.is_own {
            return None;
        }
        let ms = u64::try_from(lock.as_millis()).unwrap_or(UNKNOWN).clamp(1, UNKNOWN - 1);
        let before = self.lock_timeout.swap(ms, Ordering::Relaxed);
        (before != ms).then(|| format!("SET lock_timeout = {ms}"))
    }

    /// Whether what is set for the session stays with this connection.
    pub(super) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// What [`Session::limit`] gave has failed.
    pub(super) fn limit_is_unknown(&self) {
        self.lock_timeout.store(UNKNOWN, Ordering::Relaxed);
    }

    /// As it was opened, for whoever says nothing of locks.
    pub(super) async fn unlimited(&self) -> Result<(), Error> {
        if self.lock_timeout.load(Ordering::Relaxed) != AS_OPENED {
            // Whoever drops this may have sent it, or not.
            self.limit_is_unknown();
            self.client.batch_execute("RESET lock_timeout").await?;
            self.lock_timeout.store(AS_OPENED, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl managed::Manager for Sessions {
    type Type = Session;
    type Error = Error;

    async fn create(&self) -> Result<Session, Error> {
        let client = self.manager.create().await?;
        let answer = client.simple_query(OPENED).await?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text = |column: usize| row.and_then(|row| row.get(column)).map(str::to_owned);
        let is_own = text(0).as_deref() == Some("t");
        *self.closed_schemas.lock().unwrap_or_else(PoisonError::into_inner) = text(1).zip(text(2));
        Ok(Session { client, is_own, lock_timeout: AtomicU64::new(AS_OPENED) })
    }

    async fn recycle(&self, session: &mut Session, metrics: &Metrics) -> RecycleResult<Error> {
        self.manager.recycle(&mut session.client, metrics).await
    }

    fn detach(&self, session: &mut Session) {
        self.manager.detach(&mut session.client);
    }
}

impl Deref for Session {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.client
    }
}
