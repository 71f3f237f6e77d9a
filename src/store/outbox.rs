//! The outbox: events written with the effect, published afterwards, forgotten when confirmed.

pub(crate) mod claim;
pub(crate) mod retries;

use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{Store, StoreError};

const BEGIN: &str = include_str!("../../sql/outbox_begin.sql");
const FLOOR: &str = include_str!("../../sql/outbox_floor.sql");
const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const HOLD: &str = include_str!("../../sql/outbox_hold.sql");
const DONE: &str = include_str!("../../sql/outbox_done.sql");
const REFUSE: &str = include_str!("../../sql/outbox_refuse.sql");

/// What need not be read of the outbox.
#[derive(Clone, Debug, Default)]
pub struct PassedOver {
    /// The rows up to this one are gone.
    pub floor: i64,
    /// Rows that are published, and cannot be deleted.
    pub undeleted: Vec<i64>,
}

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

/// An event of the outbox that is to go out of the way of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its row in the outbox.
    pub(crate) row: i64,
    /// The event name that is refused; without one the event can never be published.
    pub(crate) waits_for: Option<String>,
    /// Why it is not published.
    pub(crate) reason: String,
    /// Whether a publish with that name harms the events beside it: it closes the channel, or keeps back their confirms.
    /// Then no other of that name is published meanwhile.
    pub(crate) forbidden: bool,
}

impl Refusal {
    /// An event that can never be published.
    pub(crate) fn for_ever(row: i64, reason: String) -> Self {
        Self { row, waits_for: None, reason, forbidden: false }
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
        self.explain("outbox_claim", CLAIM, &[&0_i64, &none, &0_i64]).await?;
        self.explain("outbox_floor", FLOOR, &[&none]).await?;
        self.explain("outbox_done", DONE, &[&none]).await?;
        self.explain("outbox_refuse", REFUSE, &[&none, &no_texts, &no_texts, &no_flags]).await?;
        self.check_refused_events().await
    }

    /// Whether there is anything in the outbox: a fifth of what a claim costs that finds nothing.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn has_events(&self, without: &PassedOver) -> Result<bool, StoreError> {
        const SQL: &str =
            "SELECT EXISTS (SELECT FROM outbox WHERE id > $1 AND id <> ALL ($2::bigint[]))";
        let parameters: [&(dyn ToSql + Sync); 2] = [&without.floor, &without.undeleted];
        let rows = self.rows("outbox_any", SQL, &parameters).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// The first row that is left but `undeleted`, and the transactions that may have written an earlier one. Under an old snapshot
    /// it reads all that was deleted since.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn outbox_floor(
        &self,
        undeleted: &[i64],
    ) -> Result<(Option<i64>, Vec<String>), StoreError> {
        let rows = self.rows("outbox_floor", FLOOR, &[&undeleted]).await?;
        Ok(rows.first().map(|row| (row.get("first"), row.get("writers"))).unwrap_or_default())
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
