//! What an effect would do to orders now, changing nothing.

use std::time::Duration;

use tokio_postgres::Row;

use super::{
    FailureKind, Store, StoreError,
    effect::{self, ClosingPath, Effect},
    orders::{answer, prepare_impatiently},
    run_statement::Patience,
};
use crate::order::{OrderId, Outcome};

/// A lock that is held for longer than this makes an order [`Outcome::Busy`]. What the trial locks itself is not to wait for
/// a slow effect until the session's own limit.
const LOCKS: Patience =
    Patience { lock: Duration::from_millis(200), statement: Some(Duration::from_secs(5)) };
/// A statement that fails because of one order is tried again in so many parts: one bad order among 200 costs 25
/// statements, 200 bad ones cost 240.
const PARTS: usize = 8;

impl Store {
    /// Runs the effect on orders in a transaction that is rolled back, so that it works for any tables, and says what
    /// would have become of each, in the same order. [`Outcome::Closed`] is an order that is overdue.
    ///
    /// Nothing stays of it, but what PostgreSQL never takes back: numbers of sequences. For that moment, some milliseconds,
    /// it locks what the effect locks.
    ///
    /// # Errors
    /// The database cannot be asked, or the effect's SQL does not fit.
    pub(crate) async fn rehearse(
        &self,
        effect: &Effect,
        ids: &[OrderId],
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(ids.len());
        let mut parts = if ids.is_empty() { Vec::new() } else { vec![ids] };
        while let Some(part) = parts.pop() {
            match self.attended(Box::pin(self.rolled_back(effect, part))).await {
                Ok(rows) => {
                    outcomes.extend(answer::outcomes(effect, &rows, part));
                }
                Err(error) if !concerns_orders(&error) => {
                    return Err(error.in_effect(&effect.name, &effect.sql_file, &effect.sql));
                }
                Err(error) if part.len() == 1 => outcomes.push(failed(&error)),
                Err(_) => parts.extend(part.chunks(part.len().div_ceil(PARTS)).rev()),
            }
        }
        Ok(outcomes)
    }

    /// The same without any order: what fails is nobody's fault.
    ///
    /// # Errors
    /// As for [`Store::rehearse`].
    pub(super) async fn rehearse_without_orders(&self, effect: &Effect) -> Result<(), StoreError> {
        let rehearsed = self.attended(Box::pin(self.rolled_back(effect, &[]))).await;
        rehearsed
            .map(drop)
            .map_err(|error| error.in_effect(&effect.name, &effect.sql_file, &effect.sql))
    }

    /// What is sent goes out in one piece: whoever drops this leaves no open transaction behind.
    async fn rolled_back(&self, effect: &Effect, ids: &[OrderId]) -> Result<Vec<Row>, StoreError> {
        let client = self.any_cancellable().await?;
        let statement = prepare_impatiently(&client, &effect.sql, LOCKS).await;
        let statement = self.named("rehearse", statement)?;
        effect::check_shape(effect, &statement)?;
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let (limits, path) = (LOCKS.begin(), ClosingPath::Message.as_str());
        let (begun, rows, ended) = tokio::join!(
            biased;
            client.batch_execute(&limits),
            async { client.query(&statement, &[&texts, &path]).await },
            client.batch_execute("ROLLBACK"),
        );
        let rows = self.named("rehearse", begun.and(rows).and_then(|rows| ended.map(|()| rows)));
        if rows.as_ref().is_err_and(StoreError::is_stale) {
            // Otherwise the next attempt prepares anew, on another connection.
            return rows;
        }
        client.done();
        rows
    }
}

fn concerns_orders(error: &StoreError) -> bool {
    error.is_answer() && matches!(error.kind(), FailureKind::Row | FailureKind::Contention)
}

fn failed(error: &StoreError) -> Outcome {
    if error.kind() == FailureKind::Contention {
        return Outcome::Busy;
    }
    let cause = error.code().map_or("none", |code| code.code()).to_owned();
    Outcome::Failed { cause, reason: error.answer() }
}
