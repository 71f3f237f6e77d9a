//! Consumes from a queue: a channel with a subscription, and the only place that settles deliveries.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use lapin::{
    BasicProperties, Channel, ConnectionStatus, Consumer, ErrorKind,
    message::Delivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
        BasicQosOptions, BasicRejectOptions,
    },
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};
use tokio::time::timeout;

use super::{
    Link,
    connect::answered,
    large_bodies::{CONSUMER_TAG, HISTORY_TAG, LARGE_TAG},
    passive::{self, Counts},
    read_coalescer::ReadCoalescer,
};
use crate::wire::{PERSISTENT, Properties, Received};

/// An ack or nack is one frame; after this time the connection is stuck.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Below this prefetch count, the broker sends a delivery only after an ack, and no other delivery with it.
const FEW: u16 = 64;

/// The reason why a subscription ended.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum ConsumeError {
    /// The broker refused, or the channel or connection is closed.
    #[error("`{queue}`: failed to {step}")]
    Channel { queue: String, step: &'static str, source: lapin::Error },
    /// A right is missing.
    #[error(
        "`{queue}`: failed to {step}: {reason}; `overdue permissions` prints the rights of each user"
    )]
    Refused { queue: String, step: &'static str, reason: String },
    /// The broker cancelled the consumer: the queue was deleted, or a delivery was unacked for too long.
    #[error(
        "the broker cancelled the consumer of queue `{queue}` (queue deleted, or consumer time-out)"
    )]
    Cancelled { queue: String },
    /// The channel or the connection closed while no request was pending.
    #[error("the channel of queue `{queue}` has ended")]
    Ended { queue: String },
    /// The connection no longer takes frames.
    #[error("queue `{queue}`: the connection took no {step} within {} s", SETTLE_TIMEOUT.as_secs())]
    Stuck { queue: String, step: &'static str },
}

impl ConsumeError {
    pub(crate) fn failed(queue: &str, step: &'static str, source: lapin::Error) -> Self {
        let queue = queue.to_owned();
        match source.kind() {
            ErrorKind::ProtocolError(error)
                if *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) =>
            {
                Self::Refused { queue, step, reason: error.get_message().to_string() }
            }
            _ => Self::Channel { queue, step, source },
        }
    }
}

/// A consumer on its own channel.
pub struct Subscription {
    queue: String,
    connection: ConnectionStatus,
    channel: Channel,
    consumer: Consumer,
    prefetch: u16,
    coalescer: ReadCoalescer,
    words: Words,
}

/// Texts that consecutive messages share, to keep them in memory once.
#[derive(Default)]
struct Words {
    exchange: Option<Arc<str>>,
    routing_key: Option<Arc<str>>,
    content_type: Option<Arc<str>>,
}

impl Subscription {
    /// Subscribes to `queue` with at most `prefetch` unsettled deliveries (quorum queues cap it at 2,000). Drops bodies that
    /// are too large for a due notice, and the headers of dead-lettering.
    ///
    /// Permission needed: read on the queue.
    ///
    /// # Errors
    /// The queue does not exist, reading it is not permitted, or the connection is lost.
    pub async fn open(link: &Link, queue: &str, prefetch: u16) -> Result<Self, ConsumeError> {
        Self::with_tag(link, queue, prefetch, CONSUMER_TAG).await
    }

    /// Subscribes like [`Subscription::open`], and keeps the headers of dead-lettering.
    pub(crate) async fn open_with_history(
        link: &Link,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, ConsumeError> {
        Self::with_tag(link, queue, prefetch, HISTORY_TAG).await
    }

    /// Subscribes like [`Subscription::open_with_history`], and keeps bodies up to [`super::large_bodies::MAX_PASSED_BYTES`].
    pub(crate) async fn open_large(
        link: &Link,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, ConsumeError> {
        Self::with_tag(link, queue, prefetch, LARGE_TAG).await
    }

    async fn with_tag(
        link: &Link,
        queue: &str,
        prefetch: u16,
        tag: &str,
    ) -> Result<Self, ConsumeError> {
        let failed = |step| move |source| ConsumeError::failed(queue, step, source);
        let _low_latency = link.coalescer().low_latency();
        let channel = link.channel().await.map_err(failed("open a channel"))?;
        // The limit is per consumer: `global` is deprecated, and quorum queues refuse it.
        let qos = channel.basic_qos(prefetch, BasicQosOptions { global: false });
        link.answered(qos).await.map_err(failed("set the prefetch"))?;
        let options = BasicConsumeOptions::default();
        let consuming =
            channel.basic_consume(queue.into(), tag.into(), options, FieldTable::default());
        let consumer = link.answered(consuming).await.map_err(failed("subscribe"))?;
        let (queue, coalescer) = (queue.to_owned(), link.coalescer().clone());
        let (connection, words) = (link.status(), Words::default());
        Ok(Self { queue, connection, channel, consumer, prefetch, coalescer, words })
    }

    /// Waits for the next delivery.
    ///
    /// # Errors
    /// The subscription ended; the broker requeues all unsettled messages.
    pub async fn next(&mut self) -> Result<Received, ConsumeError> {
        match self.consumer.next().await {
            Some(Ok(delivery)) => Ok(self.words.received(delivery)),
            Some(Err(source)) => Err(ConsumeError::failed(&self.queue, "receive", source)),
            // A cancelled consumer ends without an error.
            None => Err(ConsumeError::Cancelled { queue: self.queue.clone() }),
        }
    }

    /// Whether the queue reports no ready messages, asked on the channel of its deliveries.
    pub(crate) async fn is_empty(&self) -> Result<bool, ConsumeError> {
        self.counts().await.map(|counts| counts.is_some_and(|counts| counts.ready == 0))
    }

    /// The counts of the queue, asked on the channel of its deliveries.
    pub(crate) fn counts(&self) -> BoxFuture<'static, Result<Option<Counts>, ConsumeError>> {
        let ((queue, channel, connection), low_latency) =
            (self.parts(), self.coalescer.low_latency());
        async move {
            let _low_latency = low_latency;
            passive::declared_on(&channel, &connection, &queue).await
        }
        .boxed()
    }

    /// An error if the channel is closed. Code that does not wait for deliveries does not learn it otherwise.
    pub(crate) fn check(&self) -> Result<(), ConsumeError> {
        if self.connection.connected() && self.channel.status().connected() {
            return Ok(());
        }
        Err(ConsumeError::Ended { queue: self.queue.clone() })
    }

    /// Writes acks to the connection's buffer, in this order, before it returns; `multiple` covers every unsettled delivery up
    /// to the tag. If the channel is closed, the broker requeues the deliveries, and the receiver gets the error.
    pub(crate) fn send_acks(&self, acks: impl IntoIterator<Item = (u64, bool)>) {
        if self.prefetch < FEW {
            self.coalescer.read_soon_once();
        }
        for (tag, multiple) in acks {
            hand_over(self.channel.basic_ack(tag, BasicAckOptions { multiple }));
        }
    }

    /// Acks a delivery.
    ///
    /// # Errors
    /// The channel is closed; the broker redelivers the message.
    pub async fn ack(&self, tag: u64) -> Result<(), ConsumeError> {
        let options = BasicAckOptions { multiple: false };
        self.settled("ack", self.channel.basic_ack(tag, options)).await
    }

    /// Acks all unsettled deliveries up to and including `tag`.
    ///
    /// # Errors
    /// The channel is closed; the broker redelivers the messages.
    pub async fn ack_through(&self, tag: u64) -> Result<(), ConsumeError> {
        let options = BasicAckOptions { multiple: true };
        self.settled("ack", self.channel.basic_ack(tag, options)).await
    }

    /// Rejects a delivery: the broker dead-letters it, unchanged, to the parking lot. Errors as in
    /// [`Subscription::send_acks`].
    pub(crate) fn dead_letter(&self, tag: u64) {
        hand_over(self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }));
    }

    /// Requeues a delivery. Before RabbitMQ 4.3 that counts towards the delivery limit. Errors as in
    /// [`Subscription::send_acks`].
    pub(crate) fn give_back(&self, tag: u64) {
        let options = BasicNackOptions { requeue: true, multiple: false };
        hand_over(self.channel.basic_nack(tag, options));
    }

    /// Stops deliveries, and keeps unsettled deliveries unacked. After the broker's answer, returns the deliveries that were
    /// not received yet. On an error the channel is closed, and the broker requeues all.
    pub(crate) fn cancel(&self) -> BoxFuture<'static, Result<Vec<Received>, ConsumeError>> {
        let (queue, channel, connection) = self.parts();
        let (mut consumer, low_latency) = (self.consumer.clone(), self.coalescer.low_latency());
        let taken = async move {
            let _low_latency = low_latency;
            channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
            let (mut rest, mut words) = (Vec::new(), Words::default());
            // A cancelled consumer ends after its buffered deliveries.
            while let Some(delivery) = consumer.next().await {
                rest.push(words.received(delivery?));
            }
            Ok(rest)
        };
        let failed = move |source| ConsumeError::failed(&queue, "cancel", source);
        async move { answered(&connection, taken).await.map_err(failed) }.boxed()
    }

    fn parts(&self) -> (String, Channel, ConnectionStatus) {
        (self.queue.clone(), self.channel.clone(), self.connection.clone())
    }

    /// Closes the channel: the broker requeues unsettled messages at the front of the queue, as after a lost connection. It
    /// does so on an error, too.
    pub(crate) async fn close(self) -> Result<(), ConsumeError> {
        let _low_latency = self.coalescer.low_latency();
        self.settled("close", self.channel.close(200, "done".into())).await
    }

    /// Stops deliveries and requeues all unsettled messages.
    ///
    /// # Errors
    /// The channel is closed; then the broker requeues all messages anyway.
    pub async fn give_back_all(&self) -> Result<(), ConsumeError> {
        let _low_latency = self.coalescer.low_latency();
        let options = BasicCancelOptions::default();
        self.settled("cancel", self.channel.basic_cancel(self.consumer.tag(), options)).await?;
        // Tag 0 with `multiple` is every unsettled delivery of the channel.
        let options = BasicNackOptions { requeue: true, multiple: true };
        self.settled("nack", self.channel.basic_nack(0, options)).await?;
        self.settled("close", self.channel.close(200, "given back".into())).await
    }

    async fn settled(
        &self,
        step: &'static str,
        settling: impl Future<Output = Result<(), lapin::Error>>,
    ) -> Result<(), ConsumeError> {
        let queue = &self.queue;
        match timeout(SETTLE_TIMEOUT, settling).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(ConsumeError::failed(queue, step, source)),
            Err(_elapsed) => Err(ConsumeError::Stuck { queue: queue.clone(), step }),
        }
    }
}

/// The first poll appends the frame to the buffer; the rest of the future only waits until the connection has written it.
fn hand_over(settling: impl Future<Output = Result<(), lapin::Error>>) {
    drop(settling.now_or_never());
}

impl Words {
    fn received(&mut self, delivery: Delivery) -> Received {
        let properties = &delivery.properties;
        let content_type = properties.content_type().as_ref();
        Received {
            tag: delivery.delivery_tag,
            exchange: shared(&mut self.exchange, delivery.exchange.as_str()),
            routing_key: shared(&mut self.routing_key, delivery.routing_key.as_str()),
            message_id: properties.message_id().as_ref().map(|id| id.as_str().into()),
            persistent: *properties.delivery_mode() == Some(PERSISTENT),
            content_type: content_type.map(|it| shared(&mut self.content_type, it.as_str())),
            headers: properties.headers().clone().unwrap_or_default(),
            properties: passed_on(properties),
            body: delivery.data,
        }
    }
}

fn shared(last: &mut Option<Arc<str>>, text: &str) -> Arc<str> {
    match last {
        Some(last) if **last == *text => Arc::clone(last),
        _ => Arc::clone(last.insert(text.into())),
    }
}

fn passed_on(properties: &BasicProperties) -> Option<Box<Properties>> {
    let passed_on = Properties {
        content_encoding: properties.content_encoding().as_ref().map(ToString::to_string),
        priority: *properties.priority(),
        correlation_id: properties.correlation_id().as_ref().map(ToString::to_string),
        reply_to: properties.reply_to().as_ref().map(ToString::to_string),
        expiration: properties.expiration().as_ref().map(ToString::to_string),
        timestamp_s: *properties.timestamp(),
        kind: properties.kind().as_ref().map(ToString::to_string),
        app_id: properties.app_id().as_ref().map(ToString::to_string),
        user_id: properties.user_id().as_ref().map(ToString::to_string),
    };
    (passed_on != Properties::default()).then(|| Box::new(passed_on))
}
