//! The channels on which one queue is consumed, and their unsettled deliveries. Only this module knows channels, tags,
//! prefetch counts and bytes.
//!
//! A prefetch count limits one channel, and quorum queues take at most 2,000. If most of it waits (for a deadline, a lock, a
//! confirm), another channel is opened. Waiting deliveries thus never stop new ones.

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

/// Limits the memory of one queue's consumer.
const MAX_CHANNELS: usize = 16;
/// How long an ack waits for others: each ack is a frame and a command in the queue's log.
const ACKED_WITHIN: Duration = Duration::from_millis(50);
/// If this fraction of a channel's prefetch count waits for an ack, the acks are sent at once.
const ACKED_AT_ONCE: u16 = 8;

/// Which bodies a consumer receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Bodies {
    /// Bodies of due notices; a larger body is left out.
    Notices,
    /// Bodies of due notices, with the message's history, which is copied.
    Small,
    /// Bodies up to [`crate::messaging::large_bodies::MAX_PASSED_BYTES`], with the message's history.
    Large,
}

/// Identifies a delivery, to settle it once.
#[derive(Debug)]
#[must_use = "a delivery that is not settled stays unacked"]
pub(in crate::worker) struct Receipt {
    channel: u64,
    tag: u64,
    waits: bool,
    /// Counts the bytes of the delivery and of a copy while they are in memory.
    _part: Reservation,
}

pub(in crate::worker) type Delivered = (Receipt, Received);

struct InletChannel {
    subscription: Subscription,
    bodies: Bodies,
    prefetch: u16,
    tags: Tags,
    /// Deliveries that wait.
    waiting: usize,
}

/// The newest channel receives; older channels only keep waiting deliveries.
pub(in crate::worker) struct DeliveryChannels {
    link: Arc<Link>,
    queue: String,
    prefetch: u16,
    bodies: Bodies,
    kept: KeptBytes,
    opened: u64,
    receiving: InletChannel,
    keeping: BTreeMap<u64, InletChannel>,
    /// The next receiving channel, while it is being opened.
    opening: Option<BoxFuture<'static, Result<InletChannel, ConsumeError>>>,
    /// Deliveries that the previous channel received until the broker cancelled its consumer.
    cancelling: Option<BoxFuture<'static, Result<Vec<Received>, ConsumeError>>>,
    /// When all completed deliveries must be acked.
    ack_at: Option<Instant>,
    /// The last question to the queue, and since when the queue was silent.
    asked: Option<BoxFuture<'static, Result<Option<Counts>, ConsumeError>>>,
    unheard: Option<Instant>,
    /// Channels without deliveries that are being closed.
    ending: FuturesUnordered<BoxFuture<'static, Result<(), ConsumeError>>>,
}

impl DeliveryChannels {
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
        // The broker confirms a subscription before it asks the queue, and answers this question after that.
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

    /// Returns 1 to `at_once` deliveries, because an iteration of the caller's loop costs more than a delivery. Waits for the
    /// first delivery; forever if `at_once` is 0. Meanwhile sends acks, and switches to another channel when that is open.
    /// Cancel-safe. After an error a channel is gone, and the broker requeues its unsettled deliveries.
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
                    // The channel has no deliveries.
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

    /// Opens another channel if three quarters of the prefetch count wait, or if the bodies were changed.
    /// [`DeliveryChannels::next`] switches to that channel after the broker's answer: due orders do not wait for the answer.
    pub(in crate::worker) fn renew(&mut self) {
        let is_due = self.is_outdated() || self.is_short() && self.may_open();
        if is_due && self.opening.is_none() && self.cancelling.is_none() {
            let (link, queue) = (Arc::clone(&self.link), self.queue.clone());
            let opening = InletChannel::open(link, queue, self.prefetch, self.bodies);
            self.opening = Some(opening.boxed());
        }
    }

    /// Switches to the next channel. Returns the deliveries that the previous channel has in memory.
    fn continue_on(&mut self, next: InletChannel) -> Result<Vec<Delivered>, ConsumeError> {
        let mut delivered = Vec::new();
        while let Some(received) = self.receiving.subscription.next().now_or_never() {
            delivered.push(self.take(self.opened, received?));
        }
        let mut cancelling = self.receiving.subscription.cancel();
        // The first poll sends the cancel: a delivery that is requeued on the channel does not return there.
        let cancelled = (&mut cancelling).now_or_never();
        self.cancelling = Some(cancelled.map_or(cancelling, |cancelled| ready(cancelled).boxed()));
        self.keeping.insert(self.opened, std::mem::replace(&mut self.receiving, next));
        self.opened += 1;
        Ok(delivered)
    }

    /// Asks whether the queue exists, behind its deliveries. Returns since when the queue has neither delivered a message nor
    /// answered as a queue with this consumer.
    pub(in crate::worker) fn ask(&mut self) -> Instant {
        if self.asked.is_none() {
            self.asked = Some(self.receiving.subscription.counts());
        }
        // The queue is silent since the first question after its last delivery or answer.
        *self.unheard.get_or_insert_with(Instant::now)
    }

    /// Sets the bodies of the next channel; see [`DeliveryChannels::renew`].
    pub(in crate::worker) fn set_bodies(&mut self, bodies: Bodies) {
        self.bodies = bodies;
    }

    /// Whether the receiving channel does not have the wanted bodies yet.
    pub(in crate::worker) fn is_outdated(&self) -> bool {
        self.receiving.bodies != self.bodies
    }

    /// Which bodies the channel of a delivery receives.
    pub(in crate::worker) fn bodies_of(&self, receipt: &Receipt) -> Bodies {
        if receipt.channel == self.opened {
            return self.receiving.bodies;
        }
        self.keeping.get(&receipt.channel).map_or(self.bodies, |channel| channel.bodies)
    }

    /// Whether the channels must receive nothing more, because the deliveries have too many bytes.
    pub(in crate::worker) fn is_full(&self) -> bool {
        self.kept.is_full()
    }

    /// Whether the bytes in memory allow messages to wait.
    pub(in crate::worker) fn may_keep(&self) -> bool {
        self.kept.may_wait()
    }

    /// Whether the channels allow messages to wait.
    pub(in crate::worker) fn may_wait(&self) -> bool {
        self.may_open() || !self.is_short()
    }

    fn may_open(&self) -> bool {
        self.keeping.len() + 1 < MAX_CHANNELS
    }

    /// Whether three quarters of the prefetch count wait.
    fn is_short(&self) -> bool {
        self.receiving.waiting >= (usize::from(self.receiving.prefetch) * 3).div_ceil(4)
    }

    /// Records whether a delivery waits.
    pub(in crate::worker) fn waits(&mut self, receipt: &mut Receipt, waits: bool) {
        if std::mem::replace(&mut receipt.waits, waits) == waits {
            return;
        }
        if let Some(channel) = self.channel(receipt.channel) {
            channel.waiting = if waits { channel.waiting + 1 } else { channel.waiting - 1 };
        }
    }

    /// Completes a delivery; its ack is sent together with others.
    pub(in crate::worker) fn ack(&mut self, mut receipt: Receipt) {
        self.waits(&mut receipt, false);
        self.ack_at.get_or_insert_with(|| Instant::now() + ACKED_WITHIN);
        let Some(channel) = self.channel(receipt.channel) else { return };
        channel.tags.finish(receipt.tag);
        if channel.tags.done() >= usize::from(channel.prefetch.div_ceil(ACKED_AT_ONCE)) {
            channel.send_acks();
        }
    }

    /// Rejects a delivery, which the broker then parks unchanged.
    pub(in crate::worker) fn dead_letter(&mut self, mut receipt: Receipt) {
        self.waits(&mut receipt, false);
        if let Some(channel) = self.channel(receipt.channel)
            && channel.tags.forget(receipt.tag)
        {
            channel.subscription.dead_letter(receipt.tag);
        }
    }

    /// Requeues a delivery.
    pub(in crate::worker) fn give_back(&mut self, mut receipt: Receipt) {
        self.waits(&mut receipt, false);
        if let Some(channel) = self.channel(receipt.channel)
            && channel.tags.forget(receipt.tag)
        {
            channel.subscription.give_back(receipt.tag);
        }
    }

    /// Passes the acks of all completed deliveries to the connection, and closes older channels without deliveries. Waits for
    /// neither, because due orders must not be late.
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

    /// An error if a channel ended while no delivery was received from it; the broker has requeued its deliveries.
    pub(in crate::worker) fn check(&self) -> Result<(), ConsumeError> {
        self.receiving.subscription.check()?;
        self.keeping.values().try_for_each(|channel| channel.subscription.check())
    }

    /// Acks completed deliveries, stops new ones and requeues all others. After an error a channel is gone, and the broker
    /// requeues its deliveries anyway.
    pub(in crate::worker) async fn close(mut self) -> Result<(), ConsumeError> {
        // The acks come first: a completed delivery must not return.
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

/// Waits forever if there was no question.
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
