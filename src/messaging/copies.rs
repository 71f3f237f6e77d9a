//! Copies of published messages: a queue for them beside those that take the originals.

use lapin::{
    Channel,
    options::{QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{
    Link,
    consume::{ConsumeError, Subscription},
};
use crate::{objects::Binding, wire::Received};

/// Unsettled at once.
const PREFETCH: u16 = 100;
/// What nobody takes is dropped, the oldest first: the publisher's confirm does not wait for it.
const MAX_MESSAGES: i64 = 10_000;
const MAX_BYTES: i64 = 64 * 1024 * 1024;
/// The queue goes with the connection; and without a consumer after this time, in milliseconds.
const EXPIRES_MS: i64 = 60_000;

/// Copies of messages, as long as it lives.
pub(crate) struct Copies(Subscription);

/// Declares a queue of this name that only this connection has, and binds it to each exchange by a routing key: so it is gone with the
/// connection, and a message that leads nowhere beside it still leads nowhere, and is parked, or returned.
///
/// Permission needed: configure and write on the queue, read on the exchanges; and read on the queue for whoever gets its messages.
pub(crate) async fn declare<'a>(
    link: &Link,
    queue: &str,
    arguments: FieldTable,
    bindings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Channel, ConsumeError> {
    let failed = |step| move |source| ConsumeError::failed(queue, step, source);
    let channel = link.channel().await.map_err(failed("open a channel"))?;
    let options = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let declaring = channel.queue_declare(queue.into(), options, arguments);
    link.answered(declaring).await.map_err(failed("declare"))?;
    for (exchange, key) in bindings {
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let binding = channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none);
        link.answered(binding).await.map_err(failed("bind"))?;
    }
    Ok(channel)
}

impl Copies {
    /// Of what the source of each of `beside` routes by the same routing key.
    pub(crate) async fn open(
        link: &Link,
        queue: &str,
        beside: impl Iterator<Item = &Binding>,
    ) -> Result<Self, ConsumeError> {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
        for (name, value) in [
            ("x-max-length", MAX_MESSAGES),
            ("x-max-length-bytes", MAX_BYTES),
            ("x-expires", EXPIRES_MS),
        ] {
            arguments.insert(name.into(), AMQPValue::LongLongInt(value));
        }
        let bindings = beside.map(|it| (it.source.as_str(), it.routing_key.as_str()));
        declare(link, queue, arguments, bindings).await?;
        Subscription::open_with_history(link, queue, PREFETCH).await.map(Self)
    }

    /// The next copy; waits until there is one.
    pub(crate) async fn next(&mut self) -> Result<Received, ConsumeError> {
        let received = self.0.next().await?;
        self.0.ack(received.tag).await?;
        Ok(received)
    }
}
