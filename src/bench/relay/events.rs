//! The events: two of each order, one right behind the other, so that a relay cannot publish all of a batch at once.

use jiff::Timestamp;

use crate::{
    store::{Store, StoreError},
    wire::Message,
};

const NAMES: [&str; 2] = ["order.paid", "order.shipped"];

/// A time with as many digits as most.
const ANY_US: i64 = 1_600_000_000_123_456;

/// The name of an event and its order, by its place.
fn event(place: usize) -> (&'static str, String) {
    (NAMES[place % NAMES.len()], format!("order-{}", place / NAMES.len()))
}

/// The messages that a relay makes of so many events.
pub(crate) fn messages(exchange: &str, events: usize) -> Vec<Message> {
    let at = Timestamp::from_microsecond(ANY_US).unwrap_or_default();
    let message = |place: usize| {
        let (name, order_id) = event(place);
        let id = i64::try_from(place).unwrap_or(i64::MAX);
        Message::event(exchange.to_owned(), name, id, &order_id, at)
    };
    (0..events).map(message).collect()
}

/// Empties the outbox and fills it; as autovacuum and the checkpointer leave it after a while.
///
/// # Errors
/// A statement failed; a user that may not ask for a checkpoint goes without one.
pub(super) async fn fill(store: &Store, events: usize) -> Result<(), StoreError> {
    const CLEAR: &str = include_str!("../../../sql/bench_clear.sql");
    const FILL: &str = include_str!("../../../sql/bench_outbox_fill.sql");
    store.run_script("bench_clear", CLEAR).await?;
    let (names, order_ids): (Vec<&str>, Vec<String>) = (0..events).map(event).unzip();
    let client = store.client().await?;
    let filled = client.execute(FILL, &[&names, &order_ids]).await;
    store.named("bench_outbox_fill", filled)?;
    let vacuumed = client.batch_execute("VACUUM (ANALYZE) outbox").await;
    store.named("bench_vacuum", vacuumed)?;
    let _not_permitted = client.batch_execute("CHECKPOINT").await;
    Ok(())
}
