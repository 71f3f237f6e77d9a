//! Reading the parking lot without taking anything out of it.
//!
//! What was read and not acked goes back when its channel closes; it is not written to the queue's log again, as a
//! `basic.nack` would have it without a delivery limit
//! (<https://www.rabbitmq.com/docs/quorum-queues#repeated-requeues>). Its place may change: nobody consumes the parking lot.
//! Each reading is one more in `x-delivery-count`; the parking lot has no delivery limit, and is not read while a policy
//! gives it one.

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

/// Messages that one channel holds; then the next one is opened. A body has at most 64 KiB here, so that what has arrived
/// and is not read yet takes at most 64 MiB.
const PER_CHANNEL: u16 = 1_000;
/// Longer than the broker takes for a message that is ready, as a rule; then it is asked whether there is one.
const QUIET: Duration = Duration::from_secs(1);
/// How often in a row it has to say that there is none, and nothing comes. Its channel passes a question on to the queue,
/// and answers before it looks at the deliveries that the queue has sent it meanwhile: they come before the next answer.
const ANSWERS: u8 = 2;

/// Whoever has read before, or reads now for somebody who looks at a page, has given everything back by then as a rule.
const GIVEN_BACK: Duration = Duration::from_secs(2);
/// How often is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where a message is: its channel, and its tag there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    channel: usize,
    tag: u64,
}

/// One reading of a parking lot: what was in it when the reading began.
pub(crate) struct ParkingLot<'a> {
    link: &'a Link,
    queue: String,
    channels: Vec<Subscription>,
    /// What the last channel has brought and nobody has taken.
    rest: VecDeque<(usize, Received)>,
    /// Unsettled messages of the last channel.
    held: u16,
    left: u64,
    /// Answers that nothing is ready, since the last message.
    answers: u8,
    /// Messages that were ready, and that somebody else holds or has taken out.
    pub(crate) missed: u64,
    /// Whether somebody else may have held some when it began: nobody knows how many.
    pub(crate) is_shared: bool,
}

impl<'a> ParkingLot<'a> {
    /// Begins a reading of `queue`; `None` where there is no such queue.
    ///
    /// Permission needed: read on the queue.
    pub(crate) async fn open(link: &'a Link, queue: &str) -> Result<Option<Self>, ConsumeError> {
        let (mut questions, until) = (passive::Questions::new(link), Instant::now() + GIVEN_BACK);
        let mut before = None;
        let (counts, is_shared) = loop {
            let Some(counts) = questions.counts(queue).await? else { return Ok(None) };
            // A reader that goes from one channel to the next, or gives back what it holds, has no consumer.
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

    /// The next message; `None` when all have been read, or when somebody else holds the rest.
    /// If it fails, the subscription has ended and everything goes back.
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

    /// Whether the next message needs another channel, unless something is acked before: the broker may forget acks of a
    /// channel that does not consume any more.
    pub(crate) const fn is_full(&self) -> bool {
        self.held >= PER_CHANNEL
    }

    /// The channel before it brings nothing more, and keeps what it holds.
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

    /// Takes a message out of the parking lot. If it fails, the channel is gone and the message goes back.
    pub(crate) async fn ack(&mut self, place: Place) -> Result<(), ConsumeError> {
        if place.channel + 1 == self.channels.len() {
            self.held = self.held.saturating_sub(1);
        }
        match self.channels.get(place.channel) {
            Some(channel) => channel.ack(place.tag).await,
            None => Ok(()),
        }
    }

    /// Ends the reading: what was not acked goes back.
    pub(crate) async fn close(mut self) -> Result<(), ConsumeError> {
        if let Some(last) = self.channels.last_mut() {
            // A quorum queue that is busy keeps acks back, and loses them when the channel closes. A cancel carries them out:
            // https://github.com/rabbitmq/rabbitmq-server/blob/main/deps/rabbit/src/rabbit_fifo_client.erl
            last.cancel().await?;
        }
        for channel in self.channels {
            channel.close().await?;
        }
        Ok(())
    }
}
