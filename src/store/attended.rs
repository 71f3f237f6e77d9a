//! A server that has stopped answering without closing its connections.

use std::{pin::pin, time::Duration};

use tokio::time::timeout;
use tokio_postgres::NoTls;

use super::{Store, StoreError, TlsConnect};

/// How long a statement takes before the server is asked whether it is there at all.
const PATIENCE: Duration = Duration::from_secs(4);
/// A connection of its own and an answer; together with the time before less than ten seconds.
const PROBE: Duration = Duration::from_secs(5);

impl Store {
    /// Waits for `work` as long as the server answers to others: a slow statement ends by its own time-out, a silent
    /// server is given up. Work that is dropped must not leave its connection to the pool.
    pub(super) async fn attended<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut work = pin!(work);
        loop {
            if let Ok(result) = timeout(PATIENCE, &mut work).await {
                return result;
            }
            tokio::select! {
                biased;
                result = &mut work => return result,
                answers = self.answers() => if !answers {
                    return Err(StoreError::Silent { address: self.address.to_string() });
                },
            }
        }
    }

    /// Whether the server says anything to a new connection, be it that it has too many.
    async fn answers(&self) -> bool {
        let asking = async {
            match &self.tls {
                Some(tls) => ask(&self.config, tls.clone()).await,
                None => ask(&self.config, NoTls).await,
            }
        };
        match timeout(PROBE, asking).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.as_db_error().is_some(),
            Err(_elapsed) => false,
        }
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
