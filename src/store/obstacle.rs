//! Whether overdue orders can be closed, tried in a transaction that is rolled back.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::{
    APPLICATION, Store, StoreError, database_time::DatabaseTime, effect::Effect,
    failure::FailureKind, overdue::OverdueKey,
};
use crate::{
    condition::{
        ON_ITS_WAY,
        obstacle::{Holder, Kind, Obstacle},
    },
    order::{OrderId, Outcome},
    text::error_chain,
};

/// Of the oldest orders so many are tried.
const OLDEST: i64 = 2;
/// And the first one that came due within each of these: the oldest may have reasons of their own.
const WITHIN: [Duration; 3] =
    [Duration::from_hours(24), Duration::from_hours(1), Duration::from_mins(1)];

impl Store {
    /// What keeps overdue orders, old ones and new ones, from being closed by this user, if anything does; the newest that
    /// cannot be says it. Where none is overdue the effect is run without orders, which shows wrong SQL, missing rights and
    /// locked tables.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn obstacle(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        let tried = match self.of_some(effect).await {
            // Prepared before the tables were changed.
            Err(error) if error.is_stale() => self.of_some(effect).await,
            tried => tried,
        };
        let error = match tried {
            Err(error) if error.is_answer() || error.is_misfit() => error,
            tried => return tried,
        };
        if error.kind() == FailureKind::Contention {
            let lock = self.lock_of(effect, &[]).await;
            return Ok(Some(Obstacle::lock(None, &lock)));
        }
        let reason = error_chain(&error);
        Ok(Some(if error.is_permission() {
            Obstacle::right(self.config.get_user().unwrap_or_default(), &reason)
        } else {
            Obstacle::of_all(&reason)
        }))
    }

    async fn of_some(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        self.rehearse_without_orders(effect).await?;
        let ids = self.old_and_new(effect).await?;
        let outcomes = self.rehearse(effect, &ids).await?;
        for (id, outcome) in ids.iter().zip(outcomes).rev() {
            let order = id.as_str();
            match outcome {
                Outcome::Closed { .. } | Outcome::AlreadyFinal => {}
                Outcome::NotDue { remaining } if !remaining.is_zero() => {}
                Outcome::NotDue { .. } => {
                    let reason = "it is overdue, and the effect says not_due";
                    return Ok(Some(Obstacle::of_order(order, reason)));
                }
                Outcome::Unknown => {
                    let reason = "overdue_sql has it, and the effect gives no row for it";
                    return Ok(Some(Obstacle::of_order(order, reason)));
                }
                Outcome::Failed { cause, reason } => {
                    let mut found = Obstacle::of_order(order, &reason);
                    if cause == SqlState::INSUFFICIENT_PRIVILEGE.code() {
                        found.kind = Kind::Right;
                    }
                    return Ok(Some(found));
                }
                Outcome::Postponed { reason } => {
                    return Ok(Some(Obstacle::of_order(order, &reason)));
                }
                Outcome::Busy => {
                    let lock = self.lock_of(effect, std::slice::from_ref(id)).await;
                    // In a burst a worker has it, and commits.
                    if lock.holder.as_ref().is_none_or(|holder| !is_working(holder)) {
                        return Ok(Some(Obstacle::lock(Some(order), &lock)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// By deadline, each from an index as the sweep reads it.
    async fn old_and_new(&self, effect: &Effect) -> Result<Vec<OrderId>, StoreError> {
        let now = DatabaseTime::from_unix_ms(self.now_ms().await?);
        let mut new = WITHIN.into_iter().map(|age| OverdueKey::at(now.before(age)));
        let (mut ids, mut after, mut limit) = (Vec::new(), OverdueKey::first(), OLDEST);
        while let Some(page) = self.overdue_page(effect, &after, limit, ON_ITS_WAY).await? {
            ids.extend(page.ids);
            let Some(key) = new.next().filter(|_| page.rows > 0) else { break };
            (after, limit) = (page.next.max(key), 1);
        }
        Ok(ids)
    }
}

/// Whether it is a worker that has just begun.
fn is_working(holder: &Holder) -> bool {
    let is_new = holder.doing.as_ref().is_some_and(|(_, age)| *age < ON_ITS_WAY);
    holder.application == APPLICATION && is_new
}
