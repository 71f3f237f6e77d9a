//! Connections that have planned the closing statements before an order is due.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use super::{
    Store, StoreError,
    effect::{self, ClosingPath, Effect},
    orders::prepare_impatiently,
    run_statement::Patience,
    session::Connection,
};

/// Planning takes tens of milliseconds where a connection knows nothing of the tables yet.
const WITHIN: Duration = Duration::from_secs(1);
/// Whoever has locked a table is not waited for.
const PATIENCE: Patience = Patience { lock: Duration::from_millis(100), statement: None };

impl Store {
    /// Lets `connections` carry out `effects` for no order at all, which is rolled back. What fails here fails again where it
    /// is needed, and is reported there.
    pub(crate) async fn warm(&self, effects: &[&Effect], connections: usize) {
        let warming = async {
            // All at once: one after the other, it would be the same connection each time.
            let clients = try_join_all((0..connections).map(|_| self.any_cancellable())).await?;
            let each = clients.into_iter().map(|client| async {
                for effect in effects {
                    self.plan(&client, effect).await?;
                }
                client.done();
                Ok::<_, StoreError>(())
            });
            join_all(each).await.into_iter().collect::<Result<(), _>>()
        };
        let _planned = tokio::time::timeout(WITHIN, warming).await;
    }

    async fn plan(&self, client: &Connection, effect: &Effect) -> Result<(), StoreError> {
        let prepared = prepare_impatiently(client, &effect.sql, PATIENCE).await;
        let statement = self.named("effect", prepared)?;
        effect::check_shape(effect, &statement)?;
        let (none, path): (&[&str], _) = (&[], ClosingPath::Message.as_str());
        let (begun, ran, ended) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            async { client.query(&statement, &[&none, &path]).await },
            client.batch_execute("ROLLBACK"),
        );
        self.named("effect", begun.and(ran).and(ended))
    }
}
