//! How fast the broker hands messages out: a consumer that only acks.

use std::time::Instant;

use futures_util::FutureExt;

use crate::broker::consume::{ConsumeError, Subscription};

/// Unsettled deliveries: the most that a quorum queue takes.
const PREFETCH: u16 = 2_000;
/// Deliveries acked at once.
const ACKED_AT_ONCE: usize = 200;

/// Consumes from a queue.
pub(crate) struct Consumer(Subscription);

impl Consumer {
    /// Subscribes.
    ///
    /// # Errors
    /// The queue is not there, or the connection is gone.
    pub(crate) async fn open(
        link: &crate::broker::Link,
        queue: &str,
    ) -> Result<Self, ConsumeError> {
        Subscription::open(link, queue, PREFETCH).await.map(Self)
    }

    /// When each of `messages` was received; all of them are acked.
    ///
    /// # Errors
    /// The subscription ended.
    pub(crate) async fn receive(mut self, messages: usize) -> Result<Vec<Instant>, ConsumeError> {
        let mut received = Vec::with_capacity(messages);
        while received.len() < messages {
            let mut last = self.0.next().await?;
            received.push(Instant::now());
            for _ in 1..ACKED_AT_ONCE {
                let Some(next) = self.0.next().now_or_never() else { break };
                last = next?;
                received.push(Instant::now());
            }
            self.0.ack_through(last.tag).await?;
        }
        Ok(received)
    }
}
