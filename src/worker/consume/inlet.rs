//! The way in: the channels on which one queue is consumed, and what is unsettled on them. Nobody else knows of channels,
//! tags, prefetch counts and bytes.
//!
//! A prefetch count is a channel's, and quorum queues take no more than 2,000. If most of it waits (for a deadline, a lock, a
//! confirm), another channel is opened, so that what waits never limits what is received.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, pending, ready},
    stream::{FuturesUnordered, StreamExt},
};

use crate::{
    decisions::delivery_tags::{Ack, Tags},
    messaging::{
        Link,
        consume::{ConsumeError, Subscription},
        passive::Counts,
    },
    wire::Received,
    worker::{
        backoff::reached,
        kept_bytes::{KeptBytes, Reservation},
        limits,
    },
};

/// Bounds what one queue's consumer keeps in memory.
const MAX_CHANNELS: usize = 16;
/// What is done is acked together with what is done so soon after it: each ack is a frame and a command in the queue's log.
const ACKED_WITHIN: Duration = Duration::from_millis(50);
/// This part of a channel's prefetch count is acked without waiting for more.
const ACKED_AT_ONCE: u16 = 8;

/// Which bodies a consumer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Bodies {
    /// Those of due notices; larger ones are left out.
    Notices,
    /// The same with the history of the message, which is passed on.
    Small,
    /// The same up to [`crate::messaging::large_bodies::MAX_PASSED_BYTES`].
    Large,
}

/// By which one delivery is settled, once.
#[derive(Debug)]
#[must_use = "a delivery that is not settled stays unacked"]
pub(in crate::worker) struct Receipt {
    channel: u64,
    tag: u64,
    waits: bool,
    /// Counts the delivery, and a copy of it, while they are in memory.
    _part: Reservation,
}

/// A delivery that came.
pub(in crate::worker) type Delivered = (Receipt, Received);

struct InletChannel {
    subscription: Subscription,
    bodies: Bodies,
    prefetch: u16,
    tags: Tags,
    /// Deliveries that wait for something.
    waiting: usize,
}

/// The newest channel receives, those before it only keep what waits.
pub(in crate::worker) struct Inlet {
    link: Arc<Link>,
    queue: String,
    prefetch: u16,
    bodies: Bodies,
    kept: KeptBytes,
    opened: u64,
    receiving: InletChannel,
    keeping: BTreeMap<u64, InletChannel>,
    /// The channel that receives next, while it is being opened.
    opening: Option<BoxFuture<'static, Result<InletChannel, ConsumeError>>>,
    /// What the channel before the receiving one was sent until the broker had cancelled it.
    cancelling: Option<BoxFuture<'static, Result<Vec<Received>, ConsumeError>>>,
    /// When everything that is done is acked.
    ack_at: Option<Instant>,
    /// What the queue was asked last, and since when nothing was heard of it.
    asked: Option<BoxFuture<'static, Result<Option<Counts>, ConsumeError>>>,
    unheard: Option<Instant>,
    /// The ends of channels that keep nothing any more.
    ending: FuturesUnordered<BoxFuture<'static, Result<(), ConsumeError>>>,
}

impl Inlet {
    /// Receives up to `prefetch` unsettled deliveries at once. A queue that does not answer ends the connection, after more
    /// than a minute.
    pub(in crate::worker) async fn open(
        link: &Arc<Link>,
        queue: &str,
        prefetch: u16,
        bodies: Bodies,
    ) -> Result<Self, ConsumeError> {
        let receiving =
            InletChannel::open(Arc::clone(link), queue.to_owned(), prefetch, bodies).await?;
        // The broker confirms a subscription before it asks the queue, and answers this behind it.
        receiving.subscription.is_empty().await?;
        Ok(Self {
            link: Arc::clone(link),
            queue: queue.to_owned(),
            prefetch,
            bodies,
            kept: KeptBytes::default(),
            opened: 0,
            receiving,
            keeping: BTreeMap::new(),
            opening: None,
            cancelling: None,
            ack_at: None,
            asked: None,
            unheard: None,
            ending: FuturesUnordered::new(),
        })
    }

    /// The deliveries that are there, at least one and up to `at_once`: going round a loop costs more than they do. Waits until
    /// there is one; for ever if `at_once` is 0. Meanwhile it acks what is done, and continues on another channel when that is
    /// open. Nothing is lost if the wait is given up.
    /// If it fails, a channel is gone and what was unsettled on it goes back to the queue.
    pub(in crate::worker) async fn next(
        &mut self,
        at_once: usize,
    ) -> Result<Vec<Delivered>, ConsumeError> {
        let first = loop {
            let acks = reached(self.ack_at);
            tokio::select! {
                biased;
                () = acks => self.send_acks(),
                Some(ended) = self.ending.next() => match ended {
                    // It keeps nothing.
                    Ok(()) | Err(ConsumeError::Stuck { .. }) => {}
                    Err(error) => return Err(error),
                },
                counts = answer(&mut self.asked) => if counts?.is_some_and(|it| it.are_its_own && it.consumers > 0) {
                    self.unheard = None;
                },
                opened = answer(&mut self.opening) => return self.continue_on(opened?),
                rest = answer(&mut self.cancelling) => {
                    let number = self.opened - 1;
                    let rest = rest?.into_iter();
                    return Ok(rest.map(|received| self.take(number, received)).collect());
                }
                received = self.receiving.subscription.next(), if at_once > 0 => break received?,
            }
        };
        self.unheard = None;
        let mut delivered = vec![self.take(self.opened, first)];
        while delivered.len() < at_once && !(self.is_short() || self.is_full()) {
            let Some(received) = self.receiving.subscription.next().now_or_never() else { break };
            delivered.push(self.take(self.opened, received?));
        }
        Ok(delivered)
    }

    fn take(&mut self, channel: u64, received: Received) -> Delivered {
        let tag = received.tag;
        if let Some(channel) = self.channel(channel) {
            channel.tags.receive(tag);
        }
        let part = self.kept.keep(2 * received.bytes());
        (Receipt { channel, tag, waits: false, _part: part }, received)
    }

    /// Opens another channel if too much of this one waits, or if other bodies are wanted. [`Inlet::next`] continues on it once the
    /// broker has answered: what is due meanwhile does not wait for that.
    pub(in crate::worker) fn renew(&mut self) {
        let is_due = self.is_outdated() || self.is_short() && self.may_open();
        if is_due && self.opening.is_none() && self.cancelling.is_none() {
            let (link, queue) = (Arc::clone(&self.link), self.queue.clone());
            let opening = InletChannel::open(link, queue, self.prefetch, self.bodies);
            self.opening = Some(opening.boxed());
        }
    }

    /// Receives on the next channel. Returns what the one before has in memory.
    fn continue_on(&mut self, next: InletChannel) -> Result<Vec<Delivered>, ConsumeError> {
        let mut delivered = Vec::new();
        while let Some(received) = self.receiving.subscription.next().now_or_never() {
            delivered.push(self.take(self.opened, received?));
        }
        let mut cancelling = self.receiving.subscription.cancel();
        // Polled once, it is on its way: what is given back on the channel does not come again there.
        let cancelled = (&mut cancelling).now_or_never();
        self.cancelling = Some(cancelled.map_or(cancelling, |cancelled| ready(cancelled).boxed()));
        self.keeping.insert(self.opened, std::mem::replace(&mut self.receiving, next));
        self.opened += 1;
        Ok(delivered)
    }

    /// Asks the queue behind its deliveries whether it is there. Returns since when it has not answered such a question itself, as a queue
    /// with this consumer, nor delivered anything.
    pub(in crate::worker) fn ask(&mut self) -> Instant {
        if self.asked.is_none() {
            self.asked = Some(self.receiving.subscription.counts());
        }
        // Also where deliveries that were in memory have come since the question.
        *self.unheard.get_or_insert_with(Instant::now)
    }

    /// Gets other bodies from now on; see [`Inlet::renew`].
    pub(in crate::worker) fn set_bodies(&mut self, bodies: Bodies) {
        self.bodies = bodies;
    }

    /// Whether the bodies that are wanted are not received yet.
    pub(in crate::worker) fn is_outdated(&self) -> bool {
        self.receiving.bodies != self.bodies
    }

    /// Which bodies the channel of a delivery gets.
    pub(in crate::worker) fn bodies_of(&self, receipt: &Receipt) -> Bodies {
        if receipt.channel == self.opened {
            return self.receiving.bodies;
        }
        self.keeping.get(&receipt.channel).map_or(self.bodies, |channel| channel.bodies)
    }

    /// Whether nothing more is to be received, since its bytes would be too many.
    pub(in crate::worker) fn is_full(&self) -> bool {
        self.kept.is_full()
    }

    /// Whether there are bytes for messages that wait.
    pub(in crate::worker) fn may_keep(&self) -> bool {
        self.kept.may_wait()
    }

    /// Whether there are channels for messages that wait.
    pub(in crate::worker) fn may_wait(&self) -> bool {
        self.may_open() || !self.is_short()
    }

    fn may_open(&self) -> bool {
        self.keeping.len() + 1 < MAX_CHANNELS
    }

    /// Whether so much of the prefetch count waits that little is left to receive with.
    fn is_short(&self) -> bool {
        self.receiving.waiting >= (usize::from(self.receiving.prefetch) * 3).div_ceil(4)
    }

    /// A delivery waits for something, or no longer does.
    pub(in crate::worker) fn waits(&mut self, receipt: &mut Receipt, waits: bool) {
        if std::mem::replace(&mut receipt.waits, waits) == waits {
            return;
        }
        if let Some(channel) = self.channel(receipt.channel) {
            channel.waiting = if waits { channel.waiting + 1 } else { channel.waiting - 1 };
        }
    }

    /// Nothing is left to be done with a delivery but the ack, which is sent together with others.
    pub(in crate::worker) fn ack(&mut self, mut receipt: Receipt) {
        self.waits(&mut receipt, false);
        self.ack_at.get_or_insert_with(|| Instant::now() + ACKED_WITHIN);
        let Some(channel) = self.channel(receipt.channel) else { return };
        channel.tags.finish(receipt.tag);
        if channel.tags.done() >= usize::from(channel.prefetch.div_ceil(ACKED_AT_ONCE)) {
            channel.send_acks();
        }
    }

    /// Leaves a delivery to the broker, which puts it into the parking lot as it is.
    pub(in crate::worker) fn dead_letter(&mut self, mut receipt: Receipt) {
        self.waits(&mut receipt, false);
        if let Some(channel) = self.channel(receipt.channel)
            && channel.tags.forget(receipt.tag)
        {
            channel.subscription.dead_letter(receipt.tag);
        }
    }

    /// Puts a delivery back into its queue.
    pub(in crate::worker) fn give_back(&mut self, mut receipt: Receipt) {
        self.waits(&mut receipt, false);
        if let Some(channel) = self.channel(receipt.channel)
            && channel.tags.forget(receipt.tag)
        {
            channel.subscription.give_back(receipt.tag);
        }
    }

    /// Hands the acks of everything that is done to the connection, and closes channels that keep nothing any more. Waits for
    /// neither: what is due meanwhile is not to be late.
    pub(in crate::worker) fn send_acks(&mut self) {
        self.ack_at = None;
        self.receiving.send_acks();
        self.keeping.values_mut().for_each(InletChannel::send_acks);
        let cancelling = self.cancelling.as_ref().map(|_| self.opened - 1);
        let is_done = |number: &u64, channel: &mut InletChannel| {
            channel.tags.unsettled() == 0 && cancelling != Some(*number)
        };
        for (_, done) in self.keeping.extract_if(.., is_done) {
            self.ending.push(done.subscription.close().boxed());
        }
    }

    /// An error if a channel has ended, and nothing was being received that would have said so; what it kept is back in the queue.
    pub(in crate::worker) fn check(&self) -> Result<(), ConsumeError> {
        self.receiving.subscription.check()?;
        self.keeping.values().try_for_each(|channel| channel.subscription.check())
    }

    /// Acks what is done, stops deliveries and gives back everything else.
    /// If it fails, a channel is gone and the broker gives back all the same.
    pub(in crate::worker) async fn close(mut self) -> Result<(), ConsumeError> {
        // Before that: what is done does not come again.
        self.send_acks();
        let mut result = self.receiving.subscription.give_back_all().await;
        for channel in self.keeping.into_values() {
            result = result.and(channel.subscription.give_back_all().await);
        }
        while let Some(ended) = self.ending.next().await {
            result = result.and(ended);
        }
        result
    }

    fn channel(&mut self, number: u64) -> Option<&mut InletChannel> {
        if number == self.opened {
            return Some(&mut self.receiving);
        }
        self.keeping.get_mut(&number)
    }
}

/// Waits for ever where nothing was asked.
async fn answer<T>(asked: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(asking) = asked else { return pending().await };
    let answer = asking.await;
    *asked = None;
    answer
}

impl InletChannel {
    async fn open(
        link: Arc<Link>,
        queue: String,
        prefetch: u16,
        bodies: Bodies,
    ) -> Result<Self, ConsumeError> {
        let (link, queue) = (&*link, queue.as_str());
        let prefetch = match bodies {
            Bodies::Large => limits::large_prefetch(prefetch),
            Bodies::Notices | Bodies::Small => prefetch,
        };
        let subscription = match bodies {
            Bodies::Notices => Subscription::open(link, queue, prefetch).await?,
            Bodies::Small => Subscription::open_with_history(link, queue, prefetch).await?,
            Bodies::Large => Subscription::open_large(link, queue, prefetch).await?,
        };
        Ok(Self { subscription, bodies, prefetch, tags: Tags::default(), waiting: 0 })
    }

    fn send_acks(&mut self) {
        let acks = self.tags.acks();
        if !acks.is_empty() {
            self.subscription.send_acks(acks.into_iter().map(|ack| match ack {
                Ack::Through(tag) => (tag, true),
                Ack::One(tag) => (tag, false),
            }));
        }
    }
}
