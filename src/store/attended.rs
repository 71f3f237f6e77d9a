//! A server that has stopped answering without closing its connections.

use std::pin::pin;

use tokio::time::timeout;
use tokio_postgres::{NoTls, Row, types::ToSql};

use super::{Store, StoreError, TlsConnect};

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
