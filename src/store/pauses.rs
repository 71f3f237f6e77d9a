//! Pauses: no worker closes orders of a paused timeout. Each closing transaction begins with `refuse_paused()` (`sql/pauses.sql`).
//! Together with [`Store::await_closings`] that guarantees the pause.

use std::time::Duration;

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    pool::{End, PoolKind, StatementCall, TransactionLimits, count},
};
use crate::condition::pause::Pause;

pub(super) const REFUSE: &str = include_str!("../../sql/pauses_refuse.sql");
/// SQLSTATE of a refusal by `refuse_paused()`, in a class that PostgreSQL does not use (errcodes-appendix).
const PAUSED: &str = "OV001";

/// The orders that a closing transaction concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) topology: &'a str,
    /// `None` for orders that are found by their effect: they can belong to any timeout with this effect.
    pub(crate) timeout: Option<&'a str>,
    pub(crate) effect: &'a str,
}

/// A session that still closes orders of a timeout that is being paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id in PostgreSQL.
    pub pid: i32,
    /// `application_name` of the session.
    pub application: String,
    /// Address of the client.
    pub client: String,
}

impl Store {
    /// Checks that the table and the function exist and that the closing session may use them; changes nothing.
    ///
    /// # Errors
    /// The table, the function or a permission is missing.
    pub async fn check_pauses(&self) -> Result<(), StoreError> {
        const CHECK: &str = include_str!("../../sql/pauses_check.sql");
        self.explain("pauses_refuse", REFUSE, &[&"", &"", &"", &0_i32]).await?;
        self.explain("pauses_refuse", CHECK, &[]).await
    }

    /// Current pauses of a topology, the last one to end first.
    pub(crate) async fn pauses(&self, topology: &str) -> Result<Vec<Pause>, StoreError> {
        const SQL: &str = include_str!("../../sql/pauses_in_force.sql");
        Ok(self.rows("pauses", SQL, &[&topology]).await?.iter().map(pause).collect())
    }

    /// The refusal of a pause without a rate, if one of the timeouts is paused. After a first refusal the worker calls this before
    /// `refuse_paused()`, because each refusal is a line in the database's log.
    pub(crate) async fn still_paused(
        &self,
        Rule { topology, timeout, effect }: Rule<'_>,
    ) -> Result<Option<StoreError>, StoreError> {
        const SQL: &str = include_str!("../../sql/pauses_still.sql");
        let parameters: [&(dyn ToSql + Sync); 3] = [&topology, &timeout, &effect];
        let question = StatementCall::new("pauses_still", SQL, &parameters);
        let rows = self.execute(PoolKind::Closing, question).await?;
        Ok(rows.first().map(|row| StoreError::Paused {
            rest: Duration::from_millis(count(row, "rest_ms")),
            reason: row.get("reason"),
            per_second: None,
        }))
    }

    /// Pauses a timeout, or changes its pause, for all transactions that begin from now on. If it fails, nothing was changed.
    pub(crate) async fn pause(
        &self,
        topology: &str,
        (timeout, effect): (&str, &str),
        lasts: Duration,
        why: &str,
    ) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/pause.sql");
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&topology, &timeout, &effect, &to_ms(lasts), &why];
        self.one("pauses_pause", SQL, &parameters).await.map(drop)
    }

    /// Waits for transactions that began to close orders before the pause. Returns their sessions if they last too long.
    ///
    /// # Errors
    /// The database cannot be asked, so such transactions may still run.
    pub async fn await_closings(
        &self,
        topology: &str,
        (timeout, effect): (&str, &str),
    ) -> Result<Vec<Holder>, StoreError> {
        const TAKEN: &str = include_str!("../../sql/pause_taken.sql");
        const HOLDERS: &str = include_str!("../../sql/pause_holders.sql");
        let parameters: [&(dyn ToSql + Sync); 3] = [&topology, &timeout, &effect];
        let question = StatementCall::new("pauses_taken", TAKEN, &parameters);
        let lasts = self.timing().closings;
        let limits = TransactionLimits { lock: Some(lasts), statement: Some(2 * lasts) };
        match self.in_transaction(PoolKind::Anything, limits, question, End::Commit).await {
            Err(error) if error.is_lock_timeout() => {}
            taken => return taken.map(|_| Vec::new()),
        }
        let rows = self.rows("pauses_holders", HOLDERS, &parameters).await?;
        let holder = |row: &Row| Holder {
            pid: row.get("pid"),
            application: row.get("application"),
            client: row.get("client"),
        };
        Ok(rows.iter().map(holder).collect())
    }

    /// Ends a pause. With a rate, it lets this number of orders be closed per second, until fewer than half as many come due.
    /// Returns the earlier pause, if there was one. If it fails, nothing was changed.
    pub(crate) async fn resume(
        &self,
        topology: &str,
        timeout: &str,
        per_second: Option<u32>,
    ) -> Result<Option<Pause>, StoreError> {
        const SQL: &str = include_str!("../../sql/resume.sql");
        let per_second = per_second.map(|rate| i32::try_from(rate).unwrap_or(i32::MAX));
        let rows = self.rows("pauses_resume", SQL, &[&topology, &timeout, &per_second]).await?;
        Ok(rows.first().map(pause))
    }
}

fn pause(row: &Row) -> Pause {
    let time = |column: &str| row.get::<_, DatabaseTime>(column).timestamp().unwrap_or_default();
    let ms = |column: &str| Duration::from_millis(count(row, column));
    Pause {
        timeout: row.get("timeout"),
        why: row.get("why"),
        by: row.get("paused_by"),
        since: time("paused_at"),
        until: time("ends_at"),
        per_second: row
            .get::<_, Option<i32>>("per_second")
            .and_then(|rate| u32::try_from(rate).ok()),
        age: ms("age_ms"),
        rest: ms("rest_ms"),
    }
}

/// Reads an error of `refuse_paused()`. A trigger may raise any SQLSTATE, but without a number as its detail.
pub(super) fn refused(error: &tokio_postgres::Error) -> Option<StoreError> {
    let error = error.as_db_error().filter(|error| error.code().code() == PAUSED)?;
    let rest = Duration::from_millis(error.detail()?.parse().ok()?);
    let per_second = error.hint().and_then(|rate| rate.parse().ok());
    Some(StoreError::Paused { rest, reason: error.message().to_owned(), per_second })
}
