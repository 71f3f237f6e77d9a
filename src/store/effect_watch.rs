//! Rows of a described effect, for `effect watch`, which observes what closes them today.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    contract::cell,
    effects::{Effect, unfit},
    overdue::OverdueKey,
};
use crate::effect::{Description, Found, watched};

/// Rows of one page.
const PAGE: i64 = 5_000;

impl Store {
    /// At most `most` open rows that are overdue or due within some time, by deadline.
    pub(crate) async fn open_within(
        &self,
        effect: &Effect,
        within: Duration,
        most: usize,
    ) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let (mut open, mut after) = (Vec::new(), OverdueKey::first());
        while open.len() < most {
            let page = self.page(effect, &after, PAGE, -to_ms(within)).await?;
            let Some((rows, next)) = page else { break };
            open.extend(rows.iter().filter_map(|row| {
                let (key, due_at) =
                    (cell::<&str>(row, 0).ok()?, cell::<DatabaseTime>(row, 1).ok()?);
                Some((key.to_owned(), due_at.timestamp()?))
            }));
            if next == after || i64::try_from(rows.len()).is_ok_and(|rows| rows < PAGE) {
                break;
            }
            after = next;
        }
        open.truncate(most);
        Ok(open)
    }

    /// The statement that reads the state of rows.
    pub(crate) async fn watched(
        &self,
        effect: &Effect,
        description: &Description,
    ) -> Result<String, StoreError> {
        let facts = self.table_facts(effect, description).await?;
        watched::watched(description, &facts).map_err(|mistake| unfit(effect, &mistake))
    }

    /// Rows by their key, without deleted rows.
    pub(crate) async fn watched_rows(
        &self,
        watched: &str,
        keys: &[String],
    ) -> Result<BTreeMap<String, Found>, StoreError> {
        let rows = self.rows("effect_watch", watched, &[&keys]).await?;
        let found = rows.iter().map(|row| {
            let due_at: Option<DatabaseTime> = row.get("due_at");
            let found = if row.get("is_open") {
                let due_at = due_at.and_then(DatabaseTime::timestamp);
                Found::Open { due_at, is_kept: row.get("is_kept") }
            } else {
                Found::Left { is_closed: row.get("is_closed") }
            };
            (row.get("key"), found)
        });
        Ok(found.collect())
    }
}
