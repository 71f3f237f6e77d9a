//! A connection of the pool, and how long it waits for locks.
//!
//! A limit of one transaction costs two statements more (`BEGIN; SET LOCAL`, `COMMIT`), each with an answer of its own, and a
//! small batch little more than that. So the limit is the session's, and it is set only where it changes.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU64, Ordering},
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
pub struct Sessions(pub(super) Manager);

/// What each connection sets when it is opened, to see it again.
pub(super) const MARK: &str = "-c overdue.session=on";
const IS_MARKED: &str = "SELECT coalesce(current_setting('overdue.session', true), '') = 'on'";

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
        let client = self.0.create().await?;
        let is_own = client.simple_query(IS_MARKED).await?.iter().any(says_yes);
        Ok(Session { client, is_own, lock_timeout: AtomicU64::new(AS_OPENED) })
    }

    async fn recycle(&self, session: &mut Session, metrics: &Metrics) -> RecycleResult<Error> {
        self.0.recycle(&mut session.client, metrics).await
    }

    fn detach(&self, session: &mut Session) {
        self.0.detach(&mut session.client);
    }
}

fn says_yes(message: &SimpleQueryMessage) -> bool {
    matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))
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
