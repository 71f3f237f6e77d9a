//! The outbox in the hands of one relay.

use std::collections::BTreeMap;

use tokio_postgres::{Row, types::ToSql};

use super::{BEGIN, CLAIM, DONE, Event, HOLD, REFUSE, Refusal, beginning, event};
use crate::store::{Store, StoreError, cancel::Cancellable};

/// A transaction that other relays wait for. Dropped, it is rolled back: the events are in the outbox as before.
pub(crate) struct Claim {
    store: Store,
    client: Cancellable,
    /// Whether there can be more than were asked for.
    pub(crate) is_full: bool,
    /// To be published.
    pub(crate) events: Vec<Event>,
    /// To be set aside: they wait behind an earlier event, or can never be published.
    pub(crate) held: Vec<Refusal>,
}

impl Store {
    /// Takes up to `limit` of the oldest events; other relays wait until the claim is finished or dropped. `None` where
    /// there are none, or somebody else has them for longer than the lock time-out.
    ///
    /// # Errors
    /// A statement failed; nothing is taken.
    pub(crate) async fn claim_events(&self, limit: i64) -> Result<Option<Claim>, StoreError> {
        match self.attended(Box::pin(self.claim(limit))).await {
            Err(error) if error.is_lock_timeout() => Ok(None),
            claimed => claimed,
        }
    }

    async fn claim(&self, limit: i64) -> Result<Option<Claim>, StoreError> {
        let client = self.cancellable().await?;
        let statement = self.named("outbox_claim", client.prepare_cached(CLAIM).await)?;
        // The claim's snapshot is taken when the lock is there.
        let (begun, rows, held) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            async { client.query(&statement, &[&limit]).await },
            client.batch_execute(HOLD),
        );
        let rows = begun.and(rows).and_then(|rows| held.map(|()| rows));
        let rows = self.named("outbox_claim", rows)?;
        if rows.is_empty() {
            self.named("outbox_claim", client.batch_execute("COMMIT").await)?;
            client.done();
            return Ok(None);
        }
        let is_full = i64::try_from(rows.len()).is_ok_and(|rows| rows >= limit);
        let (events, held) = read(&rows);
        Ok(Some(Claim { store: self.clone(), client, is_full, events, held }))
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

fn read(rows: &[Row]) -> (Vec<Event>, Vec<Refusal>) {
    let (mut events, mut held) = (Vec::with_capacity(rows.len()), Vec::new());
    // Orders of which an event is held here: what follows in them waits as well.
    let mut waiting: BTreeMap<&str, &str> = BTreeMap::new();
    for row in rows {
        let id = row.get("id");
        if let Some(fault) = row.get("fault") {
            held.push(Refusal::for_ever(id, fault));
            continue;
        }
        let order_id = row.get("order_id");
        let waits_for = row.get::<_, Option<&str>>("waits_for");
        if let Some(waits_for) = waits_for.or_else(|| waiting.get(order_id).copied()) {
            waiting.entry(order_id).or_insert(waits_for);
            let reason = format!("it waits until `{waits_for}` is published");
            let waits_for = Some(waits_for.to_owned());
            held.push(Refusal { row: id, waits_for, reason, forbidden: false });
        } else {
            match event(id, row) {
                Ok(event) => events.push(event),
                Err(error) => held.push(Refusal::for_ever(id, error.to_string())),
            }
        }
    }
    (events, held)
}
