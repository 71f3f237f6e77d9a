//! What became of the orders that came due a moment ago and were not paid.

use std::time::Duration;

use super::{Store, StoreError, database_time::DatabaseTime, effect::Effect, overdue::OverdueKey};

const DUE: &str = include_str!("../../sql/watch_due.sql");
const MAY_READ: &str = "SELECT has_table_privilege('closures', 'SELECT')";
/// Which deadlines are looked at: few enough rows to count them every few seconds.
const WITHIN: Duration = Duration::from_mins(1);
/// Where counting those that nobody has closed ends.
const MOST_ORDERS: i64 = 1_000;

/// Orders by what closed them: message, burst, sweep, nobody. Together they came due and were not paid.
pub(crate) type Accounting = [usize; 4];

impl Store {
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
}
