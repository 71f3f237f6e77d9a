//! A connection whose statement is cancelled when nobody waits for it any more.

use std::ops::Deref;

use tokio::runtime::Handle;
use tokio_postgres::NoTls;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Store, StoreError, session::Connection};

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
