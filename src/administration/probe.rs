//! Sends canaries through everything that delays and waits for them on a queue of its own.

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
        publish::outlet::Outlet,
    },
    verify::probe::{Canaries, Canary, Fate},
    wire::{Message, headers},
};

/// How much later than the longest delay a canary may come before it counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Why there was no probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The temporary queue, `orders.probe.<word>`, could not be made.
    #[error(transparent)]
    Queue(#[from] ConsumeError),
}

/// Publishes all canaries at once and says what became of each, by id. Takes `within` and five seconds at the most.
///
/// The queue is exclusive: it goes with the connection, however this ends.
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
    let outlet = Outlet::new(address.clone(), "overdue verify: canaries");
    let began = Instant::now();
    let (refused, arrived) = tokio::join!(
        publish_all(&outlet, canaries, deadline),
        collect(&mut back, canaries, began, deadline)
    );
    drop(outlet);
    link.close().await;
    let fate = |canary: &Canary| match (arrived.get(&canary.id), refused.get(&canary.id)) {
        (Some(after), _) => Fate::Arrived { after: *after },
        (None, Some(reason)) => Fate::Refused { reason: reason.clone() },
        (None, None) => Fate::Lost,
    };
    Ok(canaries.list.iter().map(|canary| (canary.id.clone(), fate(canary))).collect())
}

/// Declares, binds and consumes; nothing is published before all of that is confirmed.
async fn listen(link: &Link, canaries: &Canaries) -> Result<Consumer, ConsumeError> {
    let queue = canaries.queue.as_str();
    let bindings: BTreeSet<(&str, &str)> =
        canaries.list.iter().map(|it| (it.comes_out_at.as_str(), it.binding.as_str())).collect();
    let channel = declare(link, queue, FieldTable::default(), bindings).await?;
    // Nothing is acked: the queue is gone in a moment, and so is what is in it.
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let consumer = link.answered(consuming).await;
    consumer.map_err(|source| ConsumeError::failed(queue, "subscribe", source))
}

/// Why canaries were not taken, by id. One that is refused may end its channel, so each routing key has its own.
async fn publish_all(
    outlet: &Outlet,
    canaries: &Canaries,
    deadline: Instant,
) -> BTreeMap<String, String> {
    let sent = canaries.list.iter().map(|canary| async move {
        let message = Message::canary(canary.route.clone(), &canary.id);
        let place = format!("{} {}", message.exchange, message.routing_key);
        let reason = match timeout_at(deadline.into(), outlet.publish(&place, message)).await {
            Ok(answer) => answer.err()?.to_string(),
            Err(_elapsed) => "it was not confirmed".to_owned(),
        };
        Some((canary.id.clone(), reason))
    });
    join_all(sent).await.into_iter().flatten().collect()
}

/// When each canary came back, until all did or the time is up.
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

/// What else comes due meanwhile with the same routing key has no such header.
fn id(delivery: &Delivery) -> Option<String> {
    headers::canary_id(delivery.properties.headers().as_ref()?)
}
