//! Publishes canaries to everything that delays, and consumes them from a queue of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::join_all};
use lapin::{Consumer, message::Delivery, options::BasicConsumeOptions, types::FieldTable};
use tokio::time::timeout_at;

use crate::{
    messaging::{
        BrokerAddress, ConnectError, Link, consume::ConsumeError, copies::declare,
        publish::publisher_pool::PublisherPool,
    },
    verify::probe::{Canaries, Canary, Fate},
    wire::{Message, headers},
};

/// A canary that is this much later than the longest delay counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Why the probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Failed to connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The temporary queue, `orders.probe.<word>`, could not be declared, bound or consumed.
    #[error(transparent)]
    Queue(#[from] ConsumeError),
}

/// Publishes all canaries at once and returns the fate of each, by id. Takes at most `within` plus five seconds.
///
/// The queue is exclusive, so the broker deletes it with the connection, also after an error.
///
/// # Errors
/// See [`ProbeError`]; a canary that is lost or refused is not an error.
pub async fn send(
    address: &BrokerAddress,
    canaries: &Canaries,
    within: Duration,
) -> Result<BTreeMap<String, Fate>, ProbeError> {
    let deadline = Instant::now() + within + PATIENCE;
    let link = Link::open(address, "overdue verify: probe").await?;
    let mut back = listen(&link, canaries).await?;
    let publishers = PublisherPool::new(address.clone(), "overdue verify: canaries");
    let began = Instant::now();
    let (refused, arrived) = tokio::join!(
        publish_all(&publishers, canaries, deadline),
        collect(&mut back, canaries, began, deadline)
    );
    drop(publishers);
    link.close().await;
    let fate = |canary: &Canary| match (arrived.get(&canary.id), refused.get(&canary.id)) {
        (Some(after), _) => Fate::Arrived { after: *after },
        (None, Some(reason)) => Fate::Refused { reason: reason.clone() },
        (None, None) => Fate::Lost,
    };
    Ok(canaries.list.iter().map(|canary| (canary.id.clone(), fate(canary))).collect())
}

/// Declares, binds and consumes the queue; the canaries are published after all of that is confirmed.
async fn listen(link: &Link, canaries: &Canaries) -> Result<Consumer, ConsumeError> {
    let queue = canaries.queue.as_str();
    let bindings: BTreeSet<(&str, &str)> =
        canaries.list.iter().map(|it| (it.comes_out_at.as_str(), it.binding.as_str())).collect();
    let channel = declare(link, queue, FieldTable::default(), bindings).await?;
    // The consumer does not ack: the broker deletes the queue and its messages when the probe ends.
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let consumer = link.answered(consuming).await;
    consumer.map_err(|source| ConsumeError::failed(queue, "subscribe", source))
}

/// Publishes all canaries, and returns why some were not confirmed, by id. A refused canary may close its channel, so each
/// routing key has its own channel.
async fn publish_all(
    publishers: &PublisherPool,
    canaries: &Canaries,
    deadline: Instant,
) -> BTreeMap<String, String> {
    let sent = canaries.list.iter().map(|canary| async move {
        let message = Message::canary(canary.route.clone(), &canary.id);
        let place = format!("{} {}", message.exchange, message.routing_key);
        let reason = match timeout_at(deadline.into(), publishers.publish(&place, message)).await {
            Ok(answer) => answer.err()?.to_string(),
            Err(_elapsed) => "it was not confirmed".to_owned(),
        };
        Some((canary.id.clone(), reason))
    });
    join_all(sent).await.into_iter().flatten().collect()
}

/// Returns the time after `began` at which each canary arrived, by id. Waits until all have arrived or `deadline` has passed.
async fn collect(
    back: &mut Consumer,
    canaries: &Canaries,
    began: Instant,
    deadline: Instant,
) -> BTreeMap<String, Duration> {
    let mut arrived = BTreeMap::new();
    while arrived.len() < canaries.list.len() {
        let Ok(Some(Ok(delivery))) = timeout_at(deadline.into(), back.next()).await else { break };
        let after = began.elapsed();
        if let Some(id) = id(&delivery).filter(|id| canaries.list.iter().any(|c| c.id == *id)) {
            arrived.entry(id).or_insert(after);
        }
    }
    arrived
}

/// The id of a canary. Other messages that come due with the same routing key have no such header.
fn id(delivery: &Delivery) -> Option<String> {
    headers::canary_id(delivery.properties.headers().as_ref()?)
}
