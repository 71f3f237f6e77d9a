//! What a worker asks now and then to show it: the outbox, and what is overdue.

use std::time::Duration;

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError, database_time::DatabaseTime, effect::Effect, outbox::PassedOver,
    overdue::OverdueKey,
};
use crate::order::Outcome;

const OUTBOX: &str = include_str!("../../sql/watch_outbox.sql");
/// Where counting events ends: what is counted is read.
const MOST_EVENTS: i64 = 100_000;
/// Where counting overdue orders ends.
const MOST_ORDERS: i64 = 1_000;
/// So many of the orders that were not closed are tried, to see whether one could have been.
const TRIED: i64 = 5;

/// The outbox at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboxState {
    /// Events that wait, up to 100,000.
    pub(crate) events: u64,
    /// The age of the oldest one.
    pub(crate) oldest: Duration,
    /// Events whose name the broker refuses; they are tried again. Up to 100,000.
    pub(crate) refused: u64,
    /// Events that can never be published. Up to 100,000.
    pub(crate) unpublishable: u64,
    /// The clock of the database.
    pub(crate) now: DatabaseTime,
}

/// What is overdue with one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// Orders, up to 1,000.
    pub(crate) orders: usize,
    /// How long the oldest has been overdue; `None` where there is none.
    pub(crate) oldest: Option<Duration>,
}

impl Store {
    /// The outbox without what is passed over, and the clock.
    ///
    /// # Errors
    /// The database does not answer, or the tables are missing.
    pub(crate) async fn outbox_state(
        &self,
        without: &PassedOver,
    ) -> Result<OutboxState, StoreError> {
        let parameters: [&(dyn ToSql + Sync); 3] =
            [&MOST_EVENTS, &without.undeleted, &without.floor];
        let rows = self.rows("watch_outbox", OUTBOX, &parameters).await?;
        let count =
            |row: &Row, column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        let state = |row: &Row| OutboxState {
            events: count(row, "events"),
            oldest: Duration::from_millis(count(row, "oldest_ms")),
            refused: count(row, "refused"),
            unpublishable: count(row, "unpublishable"),
            now: row.get("now"),
        };
        rows.first()
            .map(state)
            .ok_or_else(|| StoreError::Silent { address: self.address.to_string() })
    }

    /// What is overdue at `now`; `None` without `overdue_sql`.
    ///
    /// # Errors
    /// The statement failed, or is not as agreed.
    pub(crate) async fn overdue(
        &self,
        effect: &Effect,
        now: DatabaseTime,
    ) -> Result<Option<Overdue>, StoreError> {
        let first = OverdueKey::first();
        let Some(page) = self.overdue_page(effect, &first, 1, Duration::ZERO).await? else {
            return Ok(None);
        };
        if page.rows == 0 {
            return Ok(Some(Overdue { orders: 0, oldest: None }));
        }
        let oldest = Some(page.next.overdue_at(now));
        let all = self.overdue_page(effect, &first, MOST_ORDERS, Duration::ZERO).await?;
        let orders = all.map_or(1, |all| all.rows.max(1));
        Ok(Some(Overdue { orders, oldest }))
    }

    /// For how long orders that could be closed have been overdue, at least `bound`, if their deadlines came after the last
    /// closing, `closed_ago` before `now`; without one, any. One that the effect fails for or refuses says nothing of who
    /// closes.
    ///
    /// # Errors
    /// The statement failed, or is not as agreed.
    pub(crate) async fn stuck_for(
        &self,
        effect: &Effect,
        now: DatabaseTime,
        closed_ago: Option<Duration>,
        bound: Duration,
    ) -> Result<Option<Duration>, StoreError> {
        let after =
            closed_ago.map_or_else(OverdueKey::first, |ago| OverdueKey::at(now.before(ago)));
        let page = self.overdue_page(effect, &after, TRIED, bound).await?;
        let Some(page) = page.filter(|page| !page.ids.is_empty()) else { return Ok(None) };
        let could_be_closed = match self.rehearse_without_orders(effect).await {
            Ok(()) => {
                let outcomes = self.rehearse(effect, &page.ids).await?;
                outcomes.iter().any(|outcome| matches!(outcome, Outcome::Closed { .. }))
            }
            // It fails whatever the order, or its tables are locked.
            Err(error) if error.is_answer() || error.is_misfit() => true,
            Err(error) => return Err(error),
        };
        Ok(could_be_closed.then(|| page.next.overdue_at(now)))
    }
}
