//! What a worker asks now and then to show it: what waits to be published, what is overdue, and what became of the orders that
//! came due a moment ago.

use std::time::Duration;

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError, database_time::DatabaseTime, effect::Effect, outbox::PassedOver,
    overdue::OverdueKey, schedule::Notices,
};
use crate::order::Outcome;

const OUTBOX: &str = include_str!("../../sql/watch_outbox.sql");
const SCHEDULE: &str = include_str!("../../sql/watch_schedule.sql");
const DUE: &str = include_str!("../../sql/watch_due.sql");
const MAY_READ: &str = "SELECT has_table_privilege('closures', 'SELECT')";
/// Which deadlines are looked at: few enough rows to count them every few seconds.
const WITHIN: Duration = Duration::from_mins(1);
/// Where counting events and notices ends: what is counted is read.
const MOST_WAITING: i64 = 100_000;
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

/// The notices that wait at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduleState {
    /// Up to 100,000.
    pub(crate) notices: u64,
    /// The age of the oldest one.
    pub(crate) oldest: Duration,
    /// Set aside. Up to 100,000.
    pub(crate) refused: u64,
}

/// Orders by what closed them: message, burst, sweep, nobody. Together they came due and were not paid.
pub(crate) type Accounting = [usize; 4];

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
            [&MOST_WAITING, &without.undeleted, &without.floor];
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

    /// Of the orders whose deadline was in the last minute; `None` without `overdue_sql`, or without the right to read `closures`.
    ///
    /// # Errors
    /// The database does not answer, or `overdue_sql` is not as agreed.
    pub(crate) async fn accounting(
        &self,
        effect: &Effect,
        now: DatabaseTime,
    ) -> Result<Option<Accounting>, StoreError> {
        let may_read = self.rows("may_read_closures", MAY_READ, &[]).await?;
        if !may_read.first().is_some_and(|row| row.get(0)) {
            return Ok(None);
        }
        let after = OverdueKey::at(now.before(WITHIN));
        let page = self.overdue_page(effect, &after, MOST_ORDERS, Duration::ZERO).await?;
        let Some(page) = page else { return Ok(None) };
        let within_ms = i64::try_from(WITHIN.as_millis()).unwrap_or(i64::MAX);
        let rows = self.rows("watch_due", DUE, &[&effect.name, &within_ms]).await?;
        let by = |path: &str| {
            let row = rows.iter().find(|row| row.get::<_, &str>("path") == path);
            row.map_or(0, |row| usize::try_from(row.get::<_, i64>("orders")).unwrap_or(0))
        };
        Ok(Some([by("message"), by("burst"), by("sweep"), page.rows]))
    }

    /// What waits, and what was set aside; `None` without the tables, or the rights on them.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn schedule_state(&self) -> Result<Option<ScheduleState>, StoreError> {
        if self.schedule_lacks(Notices::Counted).await?.is_some() {
            return Ok(None);
        }
        let rows = self.rows("watch_schedule", SCHEDULE, &[&MOST_WAITING]).await?;
        let count =
            |row: &Row, column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        Ok(rows.first().map(|row| ScheduleState {
            notices: count(row, "notices"),
            oldest: Duration::from_millis(count(row, "oldest_ms")),
            refused: count(row, "refused"),
        }))
    }
}
