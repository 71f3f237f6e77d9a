//! The outbox in the hands of one relay.

use std::collections::BTreeMap;

use tokio_postgres::{Row, types::ToSql};

use super::{BEGIN, CLAIM, DONE, Event, HOLD, PassedOver, REFUSE, Refusal, beginning, event};
use crate::store::{Store, StoreError, pool::Cancellable};

/// An event that is not to be published now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its row in the outbox.
    pub(crate) row: i64,
    pub(crate) order_id: String,
    /// The event name that is refused.
    pub(crate) waits_for: String,
}

/// A transaction that other relays wait for. Dropped, it is rolled back: the events are in the outbox as before.
pub(crate) struct Claim {
    store: Store,
    client: Cancellable,
    /// Whether there can be more than were asked for.
    pub(crate) is_full: bool,
    /// The row with the greatest id.
    pub(crate) last: i64,
    /// To be published.
    pub(crate) events: Vec<Event>,
    /// To be set aside with those of [`Claim::events`] that are refused: their own name is, or that of an event before them.
    /// In their order they come after what is to be published.
    pub(crate) waiting: Vec<Waiting>,
    /// To be set aside: they can never be published.
    pub(crate) faulty: Vec<Refusal>,
}

impl Store {
    /// Takes up to `limit` of the oldest events, but those that are passed over; other relays wait until the claim is
    /// finished or dropped. `None` where there are none, or somebody else has them for longer than the lock time-out.
    ///
    /// # Errors
    /// A statement failed; nothing is taken.
    pub(crate) async fn claim_events(
        &self,
        limit: i64,
        without: &PassedOver,
    ) -> Result<Option<Claim>, StoreError> {
        match self.attended(Box::pin(self.claim(limit, without))).await {
            Err(error) if error.is_lock_timeout() => Ok(None),
            claimed => claimed,
        }
    }

    async fn claim(&self, limit: i64, without: &PassedOver) -> Result<Option<Claim>, StoreError> {
        let client = self.cancellable().await?;
        let statement = self.named("outbox_claim", client.prepare_cached(CLAIM).await)?;
        let parameters: [&(dyn ToSql + Sync); 3] = [&limit, &without.undeleted, &without.floor];
        // The claim's snapshot is taken when the lock is there.
        let (begun, rows, held) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            async { client.query(&statement, &parameters).await },
            client.batch_execute(HOLD),
        );
        let rows = begun.and(rows).and_then(|rows| held.map(|()| rows));
        let rows = self.named("outbox_claim", rows)?;
        if rows.is_empty() {
            self.named("outbox_claim", client.batch_execute("COMMIT").await)?;
            client.done();
            return Ok(None);
        }
        let last = rows.last().map_or(0, |row| row.get("id"));
        let is_full = i64::try_from(rows.len()).is_ok_and(|rows| rows >= limit);
        let Rows { events, waiting, faulty } = Rows::read(&rows);
        Ok(Some(Claim { store: self.clone(), client, is_full, last, events, waiting, faulty }))
    }
}

impl Claim {
    /// Forgets what was published and moves what was refused out of the way of the others; the rest stays as it was.
    /// Gives the event names that were not refused before.
    ///
    /// # Errors
    /// A statement failed; the events are published again.
    pub(crate) async fn finish(
        self,
        published: &[i64],
        refusals: &[Refusal],
    ) -> Result<Vec<String>, StoreError> {
        let Self { store, client, .. } = self;
        let finishing = finish(&store, client, published, refusals);
        store.attended(Box::pin(finishing)).await
    }
}

async fn finish(
    store: &Store,
    client: Cancellable,
    published: &[i64],
    refusals: &[Refusal],
) -> Result<Vec<String>, StoreError> {
    let done = store.named("outbox_done", client.prepare_cached(DONE).await)?;
    if refusals.is_empty() {
        let (forgotten, committed) = tokio::join!(
            biased;
            async { client.execute(&done, &[&published]).await },
            client.batch_execute("COMMIT"),
        );
        store.named("outbox_done", forgotten.and(committed))?;
        client.done();
        return Ok(Vec::new());
    }
    store.named("outbox_done", client.execute(&done, &[&published]).await)?;
    let begin = refuse(store, &client, refusals).await?;
    store.named("outbox_refuse", client.batch_execute("COMMIT").await)?;
    client.done();
    Ok(begin)
}

async fn refuse(
    store: &Store,
    client: &Cancellable,
    refusals: &[Refusal],
) -> Result<Vec<String>, StoreError> {
    let statement = store.named("outbox_refuse", client.prepare_cached(REFUSE).await)?;
    let rows: Vec<i64> = refusals.iter().map(|refusal| refusal.row).collect();
    let waits_for: Vec<_> = refusals.iter().map(|refusal| &refusal.waits_for).collect();
    let reasons: Vec<_> = refusals.iter().map(|refusal| &refusal.reason).collect();
    let forbidden: Vec<bool> = refusals.iter().map(|refusal| refusal.forbidden).collect();
    let parameters: [&(dyn ToSql + Sync); 4] = [&rows, &waits_for, &reasons, &forbidden];
    let rows = client.query(&statement, &parameters).await;
    Ok(beginning(&store.named("outbox_refuse", rows)?))
}

/// The rows of a claim, by what is to be done with them.
#[derive(Default)]
struct Rows {
    events: Vec<Event>,
    waiting: Vec<Waiting>,
    faulty: Vec<Refusal>,
}

impl Rows {
    fn read(rows: &[Row]) -> Self {
        let mut read = Self::default();
        // Orders of which an event is held here: what follows in them waits as well.
        let mut held: BTreeMap<String, String> = BTreeMap::new();
        for row in rows {
            let id = row.get("id");
            if let Some(fault) = row.get("fault") {
                read.faulty.push(Refusal::for_ever(id, fault));
                continue;
            }
            // A database that does not check its texts (SQL_ASCII) can have any bytes in them.
            let readable = event(id, row).and_then(|event| Ok((event, row.try_get("waits_for")?)));
            let (event, waits_for): (Event, Option<String>) = match readable {
                Ok(readable) => readable,
                Err(error) => {
                    read.faulty.push(Refusal::for_ever(id, error.to_string()));
                    continue;
                }
            };
            let Some(waits_for) = waits_for.or_else(|| held.get(&event.order_id).cloned()) else {
                read.events.push(event);
                continue;
            };
            let order_id = event.order_id;
            held.entry(order_id.clone()).or_insert_with(|| waits_for.clone());
            read.waiting.push(Waiting { row: id, order_id, waits_for });
        }
        read
    }
}
