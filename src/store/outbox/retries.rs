//! Events that could not be published: the ones that wait, and when their event name is tried again.

use tokio_postgres::types::ToSql;

use super::{Event, Store, StoreError, beginning, event};

const CLAIM: &str = include_str!("../../../sql/outbox_retry_claim.sql");
const KEEP: &str = include_str!("../../../sql/outbox_retry_keep.sql");
const EVENTS: &str = include_str!("../../../sql/outbox_retry_events.sql");
const DONE: &str = include_str!("../../../sql/outbox_retry_done.sql");
const REGROUP: &str = include_str!("../../../sql/outbox_retry_regroup.sql");
const AGAIN: &str = include_str!("../../../sql/outbox_retry_again.sql");
const END: &str = include_str!("../../../sql/outbox_retry_end.sql");

/// An event name that was refused and is to be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// What the events wait for.
    pub(crate) event: String,
    /// How many events have joined since it was refused first.
    pub(crate) events: i64,
}

/// An order whose later events wait for another event name from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regrouped {
    /// The order.
    pub(crate) order_id: String,
    /// The event name that was refused.
    pub(crate) event: String,
    /// Why.
    pub(crate) reason: String,
}

impl Store {
    pub(in crate::store) async fn check_refused_events(&self) -> Result<(), StoreError> {
        let (keys, texts): (&[i64], &[&str]) = (&[], &[]);
        self.explain("outbox_retry_claim", CLAIM, &[&0_i64]).await?;
        self.explain("outbox_retry_keep", KEEP, &[&""]).await?;
        self.explain("outbox_retry_events", EVENTS, &[&"", &0_i64]).await?;
        self.explain("outbox_retry_done", DONE, &[&keys]).await?;
        self.explain("outbox_retry_regroup", REGROUP, &[&"", &texts, &texts, &texts]).await?;
        self.explain("outbox_retry_again", AGAIN, &[&"", &false, &false]).await?;
        self.explain("outbox_retry_end", END, &[&"", &0_i64]).await
    }

    /// Takes for thirty seconds up to `limit` event names that are to be tried again.
    pub(crate) async fn claim_retries(&self, limit: i64) -> Result<Vec<Retry>, StoreError> {
        let rows = self.rows("outbox_retry_claim", CLAIM, &[&limit]).await?;
        Ok(rows.iter().map(|row| Retry { event: row.get(0), events: row.get(1) }).collect())
    }

    /// Keeps an event name for another thirty seconds. How many events have joined so far; none where it is not refused
    /// any more.
    pub(crate) async fn keep_retry(&self, event: &str) -> Result<Option<i64>, StoreError> {
        let kept = self.rows("outbox_retry_keep", KEEP, &[&event]).await?;
        Ok(kept.first().map(|row| row.get(0)))
    }

    /// The oldest `limit` events that wait for an event name.
    pub(crate) async fn refused_events(
        &self,
        waits_for: &str,
        limit: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let name = "outbox_retry_events";
        let rows = self.rows(name, EVENTS, &[&waits_for, &limit]).await?;
        let events = rows.iter().map(|row| event(row.get("refused_id"), row)).collect();
        self.named(name, events)
    }

    /// Forgets refused events that the broker has confirmed now.
    pub(crate) async fn forget_refused(&self, rows: &[i64]) -> Result<(), StoreError> {
        self.outbox_change("outbox_retry_done", DONE, rows).await
    }

    /// Lets orders that waited for one event name wait for another. Gives the names that were not refused before.
    pub(crate) async fn regroup_refused(
        &self,
        waited_for: &str,
        orders: &[Regrouped],
    ) -> Result<Vec<String>, StoreError> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = orders.iter().map(|order| &order.order_id).collect();
        let events: Vec<_> = orders.iter().map(|order| &order.event).collect();
        let reasons: Vec<_> = orders.iter().map(|order| &order.reason).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&waited_for, &ids, &events, &reasons];
        Ok(beginning(&self.rows("outbox_retry_regroup", REGROUP, &parameters).await?))
    }

    /// Lets an event name be tried again: at once where it is not refused any more; after 1 s where something was
    /// published before it was refused; else after twice as long as before, at most 5 min, or 1 min where each try can
    /// harm others (see [`Refusal::forbidden`](super::outbox::Refusal)).
    pub(crate) async fn retry_again(
        &self,
        event: &str,
        published: bool,
        refused: bool,
    ) -> Result<(), StoreError> {
        self.rows("outbox_retry_again", AGAIN, &[&event, &published, &refused]).await.map(drop)
    }

    /// Forgets an event name of which nothing waits any more; for how many ms it was refused. `None` where events
    /// have joined since there were so many.
    pub(crate) async fn end_retry(
        &self,
        event: &str,
        events: i64,
    ) -> Result<Option<i64>, StoreError> {
        let ended = self.rows("outbox_retry_end", END, &[&event, &events]).await?;
        Ok(ended.first().map(|row| row.get(0)))
    }
}
