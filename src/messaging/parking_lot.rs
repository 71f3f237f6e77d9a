//! Reads the parking lot without removing messages.
//!
//! The broker requeues unacked messages when a channel closes. Unlike `basic.nack` without a delivery limit, that does not
//! write them to the queue's log again (<https://www.rabbitmq.com/docs/quorum-queues#repeated-requeues>). Their order may
//! change; the parking lot has no consumers. Each reading increments `x-delivery-count`. The parking lot has no delivery
//! limit, and is not read while a policy sets one.

use std::{
    collections::VecDeque,
    mem,
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};

use super::{
    Link,
    consume::{ConsumeError, Subscription},
    passive,
};
use crate::wire::Received;

/// Unacked messages per channel, before the next channel is opened. A body has at most 64 KiB here, so unread messages take
/// at most 64 MiB.
const PER_CHANNEL: u16 = 1_000;
/// Usually longer than the broker needs to deliver a ready message; after this time the queue is asked for its count.
const QUIET: Duration = Duration::from_secs(1);
/// The number of consecutive answers without ready messages that end the reading. The broker's channel forwards a request to
/// the queue, and answers before it handles deliveries that the queue has sent meanwhile. They come before the next answer.
const ANSWERS: u8 = 2;

/// An earlier reader, or a page that is being shown, has usually requeued all messages within this time.
const GIVEN_BACK: Duration = Duration::from_secs(2);
/// The interval of checks for other readers.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A message's channel, and its tag on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    channel: usize,
    tag: u64,
}

/// A reading of a parking lot: the messages in it when the reading began.
pub(crate) struct ParkingLot<'a> {
    link: &'a Link,
    queue: String,
    channels: Vec<Subscription>,
    /// Messages that were delivered on the last channel and not returned by `next` yet.
    rest: VecDeque<(usize, Received)>,
    /// Unsettled messages of the last channel.
    held: u16,
    left: u64,
    /// Answers without ready messages since the last message.
    answers: u8,
    /// Ready messages that another reader holds unacked or has removed.
    pub(crate) missed: u64,
    /// Whether another reader may have held messages when the reading began; their number is unknown.
    pub(crate) is_shared: bool,
}

impl<'a> ParkingLot<'a> {
    /// Begins to read `queue`; `None` if the queue does not exist.
    ///
    /// Permission needed: read on the queue.
    pub(crate) async fn open(link: &'a Link, queue: &str) -> Result<Option<Self>, ConsumeError> {
        let (mut questions, until) = (passive::Questions::new(link), Instant::now() + GIVEN_BACK);
        let mut before = None;
        let (counts, is_shared) = loop {
            let Some(counts) = questions.counts(queue).await? else { return Ok(None) };
            // A reader that changes channels, or is requeueing its messages, has no consumer.
            let is_settled = counts.consumers == 0 && before.is_none_or(|before| before == counts);
            if is_settled || Instant::now() >= until {
                break (counts, !is_settled);
            }
            before = Some(counts);
            sleep(LOOK_EVERY).await;
        };
        let ready = match counts.ready {
            0 => passive::surely_ready(link, queue).await?,
            ready => ready,
        };
        Ok(Some(Self {
            link,
            queue: queue.to_owned(),
            channels: Vec::new(),
            rest: VecDeque::new(),
            held: 0,
            left: ready,
            answers: 0,
            missed: 0,
            is_shared,
        }))
    }

    /// The next message; `None` after all messages, or if another reader has the remaining messages. On an error the
    /// subscription has ended, and the broker requeues all.
    pub(crate) async fn next(&mut self) -> Result<Option<(Place, Received)>, ConsumeError> {
        while self.left > 0 {
            if let Some((channel, received)) = self.rest.pop_front() {
                self.left -= 1;
                return Ok(Some((Place { channel, tag: received.tag }, received)));
            }
            if self.channels.is_empty() || self.is_full() {
                self.next_channel().await?;
                continue;
            }
            let channel = self.channels.len() - 1;
            let Some(subscription) = self.channels.last_mut() else { continue };
            match timeout(QUIET, subscription.next()).await {
                Ok(received) => {
                    self.rest.push_back((channel, received?));
                    self.held = self.held.saturating_add(1);
                    self.answers = 0;
                }
                Err(_quiet) if self.answers == ANSWERS => {
                    if passive::surely_ready(self.link, &self.queue).await? == 0 {
                        self.missed = mem::take(&mut self.left);
                    }
                    self.answers = 0;
                }
                Err(_quiet) if subscription.is_empty().await? => self.answers += 1,
                Err(_quiet) => self.answers = 0,
            }
        }
        Ok(None)
    }

    /// Whether the next message needs another channel, unless a message is acked first: the broker may lose acks on a channel
    /// that no longer consumes.
    pub(crate) const fn is_full(&self) -> bool {
        self.held >= PER_CHANNEL
    }

    /// The previous channel gets no more deliveries, and keeps its messages unacked.
    async fn next_channel(&mut self) -> Result<(), ConsumeError> {
        let channel = self.channels.len().saturating_sub(1);
        if let Some(last) = self.channels.last_mut() {
            let rest = last.cancel().await?;
            self.rest.extend(rest.into_iter().map(|received| (channel, received)));
        }
        self.channels
            .push(Subscription::open_with_history(self.link, &self.queue, PER_CHANNEL).await?);
        self.held = 0;
        Ok(())
    }

    /// Removes a message from the parking lot. On an error the channel is closed, and the broker requeues the message.
    pub(crate) async fn ack(&mut self, place: Place) -> Result<(), ConsumeError> {
        if place.channel + 1 == self.channels.len() {
            self.held = self.held.saturating_sub(1);
        }
        match self.channels.get(place.channel) {
            Some(channel) => channel.ack(place.tag).await,
            None => Ok(()),
        }
    }

    /// Ends the reading; the broker requeues all messages that were not acked.
    pub(crate) async fn close(mut self) -> Result<(), ConsumeError> {
        if let Some(last) = self.channels.last_mut() {
            // A busy quorum queue delays acks, and loses them when the channel closes. A cancel flushes them:
            // https://github.com/rabbitmq/rabbitmq-server/blob/main/deps/rabbit/src/rabbit_fifo_client.erl
            last.cancel().await?;
        }
        for channel in self.channels {
            channel.close().await?;
        }
        Ok(())
    }
}
