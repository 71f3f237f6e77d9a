//! Pauses: timeouts whose orders no worker closes. What closes orders begins with `refuse_paused()` (`sql/pauses.sql`), which
//! promises that together with [`Store::await_closings`].

use std::time::Duration;

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    pool::{End, For, Question, TransactionLimits, count},
};
use crate::condition::pause::Pause;

pub(super) const REFUSE: &str = include_str!("../../sql/pauses_refuse.sql");
/// Of what `refuse_paused()` refuses; a class of no one's (PostgreSQL, errcodes-appendix).
const PAUSED: &str = "OV001";

/// Whose orders are closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) topology: &'a str,
    /// None of orders that are found by their effect: they can be of any timeout with it.
    pub(crate) timeout: Option<&'a str>,
    pub(crate) effect: &'a str,
}

/// Who still closes orders of a timeout that is being paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Of its process in PostgreSQL.
    pub pid: i32,
    /// What it calls itself.
    pub application: String,
    /// Where it comes from.
    pub client: String,
}

impl Store {
    /// Whether the table and the function are there, and may be used by what closes orders; changes nothing.
    ///
    /// # Errors
    /// One of them is missing, or a permission is.
    pub async fn check_pauses(&self) -> Result<(), StoreError> {
        const CHECK: &str = include_str!("../../sql/pauses_check.sql");
        self.explain("pauses_refuse", REFUSE, &[&"", &"", &"", &0_i32]).await?;
        self.explain("pauses_refuse", CHECK, &[]).await
    }

    /// The pauses of a topology that have not ended, the last one to end first.
    pub(crate) async fn pauses(&self, topology: &str) -> Result<Vec<Pause>, StoreError> {
        const SQL: &str = include_str!("../../sql/pauses_in_force.sql");
        Ok(self.rows("pauses", SQL, &[&topology]).await?.iter().map(pause).collect())
    }

    /// The refusal of a pause that ends at a time, if one of the timeouts has one. Asked before `refuse_paused()` where that has
    /// refused before: each of its refusals is a line in the database's log.
    pub(crate) async fn still_paused(
        &self,
        Rule { topology, timeout, effect }: Rule<'_>,
    ) -> Result<Option<StoreError>, StoreError> {
        const SQL: &str = include_str!("../../sql/pauses_still.sql");
        let parameters: [&(dyn ToSql + Sync); 3] = [&topology, &timeout, &effect];
        let question = Question::new("pauses_still", SQL, &parameters);
        let rows = self.ask(For::Closing, question).await?;
        Ok(rows.first().map(|row| StoreError::Paused {
            rest: Duration::from_millis(count(row, "rest_ms")),
            reason: row.get("reason"),
            per_second: None,
        }))
    }

    /// Pauses a timeout, or changes its pause. It holds for whoever begins to close orders from now on.
    /// If it fails, nothing was changed.
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

    /// Waits for whoever began to close orders of a timeout before it was paused; who that is, if it lasts too long.
    ///
    /// # Errors
    /// It is not known whether anybody still closes orders.
    pub async fn await_closings(
        &self,
        topology: &str,
        (timeout, effect): (&str, &str),
    ) -> Result<Vec<Holder>, StoreError> {
        const TAKEN: &str = include_str!("../../sql/pause_taken.sql");
        const HOLDERS: &str = include_str!("../../sql/pause_holders.sql");
        let parameters: [&(dyn ToSql + Sync); 3] = [&topology, &timeout, &effect];
        let question = Question::new("pauses_taken", TAKEN, &parameters);
        let lasts = self.timing().closings;
        let limits = TransactionLimits { lock: Some(lasts), statement: Some(2 * lasts) };
        match self.in_transaction(For::Anything, limits, question, End::Commit).await {
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

    /// Ends a pause, or with a rate lets so many orders per second be closed until fewer than half as many come due; the
    /// pause as it was, if there is one. If it fails, nothing was changed.
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

/// What an error says that `refuse_paused()` has raised. A trigger may raise any SQLSTATE, without a number as its detail.
pub(super) fn refused(error: &tokio_postgres::Error) -> Option<StoreError> {
    let error = error.as_db_error().filter(|error| error.code().code() == PAUSED)?;
    let rest = Duration::from_millis(error.detail()?.parse().ok()?);
    let per_second = error.hint().and_then(|rate| rate.parse().ok());
    Some(StoreError::Paused { rest, reason: error.message().to_owned(), per_second })
}
