//! The outbox's way to the broker: claim, publish, forget what was confirmed.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{context::Worker, jitter, session_end::SessionEnd};
use crate::{
    broker::{ConnectError, PublishError, Publisher},
    shutdown::Stop,
    store::{StoreError, outbox::Event},
    telemetry,
    text::error_chain,
    wire::Message,
};

/// Events on their way at once.
const CLAIM: i64 = 500;
/// The batches of this process notify; events of other processes that died are found by polling.
const POLL: Duration = Duration::from_secs(5);

/// Why events stay in the outbox for now.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Publishes what is in the outbox until a stop is asked for.
///
/// A failure is logged and tried again after a while, on a connection of its own: a broker that blocks publishers
/// (memory or disk alarm) does not end the session. The events wait in the outbox.
pub(super) async fn relay(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut publisher = None;
    loop {
        let relayed = relay_all(&worker, &mut publisher, &stop).await;
        if let Err(error) = &relayed {
            telemetry::relay_failed(&error_chain(error));
        }
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = worker.events.notified(), if relayed.is_ok() => {}
            () = tokio::time::sleep(jitter::up_to(POLL)) => {}
        }
    }
}

/// Leaves `link` empty where it failed, so that the next time begins with a new connection.
async fn relay_all(
    worker: &Worker,
    link: &mut Option<Publisher>,
    stop: &Stop,
) -> Result<(), RelayError> {
    let publisher = match link.take().filter(|publisher| !publisher.is_closed()) {
        Some(publisher) => publisher,
        None => Publisher::connect(&worker.address, "overdue worker: events").await?,
    };
    let exchange = worker.topology.events_exchange();
    while !stop.is_requested() {
        let events = worker.store.claim_events(CLAIM).await?;
        if events.is_empty() {
            break;
        }
        let results =
            join_all(events.iter().map(|event| publish(&publisher, &exchange, event))).await;
        let (confirmed, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        let confirmed: Vec<i64> = confirmed.into_iter().flatten().collect();
        worker.store.forget_events(&confirmed).await?;
        if let Some(error) = failed.into_iter().find_map(Result::err) {
            return Err(error.into());
        }
    }
    *link = Some(publisher);
    Ok(())
}

async fn publish(
    publisher: &Publisher,
    exchange: &str,
    event: &Event,
) -> Result<i64, PublishError> {
    let Event { id, event, order_id, created_at } = event;
    let message = Message::event(exchange.to_owned(), event, *id, order_id, *created_at);
    match publisher.publish(message).await {
        // Nobody has bound a queue for this event: it is delivered to all its subscribers.
        Ok(()) | Err(PublishError::Returned { .. }) => Ok(*id),
        Err(error) => Err(error),
    }
}
