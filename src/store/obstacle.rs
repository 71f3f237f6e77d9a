//! Whether overdue orders can be closed, tried in a transaction that is rolled back.

use super::{
    APPLICATION, Store, StoreError, effect::Effect, failure::FailureKind, overdue::OverdueKey,
};
use crate::{
    condition::{
        ON_ITS_WAY,
        obstacle::{Holder, Obstacle},
    },
    order::Outcome,
    text::error_chain,
};

/// Of the oldest orders so many are tried.
const TRIED: i64 = 5;

impl Store {
    /// What keeps the oldest overdue orders from being closed by this user, if anything does. Where none is overdue the effect is
    /// run without orders, which shows wrong SQL, missing rights and locked tables.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn obstacle(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        let tried = match self.of_the_oldest(effect).await {
            // Prepared before the tables were changed.
            Err(error) if error.is_stale() => self.of_the_oldest(effect).await,
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

    async fn of_the_oldest(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        self.rehearse_without_orders(effect).await?;
        let page = self.overdue_page(effect, &OverdueKey::first(), TRIED, ON_ITS_WAY).await?;
        let Some(page) = page else { return Ok(None) };
        let outcomes = self.rehearse(effect, &page.ids).await?;
        for (id, outcome) in page.ids.iter().zip(outcomes) {
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
                Outcome::Failed { reason, .. } | Outcome::Postponed { reason } => {
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
}

/// Whether it is a worker that has just begun.
fn is_working(holder: &Holder) -> bool {
    let is_new = holder.doing.as_ref().is_some_and(|(_, age)| *age < ON_ITS_WAY);
    holder.application == APPLICATION && is_new
}
