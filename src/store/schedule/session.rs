//! The session of a worker that publishes notices: its locks end with its connection, whatever ends that.

use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, Statement};

use super::{Claimed, SetAside, read};
use crate::store::{CREATE_TIMEOUT, Store, StoreError, TlsConnect};

/// A worker that hangs loses its connection, and with it its locks. A row that somebody locks is set aside later.
const BEGIN: &str = "SET idle_session_timeout = '30s'; SET lock_timeout = '1s'";
const LEAD: &str = include_str!("../../../sql/schedule_lead.sql");
const CLAIM: &str = include_str!("../../../sql/schedule_claim.sql");
const REFUSE: &str = include_str!("../../../sql/schedule_refuse.sql");

/// A connection beside the pool: who publishes is decided by locks that last as long as the session.
pub(crate) struct ScheduleSession {
    store: Store,
    client: Client,
    lead: Statement,
    claim: Statement,
}

impl Store {
    /// Opens a session. It publishes nothing before [`ScheduleSession::lead`].
    ///
    /// # Errors
    /// The database is unavailable, the tables are missing, or a right on them is.
    pub(crate) async fn schedule_session(&self) -> Result<ScheduleSession, StoreError> {
        let connecting = async {
            match &self.tls {
                Some(tls) => connect(&self.config, tls.clone()).await,
                None => connect(&self.config, NoTls).await,
            }
        };
        let address = || self.address.to_string();
        let client = timeout(CREATE_TIMEOUT, connecting)
            .await
            .map_err(|_elapsed| StoreError::Silent { address: address() })?
            .map_err(|source| StoreError::Connect { address: address(), source })?;
        let beginning = async {
            self.named("schedule_begin", client.batch_execute(BEGIN).await)?;
            let lead = self.named("schedule_lead", client.prepare(LEAD).await)?;
            Ok((lead, self.named("schedule_claim", client.prepare(CLAIM).await)?))
        };
        let (lead, claim) = self.attended(Box::pin(beginning)).await?;
        Ok(ScheduleSession { store: self.clone(), client, lead, claim })
    }
}

impl ScheduleSession {
    /// Of these timeouts, those that no other session publishes: this one does, from now on until it ends.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn lead(&self, timeouts: &[String]) -> Result<Vec<String>, StoreError> {
        let asking = async {
            let rows = self.client.query(&self.lead, &[&timeouts]).await;
            self.store.named("schedule_lead", rows)
        };
        let rows = self.store.attended(Box::pin(asking)).await?;
        Ok(rows.iter().map(|row| row.get("timeout")).collect())
    }

    /// The next `limit` rows of the table after a row, and of them the notices of these timeouts but those in the rows `without`.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn claim(
        &self,
        after: i64,
        limit: i64,
        timeouts: &[String],
        without: &[i64],
    ) -> Result<Claimed, StoreError> {
        let asking = async {
            let rows = self.client.query(&self.claim, &[&after, &limit, &timeouts, &without]).await;
            self.store.named("schedule_claim", rows)
        };
        Ok(read(&self.store.attended(Box::pin(asking)).await?, limit))
    }

    /// Moves what can never be published out of the way of the others.
    ///
    /// # Errors
    /// The statement failed; all stay where they are.
    pub(crate) async fn set_aside(&self, aside: &[SetAside]) -> Result<(), StoreError> {
        let ids: Vec<i64> = aside.iter().map(|notice| notice.id).collect();
        let reasons: Vec<&str> = aside.iter().map(|notice| notice.reason.as_str()).collect();
        let asking = async {
            let moved = self.client.execute(REFUSE, &[&ids, &reasons]).await;
            self.store.named("schedule_refuse", moved).map(drop)
        };
        self.store.attended(Box::pin(asking)).await
    }
}

async fn connect<T: TlsConnect<Stream: 'static>>(
    config: &tokio_postgres::Config,
    tls: T,
) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(tls).await?;
    // It ends with the client, or the next statement says what has happened.
    tokio::spawn(connection);
    Ok(client)
}
