//! What an effect would do to orders now: run in a transaction that is rolled back.

use std::time::Duration;

use tokio_postgres::Row;

use super::{
    FailureKind, Store, StoreError,
    database_time::DatabaseTime,
    effect::{self, ClosingPath, Effect},
    orders::answer,
    pool::{End, For, Limits, Question},
};
use crate::{
    decisions::verdict::{Failure, Isolation, Suspect},
    order::{OrderId, Outcome},
};

/// A lock that is held for longer than this makes an order [`Outcome::Busy`]. What the trial locks itself is not to wait for
/// a slow effect until the session's own limit.
const LOCK: Duration = Duration::from_millis(200);
/// Parts that are tried elsewhere once three orders are too slow alone: those that are not may be there.
const ELSEWHERE: usize = 2;

impl Store {
    /// Runs the effect on orders in a transaction that is rolled back, so that it works for any tables, and says what
    /// would have become of each, in the same order. [`Outcome::Closed`] is an order that is overdue.
    ///
    /// A failure is an order's own, whatever its SQLSTATE, if the effect does not fail without orders: a trigger may raise any.
    ///
    /// Nothing stays of it, but what PostgreSQL never takes back: numbers of sequences. For that moment, some milliseconds,
    /// it locks what the effect locks.
    ///
    /// # Errors
    /// The database cannot be asked, or the effect fails without orders as well.
    pub(crate) async fn rehearse(
        &self,
        effect: &Effect,
        ids: &[OrderId],
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut trial = Isolation::new(ids.len(), Outcome::Busy, ELSEWHERE);
        let mut limit = self.timing.trial;
        let mut works_without_orders = false;
        while let Some(part) = trial.next_part() {
            let error = match self.tried(effect, &ids[part.clone()], limit).await {
                Ok(rows) => {
                    let answer = answer::outcomes(effect, &rows, &ids[part.clone()]);
                    trial.answered(part, answer, true);
                    continue;
                }
                Err(error) if error.is_answer() => error,
                Err(error) => return Err(error),
            };
            if !works_without_orders {
                match self.rehearse_without_orders(effect).await {
                    // A whole table is locked.
                    Err(whole) if whole.kind() == FailureKind::Contention => break,
                    whole => whole?,
                }
                works_without_orders = true;
            }
            let Failure { suspect, cause, reason } = error.alone();
            if suspect == Suspect::Slow {
                limit = self.timing.trial / 3;
            }
            let alone = match suspect {
                Suspect::Lock => Outcome::Busy,
                _ => Outcome::Failed { cause, reason },
            };
            if !trial.failed(part, suspect, alone) {
                return Err(error);
            }
        }
        Ok(trial.into_outcomes())
    }

    /// The same without any order: what fails is nobody's fault.
    ///
    /// # Errors
    /// As for [`Store::rehearse`].
    pub(super) async fn rehearse_without_orders(&self, effect: &Effect) -> Result<(), StoreError> {
        self.tried(effect, &[], self.timing.trial).await.map(drop)
    }

    async fn tried(
        &self,
        effect: &Effect,
        ids: &[OrderId],
        limit: Duration,
    ) -> Result<Vec<Row>, StoreError> {
        let limits = Limits { lock: Some(LOCK), statement: Some(limit) };
        let mut rows = self.rolled_back(effect, ids, limits).await;
        if rows.as_ref().is_err_and(StoreError::is_stale) {
            // Prepared before the tables were changed, as a rule.
            rows = self.rolled_back(effect, ids, limits).await;
        }
        rows
    }

    async fn rolled_back(
        &self,
        effect: &Effect,
        ids: &[OrderId],
        limits: Limits,
    ) -> Result<Vec<Row>, StoreError> {
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let question = Question {
            name: "dry_run",
            sql: &effect.sql,
            parameters: &[&texts, &ClosingPath::Message.as_str()],
            check: &|statement| effect::check_shape(effect, statement),
        };
        // Preparing it needs a lock on the tables, too, and this happens when something is locked.
        let rows = self.in_transaction(For::Closing, limits, question, End::Rollback).await;
        rows.map_err(|error| error.in_effect(&effect.name, &effect.sql_file, &effect.sql))
    }

    /// Runs the effect on one order likewise.
    ///
    /// # Errors
    /// The statement failed, or is not as agreed.
    pub(crate) async fn standing(
        &self,
        effect: &Effect,
        id: &OrderId,
    ) -> Result<Standing, StoreError> {
        let id = std::slice::from_ref(id);
        let rows = self.rolled_back(effect, id, Limits::NONE).await?;
        let due_at = rows.first().and_then(|row| row.try_get(2).ok());
        let outcome = answer::outcomes(effect, &rows, id).remove(0);
        Ok(Standing { outcome, due_at })
    }
}

/// An order at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// What the effect would have done. [`Outcome::Closed`] says that the order is overdue: it was rolled back.
    pub outcome: Outcome,
    /// Its deadline, where the database knows the order.
    pub due_at: Option<DatabaseTime>,
}
