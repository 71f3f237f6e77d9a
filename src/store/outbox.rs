//! The outbox: events written with the effect, published afterwards, forgotten when confirmed.

use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{Store, StoreError};

const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const DONE: &str = include_str!("../../sql/outbox_done.sql");
const RELEASE: &str = include_str!("../../sql/outbox_release.sql");
const REFUSE: &str = include_str!("../../sql/outbox_refuse.sql");

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The key of its row, in `outbox` or in `outbox_refused`.
    pub row: i64,
    /// Its id in the outbox; also part of the `message-id`, so that a subscriber can recognise a second copy.
    pub id: i64,
    /// What happened, and the routing key, e.g. `order.closed`.
    pub event: String,
    /// To which order.
    pub order_id: String,
    /// When.
    pub created_at: Timestamp,
}

/// What a relay took out of the outbox.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// To be published.
    pub(crate) events: Vec<Event>,
    /// To be set aside: they wait behind an earlier event, or cannot be read.
    pub(crate) held: Vec<Refusal>,
    /// Set aside already, with the reason: they can never be published.
    pub(crate) unpublishable: Vec<(i64, String)>,
}

/// An event of the outbox that is to go out of the way of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its row in the outbox.
    pub(crate) row: i64,
    /// The event name that is refused; without one the event can never be published.
    pub(crate) waits_for: Option<String>,
    /// Why it is not published.
    pub(crate) reason: String,
    /// Whether a publish with that name closes the channel, and with it harms the events beside it.
    pub(crate) forbidden: bool,
}

impl Refusal {
    /// An event that can never be published.
    pub(crate) fn for_ever(row: i64, reason: String) -> Self {
        Self { row, waits_for: None, reason, forbidden: false }
    }
}

impl Claimed {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.held.is_empty() && self.unpublishable.is_empty()
    }

    fn of(rows: &[Row]) -> Self {
        let mut claimed = Self::default();
        for row in rows {
            let id = row.get("id");
            if let Some(fault) = row.get("fault") {
                claimed.unpublishable.push((id, fault));
            } else if let Some(waits_for) = row.get::<_, Option<String>>("waits_for") {
                let reason = format!("it waits until `{waits_for}` is published");
                let waits_for = Some(waits_for);
                claimed.held.push(Refusal { row: id, waits_for, reason, forbidden: false });
            } else {
                match event(id, row) {
                    Ok(event) => claimed.events.push(event),
                    Err(error) => claimed.held.push(Refusal::for_ever(id, error.to_string())),
                }
            }
        }
        claimed
    }
}

/// The event in a row that is called `key`.
pub(super) fn event(key: i64, row: &Row) -> Result<Event, tokio_postgres::Error> {
    Ok(Event {
        row: key,
        id: row.try_get("id")?,
        event: row.try_get("event")?,
        order_id: row.try_get("order_id")?,
        created_at: row.try_get("created_at")?,
    })
}

impl Store {
    /// Whether the tables of the outbox have the columns they should, and may be changed; changes nothing.
    ///
    /// # Errors
    /// A table or a column is missing, or a permission is.
    pub async fn check_outbox(&self) -> Result<(), StoreError> {
        let none: &[i64] = &[];
        let (no_texts, no_flags): (&[&str], &[bool]) = (&[], &[]);
        self.explain("outbox_claim", CLAIM, &[&0_i64]).await?;
        self.explain("outbox_done", DONE, &[&none]).await?;
        self.explain("outbox_release", RELEASE, &[&none]).await?;
        self.explain("outbox_refuse", REFUSE, &[&none, &no_texts, &no_texts, &no_flags]).await?;
        self.check_refused_events().await
    }

    /// Takes up to `limit` of the oldest events for thirty seconds; other relays pass them over meanwhile.
    ///
    /// # Errors
    /// The statement failed; nothing is taken.
    pub(crate) async fn claim_events(&self, limit: i64) -> Result<Claimed, StoreError> {
        let rows = self.rows("outbox_claim", CLAIM, &[&limit]).await?;
        Ok(Claimed::of(&rows))
    }

    /// Forgets events that the broker has confirmed.
    ///
    /// # Errors
    /// The statement failed; the events are published again when their claim ends.
    pub(crate) async fn forget_events(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.outbox_change("outbox_done", DONE, ids).await
    }

    /// Gives back claimed events that were not published, or of which that is not known.
    ///
    /// # Errors
    /// The statement failed; the events come back when their claim ends.
    pub(crate) async fn release_events(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.outbox_change("outbox_release", RELEASE, ids).await
    }

    /// Moves events that were not published out of the way of the others. Gives the event names that were not
    /// refused before.
    ///
    /// # Errors
    /// The statement failed; the events come back when their claim ends.
    pub(crate) async fn refuse_events(
        &self,
        refusals: &[Refusal],
    ) -> Result<Vec<String>, StoreError> {
        let rows: Vec<i64> = refusals.iter().map(|refusal| refusal.row).collect();
        let waits_for: Vec<_> = refusals.iter().map(|refusal| &refusal.waits_for).collect();
        let reasons: Vec<_> = refusals.iter().map(|refusal| &refusal.reason).collect();
        let forbidden: Vec<bool> = refusals.iter().map(|refusal| refusal.forbidden).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&rows, &waits_for, &reasons, &forbidden];
        Ok(beginning(&self.rows("outbox_refuse", REFUSE, &parameters).await?))
    }

    /// Changes the rows of these keys, where there are any.
    pub(super) async fn outbox_change(
        &self,
        name: &'static str,
        sql: &'static str,
        keys: &[i64],
    ) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.rows(name, sql, &[&keys]).await.map(drop)
    }
}

/// The event names whose refusal begins here.
pub(super) fn beginning(rows: &[Row]) -> Vec<String> {
    rows.iter().filter(|row| row.get("begins")).map(|row| row.get("event")).collect()
}
