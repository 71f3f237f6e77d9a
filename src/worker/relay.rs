//! The outbox's way to the broker: claim, publish, forget what was confirmed.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lapin::types::FieldTable;

use super::{SessionEnd, Worker, chain};
use crate::{
    broker::{Message, PublishError, Publisher},
    shutdown::Stop,
    store::outbox::Event,
    telemetry,
};

/// Events on their way at once.
const CLAIM: i64 = 500;
/// The batches of this process ring; events of other processes that died are found by polling.
const POLL: Duration = Duration::from_secs(5);

/// Publishes what is in the outbox until a stop is asked for.
///
/// # Errors
/// The publishing connection is gone. A database that fails is told and asked again later: the events wait there.
pub(super) async fn relay(
    worker: Arc<Worker>,
    publisher: Publisher,
    stop: Stop,
) -> Result<(), SessionEnd> {
    loop {
        if let Err(end) = relay_all(&worker, &publisher, &stop).await {
            let SessionEnd::Store(error) = end else { return Err(end) };
            telemetry::relay_failed(&chain(&error));
        }
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = worker.events.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn relay_all(worker: &Worker, publisher: &Publisher, stop: &Stop) -> Result<(), SessionEnd> {
    let exchange = worker.topology.events_exchange();
    while !stop.is_requested() {
        let events = worker.store.claim_events(CLAIM).await?;
        if events.is_empty() {
            break;
        }
        let results =
            join_all(events.iter().map(|event| publish(publisher, &exchange, event))).await;
        let (confirmed, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        let confirmed: Vec<i64> = confirmed.into_iter().flatten().collect();
        worker.store.forget_events(&confirmed).await?;
        if let Some(error) = failed.into_iter().find_map(Result::err) {
            return Err(error.into());
        }
    }
    Ok(())
}

async fn publish(
    publisher: &Publisher,
    exchange: &str,
    event: &Event,
) -> Result<i64, PublishError> {
    match publisher.publish(message(exchange, event)).await {
        // Nobody has bound a queue for this event: it is delivered to all its subscribers.
        Ok(()) | Err(PublishError::Returned { .. }) => Ok(event.id),
        Err(error) => Err(error),
    }
}

fn message(exchange: &str, event: &Event) -> Message {
    let body = serde_json::json!({ "order_id": event.order_id, "at": event.created_at });
    Message {
        exchange: exchange.to_owned(),
        routing_key: event.event.clone(),
        message_id: format!("{}/{}", event.event, event.id),
        content_type: Some("application/json".to_owned()),
        headers: FieldTable::default(),
        body: body.to_string().into_bytes(),
    }
}
