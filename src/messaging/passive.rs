//! Passive declares: they show whether an object exists, without rights for the management API.

use std::{
    io,
    time::{Duration, Instant},
};

use lapin::{
    Channel, ConnectionStatus, ErrorKind, ExchangeKind,
    options::{BasicGetOptions, ExchangeDeclareOptions, QueueDeclareOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};

use tokio::time::timeout;

use super::{Link, connect::answered, consume::ConsumeError};

/// Whether `queue` exists.
///
/// Permission needed: none up to RabbitMQ 4.0, configure on 4.3.0, any on the queue from 4.3.1.
///
/// # Errors
/// The broker refuses the request, or the connection is lost.
pub async fn queue_exists(link: &Link, queue: &str) -> Result<bool, ConsumeError> {
    counts(link, queue).await.map(|counts| counts.is_some())
}

/// Current counts of a queue, not from statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Ready messages, without unacked messages, delayed messages, and dead letters in progress.
    pub(crate) ready: u64,
    pub(crate) consumers: u32,
    /// False if the broker may have answered in place of a silent quorum queue: then both counts are 0. If the queue's process has ended,
    /// the broker answers 0 at once, and this field is true.
    pub(crate) are_its_own: bool,
}

/// The counts of `queue`; `None` if it does not exist.
///
/// Permission needed: as for [`queue_exists`].
pub(crate) async fn counts(link: &Link, queue: &str) -> Result<Option<Counts>, ConsumeError> {
    Questions::new(link).counts(queue).await
}

/// The number of ready messages that the queue itself reports, without delayed messages; 0 if the queue does not answer.
///
/// Permission needed: read on the queue.
pub(crate) async fn surely_ready(link: &Link, queue: &str) -> Result<u64, ConsumeError> {
    let _low_latency = link.coalescer().low_latency();
    let step = |source| ConsumeError::failed(queue, "ask whether it is empty", source);
    let channel = link.channel().await.map_err(step)?;
    let asking = link.answered(channel.basic_get(queue.into(), BasicGetOptions::default()));
    let got = timeout(QUEUE_ANSWERS_WITHIN, asking).await.unwrap_or_else(|_| {
        let silent =
            "the queue does not answer: it has no leader, or is overloaded (`overdue doctor`)";
        Err(io::Error::new(io::ErrorKind::TimedOut, silent).into())
    });
    let ready = got.map_err(step)?.map_or(0, |got| u64::from(got.message_count) + 1);
    // Closing the channel requeues the message.
    link.answered(channel.close(200, "".into())).await.map_err(step)?;
    Ok(ready)
}

/// The counts of `queue`, asked on a channel: the answer follows all messages that the broker has sent there before.
pub(super) async fn declared_on(
    channel: &Channel,
    connection: &ConnectionStatus,
    queue: &str,
) -> Result<Option<Counts>, ConsumeError> {
    let asked = Instant::now();
    let options =
        QueueDeclareOptions { passive: true, durable: true, ..QueueDeclareOptions::default() };
    let asking = channel.queue_declare(queue.into(), options, FieldTable::default());
    let found = answer(queue, answered(connection, asking).await)?;
    Ok(found.map(|queue| Counts {
        ready: queue.message_count().into(),
        consumers: queue.consumer_count(),
        are_its_own: asked.elapsed() < SILENT_FOR,
    }))
}

/// Asks several queues on one channel. The broker closes the channel for a queue that does not exist.
pub(crate) struct Questions<'a> {
    link: &'a Link,
    channel: Option<Channel>,
}

impl<'a> Questions<'a> {
    pub(crate) const fn new(link: &'a Link) -> Self {
        Self { link, channel: None }
    }

    /// Asks like [`counts`], on the same channel as before.
    pub(crate) async fn counts(&mut self, queue: &str) -> Result<Option<Counts>, ConsumeError> {
        let _low_latency = self.link.coalescer().low_latency();
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => self.link.channel().await.map_err(|source| failed(queue, source))?,
        };
        let found = declared_on(&channel, &self.link.status(), queue).await?;
        self.channel = found.is_some().then_some(channel);
        Ok(found)
    }

    /// The result of [`counts`], repeated until the queue itself has answered, because its answer may be slow.
    pub(crate) async fn own_counts(&mut self, queue: &str) -> Result<Option<Counts>, ConsumeError> {
        let mut counts = self.counts(queue).await?;
        for _ in 1..ATTEMPTS {
            if counts.is_none_or(|counts| counts.are_its_own) {
                break;
            }
            counts = self.counts(queue).await?;
        }
        Ok(counts)
    }
}

/// Attempts within two seconds, for a queue that does not answer.
const ATTEMPTS: usize = 8;
/// The time after which RabbitMQ reports a silent quorum queue as empty (`rabbit_quorum_queue:stat/1`).
const SILENT_FOR: Duration = Duration::from_millis(250);
/// The limit for a queue's leader; an election takes a second or two. RabbitMQ itself ends the connection after 65 s.
const QUEUE_ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Whether `exchange` exists.
///
/// # Errors
/// The broker refuses the request, or the connection is lost.
pub async fn exchange_exists(link: &Link, exchange: &str) -> Result<bool, ConsumeError> {
    let options = ExchangeDeclareOptions {
        passive: true,
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let _low_latency = link.coalescer().low_latency();
    let channel = link.channel().await.map_err(|source| failed(exchange, source))?;
    let kind = ExchangeKind::Topic;
    let asking = channel.exchange_declare(exchange.into(), kind, options, FieldTable::default());
    answer(exchange, link.answered(asking).await).map(|there| there.is_some())
}

fn answer<T>(name: &str, asked: Result<T, lapin::Error>) -> Result<Option<T>, ConsumeError> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(failed(name, error)),
    }
}

fn is_not_found(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error)
        if *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}

fn failed(name: &str, source: lapin::Error) -> ConsumeError {
    ConsumeError::failed(name, "ask whether it exists", source)
}
