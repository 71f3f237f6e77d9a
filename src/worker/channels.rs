//! The channels on which one queue is consumed: one receives, those before it only keep what waits.
//!
//! A prefetch count is a channel's, and quorum queues take no more than 2,000. Where most of it waits (for a deadline, a
//! lock, a confirm), another channel is opened, so that what waits never limits what is received.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};

use crate::{
    broker::{
        Link,
        consume::{ConsumeError, Subscription},
    },
    decisions::delivery_tags::{Ack, Tags},
    wire::Received,
};

/// Bounds what one queue's consumer keeps in memory.
const MAX_CHANNELS: usize = 16;
/// What is done is acked together with what is done so soon after it: each ack is a frame and a command in the queue's log.
const ACKED_WITHIN: Duration = Duration::from_millis(50);
/// So many of a channel's prefetch count are acked without waiting for more.
const ACKED_AT_ONCE: u16 = 8;

/// Where a delivery came from, and by which it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    channel: u64,
    tag: u64,
}

struct Channel {
    subscription: Subscription,
    tags: Tags,
    /// Times that acks were handed over which the connection has not taken yet.
    acking: usize,
    prefetch: u16,
    /// Deliveries that wait for something.
    waiting: usize,
}

/// The newest receives.
pub(super) struct Channels {
    link: Arc<Link>,
    queue: String,
    opened: u64,
    receiving: Channel,
    keeping: BTreeMap<u64, Channel>,
    /// When everything that is done is acked.
    ack_at: Option<Instant>,
    /// Acks that the connection has not taken yet, by channel, and the ends of channels that keep nothing any more.
    settling: FuturesUnordered<BoxFuture<'static, (u64, Result<(), ConsumeError>)>>,
}

/// Which bodies a consumer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bodies {
    /// Those of due notices; larger ones are left out.
    Notices,
    /// The same with the history of the message, which is passed on.
    Small,
    /// The same up to [`crate::broker::large_bodies::MAX_PASSED_BYTES`].
    Large,
}

impl Channels {
    /// # Errors
    /// See [`Subscription::open`].
    pub(super) async fn open(
        link: &Arc<Link>,
        queue: &str,
        prefetch: u16,
        bodies: Bodies,
    ) -> Result<Self, ConsumeError> {
        Ok(Self {
            link: Arc::clone(link),
            queue: queue.to_owned(),
            opened: 0,
            receiving: Channel::open(link, queue, prefetch, bodies).await?,
            keeping: BTreeMap::new(),
            ack_at: None,
            settling: FuturesUnordered::new(),
        })
    }

    /// The queue that is consumed.
    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// The next delivery; waits until there is one.
    ///
    /// # Errors
    /// The subscription ended; everything unsettled goes back to the queue by itself.
    pub(super) async fn next(&mut self) -> Result<(Source, Received), ConsumeError> {
        let received = self.receiving.subscription.next().await?;
        Ok((self.received(&received), received))
    }

    /// The next delivery, unless none is to be received, or nothing where acks were taken before.
    ///
    /// # Errors
    /// A channel is gone; what it had comes again.
    pub(super) async fn next_or_acked(
        &mut self,
        receive: bool,
    ) -> Result<Option<(Source, Received)>, ConsumeError> {
        let Self { settling, receiving, .. } = self;
        let received = tokio::select! {
            biased;
            Some((number, settled)) = settling.next() => {
                return self.settled(number, settled).map(|()| None);
            }
            received = receiving.subscription.next(), if receive => received?,
            else => return std::future::pending().await,
        };
        Ok(Some((self.received(&received), received)))
    }

    fn received(&mut self, received: &Received) -> Source {
        self.receiving.tags.receive(received.tag);
        Source { channel: self.opened, tag: received.tag }
    }

    /// Nothing is left to be done with a delivery but the ack.
    pub(super) fn finish(&mut self, source: Source) {
        self.ack_at.get_or_insert_with(|| Instant::now() + ACKED_WITHIN);
        if let Some(channel) = self.channel(source) {
            channel.tags.finish(source.tag);
        }
    }

    /// A delivery waits for something, or no longer does.
    pub(super) fn waits(&mut self, source: Source, waits: bool) {
        if let Some(channel) = self.channel(source) {
            let waiting = channel.waiting;
            channel.waiting = if waits { waiting + 1 } else { waiting.saturating_sub(1) };
        }
    }

    /// Leaves a delivery to the broker, which puts it into the parking lot as it is.
    pub(super) async fn dead_letter(&mut self, source: Source) -> Result<(), ConsumeError> {
        if let Some(channel) = self.channel(source)
            && channel.tags.forget(source.tag)
        {
            channel.subscription.dead_letter(source.tag).await?;
        }
        Ok(())
    }

    /// Puts a delivery back into its queue.
    pub(super) async fn give_back(&mut self, source: Source) -> Result<(), ConsumeError> {
        if let Some(channel) = self.channel(source)
            && channel.tags.forget(source.tag)
        {
            channel.subscription.give_back(source.tag).await?;
        }
        Ok(())
    }

    /// When [`Channels::begin_acks`] has something to do at the latest.
    pub(super) const fn ack_at(&self) -> Option<Instant> {
        self.ack_at
    }

    /// Hands acks to the connection for what has been done for some time, or is much, and closes channels that keep nothing
    /// any more. Waits for neither: what is due meanwhile is not to be late.
    pub(super) fn begin_acks(&mut self) {
        let all = self.ack_at.is_some_and(|at| at <= Instant::now());
        self.hand_over_acks(all);
    }

    fn hand_over_acks(&mut self, all: bool) {
        if all {
            self.ack_at = None;
        }
        if let Some(acks) = self.receiving.begin_acks(all) {
            self.settling.push(with_channel(self.opened, acks));
        }
        for (number, channel) in &mut self.keeping {
            if let Some(acks) = channel.begin_acks(all) {
                self.settling.push(with_channel(*number, acks));
            }
        }
        for (number, done) in self.keeping.extract_if(.., |_, channel| channel.is_done()) {
            self.settling.push(with_channel(number, Box::pin(done.subscription.close())));
        }
    }

    fn settled(
        &mut self,
        number: u64,
        settled: Result<(), ConsumeError>,
    ) -> Result<(), ConsumeError> {
        if number == self.opened {
            self.receiving.acking -= 1;
        } else if let Some(channel) = self.keeping.get_mut(&number) {
            channel.acking -= 1;
        }
        settled
    }

    /// Acks what is done, and waits until the connection has taken it.
    ///
    /// # Errors
    /// A channel is gone; what it had comes again.
    pub(super) async fn send_acks(&mut self) -> Result<(), ConsumeError> {
        self.hand_over_acks(true);
        while let Some((number, settled)) = self.settling.next().await {
            self.settled(number, settled)?;
        }
        Ok(())
    }

    /// # Errors
    /// One of them has ended; what it kept is back in the queue.
    pub(super) fn check(&self) -> Result<(), ConsumeError> {
        self.receiving.subscription.check()?;
        self.keeping.values().try_for_each(|channel| channel.subscription.check())
    }

    /// Whether so much of the prefetch count waits that little is left to receive with.
    pub(super) fn is_short(&self) -> bool {
        self.receiving.waiting >= (usize::from(self.receiving.prefetch) * 3).div_ceil(4)
    }

    /// Whether what waits may become more.
    pub(super) fn may_wait(&self) -> bool {
        self.keeping.len() + 1 < MAX_CHANNELS || !self.is_short()
    }

    pub(super) fn may_replace(&self) -> bool {
        self.keeping.len() + 1 < MAX_CHANNELS
    }

    /// Goes on receiving on another channel; what the old one has prefetched and nobody has seen yet.
    pub(super) async fn replace(
        &mut self,
        prefetch: u16,
        bodies: Bodies,
    ) -> Result<Vec<(Source, Received)>, ConsumeError> {
        // What may end the worker comes next, and what is done is not to count as delivered to it.
        self.hand_over_acks(true);
        let next = Channel::open(&self.link, &self.queue, prefetch, bodies).await?;
        let rest = self.receiving.subscription.cancel().await?;
        let rest = rest.into_iter().map(|received| (self.received(&received), received)).collect();
        let old = std::mem::replace(&mut self.receiving, next);
        self.keeping.insert(self.opened, old);
        self.opened += 1;
        Ok(rest)
    }

    /// Stops deliveries and gives back everything unsettled.
    pub(super) async fn give_back_all(mut self) -> Result<(), ConsumeError> {
        // Before that: what is done does not come again.
        self.hand_over_acks(true);
        let mut result = self.receiving.subscription.give_back_all().await;
        for channel in self.keeping.into_values() {
            result = result.and(channel.subscription.give_back_all().await);
        }
        result
    }

    fn channel(&mut self, source: Source) -> Option<&mut Channel> {
        if source.channel == self.opened {
            return Some(&mut self.receiving);
        }
        self.keeping.get_mut(&source.channel)
    }
}

impl Channel {
    async fn open(
        link: &Link,
        queue: &str,
        prefetch: u16,
        bodies: Bodies,
    ) -> Result<Self, ConsumeError> {
        let subscription = match bodies {
            Bodies::Notices => Subscription::open(link, queue, prefetch).await?,
            Bodies::Small => Subscription::open_with_history(link, queue, prefetch).await?,
            Bodies::Large => Subscription::open_large(link, queue, prefetch).await?,
        };
        Ok(Self { subscription, tags: Tags::default(), acking: 0, prefetch, waiting: 0 })
    }

    fn begin_acks(&mut self, all: bool) -> Option<BoxFuture<'static, Result<(), ConsumeError>>> {
        if !all && self.tags.done() < usize::from(self.prefetch.div_ceil(ACKED_AT_ONCE)) {
            return None;
        }
        let acks = self.tags.acks();
        if acks.is_empty() {
            return None;
        }
        self.acking += 1;
        let frames = acks.into_iter().map(|ack| match ack {
            Ack::Through(tag) => (tag, true),
            Ack::One(tag) => (tag, false),
        });
        Some(self.subscription.begin_acks(frames))
    }

    fn is_done(&self) -> bool {
        self.tags.unsettled() == 0 && self.acking == 0
    }
}

fn with_channel(
    number: u64,
    settling: BoxFuture<'static, Result<(), ConsumeError>>,
) -> BoxFuture<'static, (u64, Result<(), ConsumeError>)> {
    Box::pin(async move { (number, settling.await) })
}
