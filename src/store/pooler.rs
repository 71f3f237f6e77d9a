//! Whether a pooler is between that gives statements to another session than the one that prepared them.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{SimpleQueryMessage, error::SqlState};

use super::{Store, StoreError};

/// A pooler with a single session has none for the second transaction: then it is not known.
const WITHIN: Duration = Duration::from_secs(2);

impl Store {
    /// Looks whether a pooler keeps what was prepared: statements would be executed in sessions that do not have them, or have others
    /// under their names.
    ///
    /// # Errors
    /// It does not, or there is no connection.
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
            // The transaction takes the session that has it, as a rule: the one that was free last.
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
