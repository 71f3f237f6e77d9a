//! One round of one way: messages with delays at random, and a burst that is due at one instant.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use rand::rngs::StdRng;
use tokio::time::timeout_at;

use super::{error::DelayError, messages::uniform, size::DelaySize, way::Way};
use crate::{
    broker::{BrokerCpu, Link, Publisher, consume::Subscription},
    order::OrderId,
    statistics::{Percentiles, per_second},
    wire::{DueNotice, Message, Received},
};

/// Messages on their way to the broker at once.
const WINDOW: usize = 2_000;
/// Unsettled deliveries.
const PREFETCH: u16 = 2_000;
/// Deliveries acked at once.
const ACKED_AT_ONCE: usize = 200;
/// After the last is due.
const PATIENCE: Duration = Duration::from_mins(3);
/// A burst is due so long after the first of it is published: nothing of it is late before it is published.
const BURST_AFTER: Duration = Duration::from_secs(3);

/// What a round needs.
pub(super) struct Round<'a> {
    pub(super) link: &'a Link,
    pub(super) publisher: &'a Publisher,
    pub(super) cpu: Option<&'a BrokerCpu>,
    pub(super) way: &'a Way,
    pub(super) size: DelaySize,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Messages confirmed per second.
    pub(super) published_per_s: f64,
    /// From due to received.
    pub(super) late: Percentiles,
    /// Came out before it was due.
    pub(super) early: usize,
    /// CPU of the broker, in microseconds for each message; `None` where it was not asked.
    pub(super) cpu_us: Option<f64>,
}

/// A message that came back.
struct Sent {
    late: Duration,
    early: bool,
}

impl Round<'_> {
    /// Delays at random.
    pub(super) async fn random(&self, rng: &mut StdRng) -> Result<Measured, DelayError> {
        let delays: Vec<Duration> = (0..self.size.messages).map(|_| uniform(rng)).collect();
        self.measure(|index| delays.get(index).copied().unwrap_or_default()).await
    }

    /// All due at one instant; each takes the way of the rest that it has when it is published.
    pub(super) async fn burst(&self) -> Result<Measured, DelayError> {
        let due = Instant::now() + BURST_AFTER;
        self.measure(|_| due.saturating_duration_since(Instant::now())).await
    }

    async fn measure(&self, delay: impl Fn(usize) -> Duration) -> Result<Measured, DelayError> {
        let mut subscription = Subscription::open(self.link, &self.way.queue(), PREFETCH).await?;
        let before = self.cpu_so_far().await?;
        let began = Instant::now();
        let publish = async {
            let sent =
                stream::iter(0..self.size.messages).map(|index| self.publish(index, delay(index)));
            let sent: Vec<Instant> = sent.buffered(WINDOW).try_collect().await?;
            Ok::<_, DelayError>((sent, began.elapsed()))
        };
        let receive = receive(&mut subscription, self.size.messages, self.way.title());
        let ((due, took), received) = tokio::try_join!(publish, receive)?;
        let after = self.cpu_so_far().await?;
        let pairs = due.into_iter().zip(received);
        let all: Vec<Sent> = pairs.map(|(due, at)| Sent::of(due, at)).collect();
        let late = Percentiles::of(all.iter().map(|sent| sent.late)).unwrap_or_default();
        let messages = u32::try_from(self.size.messages).unwrap_or(u32::MAX);
        let used = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok(Measured {
            published_per_s: per_second(self.size.messages, took),
            late,
            early: all.iter().filter(|sent| sent.early).count(),
            cpu_us: used.map(|used| used.as_secs_f64() * 1e6 / f64::from(messages)),
        })
    }

    async fn cpu_so_far(&self) -> Result<Option<Duration>, DelayError> {
        match self.cpu {
            Some(cpu) => Ok(Some(cpu.so_far().await?)),
            None => Ok(None),
        }
    }

    /// When it is due.
    async fn publish(&self, index: usize, delay: Duration) -> Result<Instant, DelayError> {
        let route = self.way.route(delay)?;
        let due = Instant::now() + route.holds;
        let order_id = OrderId::parse(&index.to_string())?;
        let message = Message::notice(route, &DueNotice { order_id, due_at: None });
        self.publisher.publish(message).await?;
        Ok(due)
    }
}

impl Sent {
    fn of(due: Instant, received: Instant) -> Self {
        let late = received.checked_duration_since(due);
        // The broker counts from when it gets the message, which is later: this is the grain of the clocks.
        let early = due.saturating_duration_since(received) > Duration::from_millis(1);
        Self { late: late.unwrap_or_default(), early }
    }
}

/// When each message came, by its number.
async fn receive(
    subscription: &mut Subscription,
    all: usize,
    way: &'static str,
) -> Result<Vec<Instant>, DelayError> {
    let mut received: Vec<Option<Instant>> = vec![None; all];
    let mut missing = all;
    let mut unacked = 0;
    let deadline = Instant::now() + super::way::LONGEST + PATIENCE;
    while missing > 0 {
        let lost = || DelayError::Lost { missing, all, within_s: PATIENCE.as_secs(), way };
        let next = timeout_at(deadline.into(), subscription.next()).await;
        let delivery = next.map_err(|_| lost())??;
        if let Some(slot) = number(&delivery).and_then(|number| received.get_mut(number)) {
            missing -= usize::from(slot.is_none());
            slot.get_or_insert_with(Instant::now);
        }
        unacked += 1;
        if unacked >= ACKED_AT_ONCE || missing == 0 {
            subscription.ack_through(delivery.tag).await?;
            unacked = 0;
        }
    }
    let _nothing_left = subscription.cancel().await?;
    Ok(received.into_iter().flatten().collect())
}

fn number(delivery: &Received) -> Option<usize> {
    delivery.notice().ok()?.order_id.as_str().parse().ok()
}
