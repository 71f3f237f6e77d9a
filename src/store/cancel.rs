//! A connection whose statement is cancelled when nobody waits for it any more.

use std::ops::Deref;

use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio_postgres::NoTls;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Store, StoreError};

/// Dropped before [`Cancellable::done`], it cancels what runs and leaves the pool: the statement would otherwise go on,
/// and the next user of the connection would wait for it.
pub(super) struct Cancellable {
    /// Empty only while it is dropped.
    client: Option<Object>,
    tls: Option<MakeRustlsConnect>,
    is_done: bool,
}

impl Store {
    pub(super) async fn cancellable(&self) -> Result<Cancellable, StoreError> {
        let client = Some(self.client().await?);
        Ok(Cancellable { client, tls: self.tls.clone(), is_done: false })
    }
}

impl Cancellable {
    /// The connection goes back to the pool.
    pub(super) fn done(mut self) {
        self.is_done = true;
    }
}

impl Deref for Cancellable {
    type Target = Object;

    #[expect(clippy::expect_used, reason = "only Drop takes it")]
    fn deref(&self) -> &Object {
        self.client.as_ref().expect("a connection until it is dropped")
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        let Some(client) = self.client.take().filter(|_| !self.is_done) else { return };
        let (token, tls) = (client.cancel_token(), self.tls.take());
        let client = Object::take(client);
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
