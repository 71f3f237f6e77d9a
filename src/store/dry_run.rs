//! What an effect would do to orders now: run in a transaction that is rolled back.

use std::{collections::VecDeque, time::Duration};

use tokio_postgres::Row;

use super::{
    FailureKind, Store, StoreError,
    database_time::DatabaseTime,
    effect::{self, ClosingPath, Effect},
    orders::answer,
    pool::{End, For, Limits, Question},
};
use crate::order::{OrderId, Outcome};

/// A lock that is held for longer than this makes an order [`Outcome::Busy`]. What the trial locks itself is not to wait for
/// a slow effect until the session's own limit.
const LOCK: Duration = Duration::from_millis(200);
/// A statement that fails because of one order is tried again in so many parts: one bad order among 200 costs 25
/// statements, 200 bad ones cost 240.
const PARTS: usize = 8;
/// So many orders may be too slow alone, and none be answered for, before it is the effect that is slow.
const SLOW: usize = 3;

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
        let mut outcomes = vec![Outcome::Busy; ids.len()];
        let mut parts = VecDeque::new();
        parts.extend((!ids.is_empty()).then_some(0..ids.len()));
        let mut limit = self.timing.trial;
        let (mut works_without_orders, mut is_answered, mut slow) = (false, false, 0);
        // At the other end after each that is slow: those that are not may be there.
        while let Some(part) = if slow % 2 == 0 { parts.pop_front() } else { parts.pop_back() } {
            let error = match self.tried(effect, &ids[part.clone()], limit).await {
                Ok(rows) => {
                    let answer = answer::outcomes(effect, &rows, &ids[part.clone()]);
                    outcomes.splice(part, answer);
                    is_answered = true;
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
            let is_slow = error.kind() == FailureKind::Overloaded;
            if is_slow {
                limit = self.timing.trial / 3;
            }
            if part.len() > 1 {
                let length = part.len().div_ceil(PARTS);
                parts.extend(part.clone().step_by(length).map(|at| at..part.end.min(at + length)));
                continue;
            }
            slow += usize::from(is_slow);
            if slow == SLOW && !is_answered {
                return Err(error);
            }
            outcomes[part.start] = failed(&error);
        }
        Ok(outcomes)
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

fn failed(error: &StoreError) -> Outcome {
    if error.kind() == FailureKind::Contention {
        return Outcome::Busy;
    }
    let cause = error.code().map_or("none", |code| code.code()).to_owned();
    Outcome::Failed { cause, reason: error.answer() }
}
