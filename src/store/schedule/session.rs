//! The session of the one that publishes notices: its locks end with its connection, whatever ends that.

use std::sync::Arc;

use tokio::{sync::Notify, time::timeout};
use tokio_postgres::{
    AsyncMessage, Client, Connection, NoTls, Row, Socket, Statement, tls::TlsStream, types::ToSql,
};

use super::{Claimed, SetAside, read};
use crate::store::{CREATE_TIMEOUT, Store, StoreError, TlsConnect};

const BEGIN: &str = include_str!("../../../sql/schedule_begin.sql");
const LEAD: &str = include_str!("../../../sql/schedule_lead.sql");
const LEAVE: &str = include_str!("../../../sql/schedule_leave.sql");
const WANT: &str = include_str!("../../../sql/schedule_want.sql");
const WANTED: &str = include_str!("../../../sql/schedule_wanted.sql");
const CONTENT: &str = include_str!("../../../sql/schedule_content.sql");
const IDLE: &str = include_str!("../../../sql/schedule_idle.sql");
const AWAKE: &str = include_str!("../../../sql/schedule_awake.sql");
const RETURN: &str = include_str!("../../../sql/schedule_return.sql");
const CLAIM: &str = include_str!("../../../sql/schedule_claim.sql");
const DONE: &str = include_str!("../../../sql/schedule_done.sql");
const REFUSE: &str = include_str!("../../../sql/schedule_refuse.sql");

/// A connection beside the pool: who publishes is decided by a lock that lasts as long as the session.
pub(crate) struct ScheduleSession {
    store: Store,
    client: Client,
    /// Where `schedule()` notifies, and with `_free` behind it the session that leaves.
    channel: String,
    /// The one that published has left, or a transaction that scheduled something has notified, or the connection has ended.
    rung: Arc<Notify>,
    claim: Statement,
    done: Statement,
}

impl Store {
    /// Opens a session that hears when another one leaves. It publishes nothing before [`ScheduleSession::lead`].
    ///
    /// # Errors
    /// The database is unavailable, the tables are missing, or a right on them is.
    pub(crate) async fn schedule_session(&self) -> Result<ScheduleSession, StoreError> {
        let rung = Arc::new(Notify::new());
        let connecting = async {
            match &self.tls {
                Some(tls) => connect(&self.config, tls.clone(), Arc::clone(&rung)).await,
                None => connect(&self.config, NoTls, Arc::clone(&rung)).await,
            }
        };
        let address = || self.address.to_string();
        let client = timeout(CREATE_TIMEOUT, connecting)
            .await
            .map_err(|_elapsed| StoreError::Silent { address: address() })?
            .map_err(|source| StoreError::Connect { address: address(), source })?;
        let beginning = async {
            let begun = client.query_one(BEGIN, &[]).await;
            let channel: String = self.named("schedule_begin", begun)?.get("channel");
            let listening = client.batch_execute(&format!("LISTEN {channel}_free")).await;
            self.named("schedule_begin", listening)?;
            let claim = self.named("schedule_claim", client.prepare(CLAIM).await)?;
            Ok((channel, claim, self.named("schedule_done", client.prepare(DONE).await)?))
        };
        let (channel, claim, done) = self.attended(Box::pin(beginning)).await?;
        Ok(ScheduleSession { store: self.clone(), client, channel, rung, claim, done })
    }
}

impl ScheduleSession {
    /// Whether this session is the one that publishes, from now on until it ends or [leaves](Self::leave). It hears what
    /// `schedule()` notifies of then.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn lead(&self) -> Result<bool, StoreError> {
        if !self.yes("schedule_lead", LEAD).await? {
            return Ok(false);
        }
        let channel = &self.channel;
        let listening = async {
            let listen = format!("UNLISTEN {channel}_free; LISTEN {channel}");
            self.store.named("schedule_lead", self.client.batch_execute(&listen).await)
        };
        self.store.attended(Box::pin(listening)).await.map(|()| true)
    }

    /// Another session may publish from now on. Those that wait for it are notified, so none has to look.
    ///
    /// # Errors
    /// The session has ended, and they find out by looking.
    pub(crate) async fn leave(&self) -> Result<(), StoreError> {
        self.yes("schedule_leave", LEAVE).await.map(drop)
    }

    /// Whether this session is to publish, because a notice was set aside for one of these timeouts. It says so to the others
    /// until it ends, or is [content](Self::content).
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn want(&self, timeouts: &[&str]) -> Result<bool, StoreError> {
        let rows = self.query("schedule_want", WANT, &[&timeouts]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Whether another session is to publish.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn is_wanted(&self) -> Result<bool, StoreError> {
        self.yes("schedule_wanted", WANTED).await
    }

    /// It publishes now.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn content(&self) -> Result<(), StoreError> {
        self.yes("schedule_content", CONTENT).await.map(drop)
    }

    /// Whether every transaction that schedules from now on notifies. Not where one that does not is still open.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn idle(&self) -> Result<bool, StoreError> {
        self.yes("schedule_idle", IDLE).await
    }

    /// Transactions need not notify any more.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn awake(&self) -> Result<(), StoreError> {
        self.yes("schedule_awake", AWAKE).await.map(drop)
    }

    /// Waits until another session has left, or, of the one that publishes, for a notification; or for the end of the connection.
    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }

    /// Notices that were set aside because nobody knew their timeout are to be published, if it is one of these.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn take_back(&self, timeouts: &[&str]) -> Result<(), StoreError> {
        self.query("schedule_return", RETURN, &[&timeouts]).await.map(drop)
    }

    /// The oldest notices after a row.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn claim(&self, after: i64, limit: i64) -> Result<Claimed, StoreError> {
        let asking = async {
            let rows = self.client.query(&self.claim, &[&after, &limit]).await;
            self.store.named("schedule_claim", rows)
        };
        Ok(read(&self.store.attended(Box::pin(asking)).await?, limit))
    }

    /// Forgets what was published, and moves what cannot be out of the way of the others.
    ///
    /// # Errors
    /// A statement failed; notices may be published again.
    pub(crate) async fn finish(
        &self,
        published: &[i64],
        aside: &[SetAside],
    ) -> Result<(), StoreError> {
        if !published.is_empty() {
            let forgetting = async {
                let done = self.client.execute(&self.done, &[&published]).await;
                self.store.named("schedule_done", done)
            };
            self.store.attended(Box::pin(forgetting)).await?;
        }
        if aside.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = aside.iter().map(|notice| notice.id).collect();
        let reasons: Vec<&str> = aside.iter().map(|notice| notice.reason.as_str()).collect();
        let unknown: Vec<bool> = aside.iter().map(|notice| notice.unknown_timeout).collect();
        self.query("schedule_refuse", REFUSE, &[&ids, &reasons, &unknown]).await.map(drop)
    }

    async fn yes(&self, name: &'static str, sql: &'static str) -> Result<bool, StoreError> {
        Ok(self.query(name, sql, &[]).await?.first().is_some_and(|row| row.get(0)))
    }

    async fn query(
        &self,
        name: &'static str,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let asking = async { self.store.named(name, self.client.query(sql, parameters).await) };
        self.store.attended(Box::pin(asking)).await
    }
}

async fn connect<T: TlsConnect<Stream: 'static>>(
    config: &tokio_postgres::Config,
    tls: T,
    rung: Arc<Notify>,
) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(drive(connection, rung));
    Ok(client)
}

/// Ends with the client, or with the connection.
async fn drive<S>(mut connection: Connection<Socket, S>, rung: Arc<Notify>)
where
    S: TlsStream + Unpin,
{
    loop {
        match std::future::poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(_))) => rung.notify_one(),
            Some(Ok(_)) => {}
            // The next statement says what has happened.
            Some(Err(_)) | None => break,
        }
    }
    rung.notify_one();
}
