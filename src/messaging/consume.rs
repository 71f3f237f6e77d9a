//! Consuming from one queue: one channel, one subscription, and the only place that settles.

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
    gathering::Gathering,
    large_bodies::{CONSUMER_TAG, HISTORY_TAG, LARGE_TAG},
    passive::{self, Counts},
};
use crate::wire::{PERSISTENT, Properties, Received};

/// An ack or nack is one frame; longer means that the connection no longer takes any.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Where fewer may be unsettled, the next delivery comes behind an ack, and nothing else with it.
const FEW: u16 = 64;

/// Why a subscription ended.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum ConsumeError {
    /// The broker refused, or the channel or connection is gone.
    #[error("`{queue}`: failed to {step}")]
    Channel { queue: String, step: &'static str, source: lapin::Error },
    /// A right is missing.
    #[error(
        "`{queue}`: failed to {step}: {reason}; `overdue permissions` prints the rights of each user"
    )]
    Refused { queue: String, step: &'static str, reason: String },
    /// The broker cancelled the consumer: the queue was deleted, or a delivery was held for too long.
    #[error(
        "the broker cancelled the consumer of queue `{queue}` (queue deleted, or consumer time-out)"
    )]
    Cancelled { queue: String },
    /// The channel or the connection ended while nothing was asked of it.
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

/// A consumer on a channel of its own.
pub struct Subscription {
    queue: String,
    connection: ConnectionStatus,
    channel: Channel,
    consumer: Consumer,
    prefetch: u16,
    gathering: Gathering,
    words: Words,
}

/// What one message says like the one before it, in memory once.
#[derive(Default)]
struct Words {
    exchange: Option<Arc<str>>,
    routing_key: Option<Arc<str>>,
    content_type: Option<Arc<str>>,
}

impl Subscription {
    /// Subscribes to `queue` with at most `prefetch` unsettled deliveries (quorum queues cap it at 2,000). Bodies that
    /// are too large for a due notice are left out, and so are the headers of dead-lettering.
    ///
    /// Permission needed: read on the queue.
    ///
    /// # Errors
    /// The queue does not exist, reading it is not permitted, or the connection is gone.
    pub async fn open(link: &Link, queue: &str, prefetch: u16) -> Result<Self, ConsumeError> {
        Self::with_tag(link, queue, prefetch, CONSUMER_TAG).await
    }

    /// Like [`Subscription::open`], with the headers of dead-lettering.
    pub(crate) async fn open_with_history(
        link: &Link,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, ConsumeError> {
        Self::with_tag(link, queue, prefetch, HISTORY_TAG).await
    }

    /// Like [`Subscription::open_with_history`], with bodies up to [`super::large_bodies::MAX_PASSED_BYTES`].
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
        let _hurry = link.gathering().hurry();
        let channel = link.channel().await.map_err(failed("open a channel"))?;
        // Per consumer, not per channel: `global` is deprecated and quorum queues refuse it.
        let qos = channel.basic_qos(prefetch, BasicQosOptions { global: false });
        link.answered(qos).await.map_err(failed("set the prefetch"))?;
        let options = BasicConsumeOptions::default();
        let consuming =
            channel.basic_consume(queue.into(), tag.into(), options, FieldTable::default());
        let consumer = link.answered(consuming).await.map_err(failed("subscribe"))?;
        let (queue, gathering) = (queue.to_owned(), link.gathering().clone());
        let (connection, words) = (link.status(), Words::default());
        Ok(Self { queue, connection, channel, consumer, prefetch, gathering, words })
    }

    /// The next delivery; waits until there is one.
    ///
    /// # Errors
    /// The subscription ended; everything unsettled goes back to the queue by itself.
    pub async fn next(&mut self) -> Result<Received, ConsumeError> {
        match self.consumer.next().await {
            Some(Ok(delivery)) => Ok(self.words.received(delivery)),
            Some(Err(source)) => Err(ConsumeError::failed(&self.queue, "receive", source)),
            // A cancelled consumer ends without a word.
            None => Err(ConsumeError::Cancelled { queue: self.queue.clone() }),
        }
    }

    /// Whether the queue says, on the channel of its deliveries, that nothing is ready in it.
    pub(crate) async fn is_empty(&self) -> Result<bool, ConsumeError> {
        self.counts().await.map(|counts| counts.is_some_and(|counts| counts.ready == 0))
    }

    /// What the queue says there.
    pub(crate) fn counts(&self) -> BoxFuture<'static, Result<Option<Counts>, ConsumeError>> {
        let ((queue, channel, connection), hurry) = (self.parts(), self.gathering.hurry());
        async move {
            let _hurry = hurry;
            passive::declared_on(&channel, &connection, &queue).await
        }
        .boxed()
    }

    /// Whether the channel still stands. Who does not wait for deliveries hears of its end no other way.
    pub(crate) fn check(&self) -> Result<(), ConsumeError> {
        if self.connection.connected() && self.channel.status().connected() {
            return Ok(());
        }
        Err(ConsumeError::Ended { queue: self.queue.clone() })
    }

    /// Hands acks to the connection, in this order and before it returns; `multiple` is for every unsettled delivery up to
    /// and including the tag. If the channel is gone, the deliveries come again: whoever receives on it hears of that.
    pub(crate) fn send_acks(&self, acks: impl IntoIterator<Item = (u64, bool)>) {
        if self.prefetch < FEW {
            self.gathering.hurry_once();
        }
        for (tag, multiple) in acks {
            hand_over(self.channel.basic_ack(tag, BasicAckOptions { multiple }));
        }
    }

    /// Acks one delivery.
    ///
    /// # Errors
    /// The channel is gone; the delivery comes again.
    pub async fn ack(&self, tag: u64) -> Result<(), ConsumeError> {
        let options = BasicAckOptions { multiple: false };
        self.settled("ack", self.channel.basic_ack(tag, options)).await
    }

    /// Acks every delivery that is unsettled, up to and including `tag`.
    ///
    /// # Errors
    /// The channel is gone; the deliveries come again.
    pub async fn ack_through(&self, tag: u64) -> Result<(), ConsumeError> {
        let options = BasicAckOptions { multiple: true };
        self.settled("ack", self.channel.basic_ack(tag, options)).await
    }

    /// Gives one delivery up: the broker dead-letters it, untouched, to the parking lot. As with [`Subscription::send_acks`].
    pub(crate) fn dead_letter(&self, tag: u64) {
        hand_over(self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }));
    }

    /// Gives one delivery back to its queue. Before RabbitMQ 4.3 that counts towards the delivery limit. As with
    /// [`Subscription::send_acks`].
    pub(crate) fn give_back(&self, tag: u64) {
        let options = BasicNackOptions { requeue: true, multiple: false };
        hand_over(self.channel.basic_nack(tag, options));
    }

    /// Stops deliveries and keeps what is unsettled; gives what was delivered and not taken yet, once the broker has answered.
    /// If it fails, the channel is gone and everything goes back.
    pub(crate) fn cancel(&self) -> BoxFuture<'static, Result<Vec<Received>, ConsumeError>> {
        let (queue, channel, connection) = self.parts();
        let (mut consumer, hurry) = (self.consumer.clone(), self.gathering.hurry());
        let taken = async move {
            let _hurry = hurry;
            channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
            let (mut rest, mut words) = (Vec::new(), Words::default());
            // A cancelled consumer ends after what it has.
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

    /// Closes the channel: what is unsettled goes back to the front of its queue, as when a connection is lost.
    /// If it fails, they do so all the same.
    pub(crate) async fn close(self) -> Result<(), ConsumeError> {
        let _hurry = self.gathering.hurry();
        self.settled("close", self.channel.close(200, "done".into())).await
    }

    /// Stops deliveries and gives back everything unsettled.
    ///
    /// # Errors
    /// The channel is gone; then everything goes back by itself.
    pub async fn give_back_all(&self) -> Result<(), ConsumeError> {
        let _hurry = self.gathering.hurry();
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

/// Polled once, it has put its frame behind the others; what it would wait for then is that the connection has written it.
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
