//! Detects a pooler that runs statements in another session than the one that prepared them.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{SimpleQueryMessage, error::SqlState};

use super::{Store, StoreError};

/// Limit of the check. A pooler with a single session has none for the second transaction; the answer then stays unknown.
const WITHIN: Duration = Duration::from_secs(2);

impl Store {
    /// Checks that a pooler keeps prepared statements. Otherwise a session would lack them, or run another statement of the same
    /// name.
    ///
    /// # Errors
    /// The pooler does not keep them, or the connection failed.
    pub async fn check_pooler(&self) -> Result<(), StoreError> {
        const DIRECT: &str = "SELECT coalesce(current_setting('overdue.session', true), '')";
        let asked = self.detached().await?;
        let answer = self.named("session", asked.simple_query(DIRECT).await)?;
        let is_direct = answer
            .iter()
            .any(|it| matches!(it, SimpleQueryMessage::Row(row) if row.get(0) == Some("direct")));
        if is_direct {
            return Ok(());
        }
        let holder = self.detached().await?;
        let elsewhere = async {
            let statement = asked.prepare("SELECT 1").await?;
            // The pooler usually gives the transaction the session that was used last, which has the statement.
            holder.batch_execute("BEGIN").await?;
            let executed = asked.query(&statement, &[]).await;
            holder.batch_execute("ROLLBACK").await?;
            executed.map(drop)
        };
        match timeout(WITHIN, elsewhere).await {
            Ok(executed) => self.named("pooler", executed),
            Err(_no_session) => Ok(()),
        }
        .map_err(|error| match error.code() {
            Some(code) if *code == SqlState::INVALID_SQL_STATEMENT_NAME => self.no_statements(),
            _ => error,
        })
    }

    pub(super) fn no_statements(&self) -> StoreError {
        StoreError::NoPreparedStatements { address: self.address.to_string() }
    }
}
