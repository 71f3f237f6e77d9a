//! The outbox's way to the broker: claim, publish, forget what was confirmed.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lapin::types::FieldTable;

use super::{SessionEnd, Worker};
use crate::{
    broker::{Message, PublishError, Publisher},
    shutdown::Stop,
    store::outbox::Event,
};

/// Events on their way at once.
const CLAIM: i64 = 500;
/// The batches of this process ring; events of other processes that died are found by polling.
const POLL: Duration = Duration::from_secs(5);

/// Publishes what is in the outbox until a stop is asked for.
pub(super) async fn relay(
    worker: Arc<Worker>,
    publisher: Publisher,
    stop: Stop,
) -> Result<(), SessionEnd> {
    loop {
        while relay_once(&worker, &publisher).await? && !stop.is_requested() {}
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = worker.events.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// Whether there may be more.
async fn relay_once(worker: &Worker, publisher: &Publisher) -> Result<bool, SessionEnd> {
    let events = worker.store.claim_events(CLAIM).await?;
    let exchange = worker.topology.events_exchange();
    let publishing = events.iter().map(|event| async {
        match publisher.publish(message(&exchange, event)).await {
            // Nobody has bound a queue for this event: it is delivered to all its subscribers.
            Ok(()) | Err(PublishError::Returned { .. }) => Ok(event.id),
            Err(error) => Err(error),
        }
    });
    let (confirmed, failed): (Vec<_>, Vec<_>) =
        join_all(publishing).await.into_iter().partition(Result::is_ok);
    let confirmed: Vec<i64> = confirmed.into_iter().flatten().collect();
    if !confirmed.is_empty() {
        worker.store.forget_events(&confirmed).await?;
    }
    match failed.into_iter().find_map(Result::err) {
        Some(error) => Err(error.into()),
        None => Ok(!events.is_empty()),
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
