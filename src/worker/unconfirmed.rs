//! Published copies without an answer. A copy that waits for its answer is not published again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::timeout;

use super::log_lines::LINE_EVERY;
use crate::{
    messaging::{PublishError, publish::publisher_pool::PublisherPool},
    text::length,
    timing::Timing,
    topology::route::LONGEST_IN_HAND,
    wire::Message,
};

/// An event of a published copy.
pub(super) enum PublishEvent<C> {
    Confirmed(C),
    /// The copy was not confirmed, and may be published again.
    Failed(C, PublishError),
    /// A copy still has no answer after the time limit, and continues to wait.
    ConfirmOverdue(PublishError),
    /// The copy has waited too long: its original must be requeued, before RabbitMQ closes the channel.
    Abandoned(C),
}

type Confirmation = Result<(), PublishError>;

struct Unconfirmed<C> {
    copy: C,
    destination: Arc<str>,
    message_id: String,
    publishing: BoxFuture<'static, Confirmation>,
    /// How long the copy has waited, once that is longer than `stuck_after`.
    silent_for: Option<Duration>,
}

/// The unconfirmed copies of one consumer.
pub(super) struct UnconfirmedPublishes<C> {
    publishers: Arc<PublisherPool>,
    waiting: FuturesUnordered<BoxFuture<'static, (Unconfirmed<C>, Option<Confirmation>)>>,
    /// Copies that have waited longer than `stuck_after`.
    silent: usize,
    stuck_after: Duration,
    confirm: Duration,
    longest: Duration,
    /// Longest pause between two attempts at the same message.
    longest_pause: Duration,
    reported: Option<Instant>,
    failed: Option<Instant>,
}

impl<C: Send + 'static> UnconfirmedPublishes<C> {
    pub(super) fn new(publishers: Arc<PublisherPool>, timing: &Timing) -> Self {
        Self {
            publishers,
            waiting: FuturesUnordered::new(),
            silent: 0,
            stuck_after: timing.copies_stuck,
            confirm: timing.confirm,
            longest: 2 * LONGEST_IN_HAND,
            longest_pause: timing.backoff_longest,
            reported: None,
            failed: None,
        }
    }

    pub(super) fn send(&mut self, destination: &str, message: Message, copy: C) {
        let (publishers, destination) = (Arc::clone(&self.publishers), Arc::from(destination));
        let (to, message_id) = (Arc::clone(&destination), message.message_id.clone());
        let publishing = async move { publishers.publish(&to, message).await }.boxed();
        let waiting = Unconfirmed { copy, destination, message_id, publishing, silent_for: None };
        self.wait(waiting, self.stuck_after);
    }

    fn wait(&mut self, mut waiting: Unconfirmed<C>, within: Duration) {
        let answer = async move {
            let answer = timeout(within, &mut waiting.publishing).await.ok();
            (waiting, answer)
        };
        self.waiting.push(answer.boxed());
    }

    /// The next event; `None` if no copy is unconfirmed.
    pub(super) async fn next(&mut self) -> Option<PublishEvent<C>> {
        loop {
            let (mut waiting, answer) = self.waiting.next().await?;
            let silent_for = waiting.silent_for;
            let is_given_up = silent_for >= Some(self.longest);
            if (answer.is_some() || is_given_up) && silent_for.is_some() {
                self.silent -= 1;
            }
            match answer {
                Some(Ok(())) => return Some(PublishEvent::Confirmed(waiting.copy)),
                Some(Err(error)) => return Some(PublishEvent::Failed(waiting.copy, error)),
                None if is_given_up => return Some(PublishEvent::Abandoned(waiting.copy)),
                None => {}
            }
            let (destination, message_id) =
                (Arc::clone(&waiting.destination), waiting.message_id.clone());
            let waited = silent_for.map_or(self.stuck_after, |waited| waited + self.confirm);
            waiting.silent_for = Some(waited);
            self.wait(waiting, self.confirm);
            if silent_for.is_some() {
                let reason =
                    format!("no answer from `{destination}` within {}", length(self.confirm));
                return Some(PublishEvent::ConfirmOverdue(PublishError::Unknown {
                    message_id,
                    reason,
                    channel_ended: false,
                }));
            }
            self.silent += 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Copies that have waited longer than `stuck_after`.
    pub(super) const fn silent(&self) -> usize {
        self.silent
    }

    /// Records a copy that was refused, or gets no answer. Returns whether a log line is due.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.failed = Some(now);
        let is_new = self.reported.is_none_or(|at| now.duration_since(at) >= LINE_EVERY);
        if is_new {
            self.reported = Some(now);
        }
        is_new
    }

    /// Whether copies are confirmed again: every refused copy has been published once more.
    pub(super) fn work_again(&mut self, now: Instant) -> bool {
        let over = 2 * self.longest_pause;
        self.silent == 0 && self.failed.take_if(|at| now.duration_since(*at) >= over).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::messaging::BrokerAddress;

    #[tokio::test]
    async fn what_has_no_answer_is_given_up_in_the_end() {
        let address = BrokerAddress::parse("amqp://127.0.0.1:1", None).unwrap();
        let publishers = Arc::new(PublisherPool::new(address, "test"));
        let tick = Duration::from_millis(1);
        let mut copies = UnconfirmedPublishes {
            stuck_after: tick,
            confirm: tick,
            longest: 3 * tick,
            ..UnconfirmedPublishes::new(publishers, &Timing::default())
        };
        let (destination, message_id) = (Arc::from("a level"), String::new());
        let publishing = pending().boxed();
        copies.wait(
            Unconfirmed { copy: "a", destination, message_id, publishing, silent_for: None },
            tick,
        );
        for _ in 0..2 {
            assert!(matches!(copies.next().await, Some(PublishEvent::ConfirmOverdue(_))));
            assert_eq!((copies.len(), copies.silent()), (1, 1));
        }
        assert!(matches!(copies.next().await, Some(PublishEvent::Abandoned("a"))));
        assert_eq!((copies.len(), copies.silent()), (0, 0));
    }
}
