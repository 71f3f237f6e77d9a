//! Asking whether something exists, with no right to read the management API: a passive declare.

use std::{collections::BTreeSet, io, time::Duration};

use lapin::{
    Channel, ConnectionStatus, ErrorKind, ExchangeKind,
    options::{BasicGetOptions, ExchangeDeclareOptions, QueueDeclareOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};

use tokio::time::timeout;

use super::{Link, connect::answered, consume::ConsumeError};
use crate::{
    plan::generation::name_of,
    topology::{Topology, level_routes::LevelRoutes},
};

/// Whether `queue` exists.
///
/// Permission needed: none up to RabbitMQ 4.0, configure on 4.3.0, any on the queue from 4.3.1.
///
/// # Errors
/// The broker refuses to say, or the connection is gone.
pub async fn queue_exists(link: &Link, queue: &str) -> Result<bool, ConsumeError> {
    ready(link, queue).await.map(|ready| ready.is_some())
}

/// Messages that are ready in `queue` at this moment, not by statistics, and 0 for a quorum queue that does not answer; `None`
/// if there exists no such queue. Unacked ones and those on their way to the dead letter exchange are not among them.
///
/// Permission needed: as for [`queue_exists`].
///
/// # Errors
/// The broker refuses to say, or the connection is gone.
pub(crate) async fn ready(link: &Link, queue: &str) -> Result<Option<u64>, ConsumeError> {
    declared(link, queue).await.map(|queue| queue.map(|it| u64::from(it.message_count())))
}

/// Consumers of `queue` at this moment; `None` if there exists no such queue.
///
/// Permission needed: as for [`queue_exists`].
///
/// # Errors
/// The broker refuses to say, or the connection is gone.
pub(crate) async fn consumers(link: &Link, queue: &str) -> Result<Option<u32>, ConsumeError> {
    declared(link, queue).await.map(|queue| queue.map(|it| it.consumer_count()))
}

/// Whether `queue` is empty, by the queue itself: a passive declare takes a quorum queue that does not answer within 250 ms for an
/// empty one (`rabbit_quorum_queue:stat/1`). Otherwise how many messages are ready.
///
/// Permission needed: read on the queue.
///
/// # Errors
/// The queue does not answer, reading is not permitted, or the connection is gone.
pub(crate) async fn surely_ready(link: &Link, queue: &str) -> Result<u64, ConsumeError> {
    let _hurry = link.gathering().hurry();
    let step = |source| ConsumeError::failed(queue, "ask whether it is empty", source);
    let channel = link.channel().await.map_err(step)?;
    let asking = link.answered(channel.basic_get(queue.into(), BasicGetOptions::default()));
    let got = timeout(QUEUE_ANSWERS_WITHIN, asking).await.unwrap_or_else(|_| {
        let silent =
            "the queue does not answer: it has no leader, or is overloaded (`overdue doctor`)";
        Err(io::Error::new(io::ErrorKind::TimedOut, silent).into())
    });
    let ready = got.map_err(step)?.map_or(0, |got| u64::from(got.message_count) + 1);
    // What it has got goes back with the channel.
    link.answered(channel.close(200, "".into())).await.map_err(step)?;
    Ok(ready)
}

async fn declared(link: &Link, queue: &str) -> Result<Option<lapin::Queue>, ConsumeError> {
    Questions::new(link).queue(queue).await
}

/// What the broker says of `queue` on a channel, behind everything that it had sent there before.
pub(super) async fn declared_on(
    channel: &Channel,
    connection: &ConnectionStatus,
    queue: &str,
) -> Result<Option<lapin::Queue>, ConsumeError> {
    let options =
        QueueDeclareOptions { passive: true, durable: true, ..QueueDeclareOptions::default() };
    let asking = channel.queue_declare(queue.into(), options, FieldTable::default());
    answer(queue, answered(connection, asking).await)
}

/// Asks one queue after the other over one channel. The broker closes it for a queue that is not there.
pub(crate) struct Questions<'a> {
    link: &'a Link,
    channel: Option<Channel>,
}

impl<'a> Questions<'a> {
    pub(crate) const fn new(link: &'a Link) -> Self {
        Self { link, channel: None }
    }

    /// How many messages are ready in `queue` and who consumes them, by the queue itself; `None` if there exists no such queue.
    ///
    /// # Errors
    /// As for [`queue_exists`].
    pub(crate) async fn queue(
        &mut self,
        queue: &str,
    ) -> Result<Option<lapin::Queue>, ConsumeError> {
        let _hurry = self.link.gathering().hurry();
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => self.link.channel().await.map_err(|source| failed(queue, source))?,
        };
        let found = declared_on(&channel, &self.link.status(), queue).await?;
        self.channel = found.is_some().then_some(channel);
        Ok(found)
    }
}

/// For the leader of a queue; an election takes a second or two. RabbitMQ itself ends the connection after 65 s.
const QUEUE_ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Generations asked for one by one.
const PROBED: u32 = 9;

/// The generations of the queue `base` that exist, as far as [`PROBED`].
///
/// # Errors
/// As for [`queue_exists`].
pub(crate) async fn generations(link: &Link, base: &str) -> Result<BTreeSet<String>, ConsumeError> {
    let mut found = BTreeSet::new();
    for name in (1..=PROBED).map(|number| name_of(base, number)) {
        if queue_exists(link, &name).await? {
            found.insert(name);
        }
    }
    Ok(found)
}

/// Whether one of these exists; no question after the first that does.
///
/// # Errors
/// As for [`queue_exists`].
pub(crate) async fn any_generation_exists(link: &Link, base: &str) -> Result<bool, ConsumeError> {
    for name in (1..=PROBED).map(|number| name_of(base, number)) {
        if queue_exists(link, &name).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `exchange` exists.
///
/// # Errors
/// The broker refuses to say, or the connection is gone.
pub async fn exchange_exists(link: &Link, exchange: &str) -> Result<bool, ConsumeError> {
    let options = ExchangeDeclareOptions {
        passive: true,
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let _hurry = link.gathering().hurry();
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

/// Which levels the broker routes to, without the management API: a level is there if a queue of it exists, in any
/// generation. Whether that queue is bound cannot be asked; one that was taken out of use and drains is taken for a level.
///
/// `None` if the broker does not say: from 4.3.1 a user needs a right on the queues. Each level that is not there is
/// some lines in its log.
pub(crate) async fn probed_level_routes(link: &Link, topology: &Topology) -> Option<LevelRoutes> {
    let mut missing = Vec::new();
    for (level, queue) in topology.delay_queues() {
        if !any_generation_exists(link, &queue).await.ok()? {
            missing.push(level);
        }
    }
    Some(LevelRoutes::without(topology, &missing))
}
