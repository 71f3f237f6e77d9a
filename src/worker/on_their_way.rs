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
    messaging::{PublishError, publish::outlet::Outlet},
    text::length,
    timing::Timing,
    topology::route::LONGEST_IN_HAND,
    wire::Message,
};

/// An event of a published copy.
pub(super) enum Heard<C> {
    Confirmed(C),
    /// The copy was not confirmed, and may be published again.
    Failed(C, PublishError),
    /// A copy has waited long for its answer.
    Silence(PublishError),
    /// The copy has waited too long: its original must be requeued, before RabbitMQ closes the channel.
    GivenUp(C),
}

type Confirmation = Result<(), PublishError>;

struct Unconfirmed<C> {
    copy: C,
    place: Arc<str>,
    message_id: String,
    publishing: BoxFuture<'static, Confirmation>,
    /// How long the copy has waited, once that is longer than `stuck_after`.
    silent_for: Option<Duration>,
}

/// The unconfirmed copies of one consumer.
pub(super) struct OnTheirWay<C> {
    outlet: Arc<Outlet>,
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

impl<C: Send + 'static> OnTheirWay<C> {
    pub(super) fn new(outlet: Arc<Outlet>, timing: &Timing) -> Self {
        Self {
            outlet,
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

    pub(super) fn send(&mut self, place: &str, message: Message, copy: C) {
        let (outlet, place) = (Arc::clone(&self.outlet), Arc::from(place));
        let (to, message_id) = (Arc::clone(&place), message.message_id.clone());
        let publishing = async move { outlet.publish(&to, message).await }.boxed();
        let waiting = Unconfirmed { copy, place, message_id, publishing, silent_for: None };
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
    pub(super) async fn next(&mut self) -> Option<Heard<C>> {
        loop {
            let (mut waiting, answer) = self.waiting.next().await?;
            let silent_for = waiting.silent_for;
            let is_given_up = silent_for >= Some(self.longest);
            if (answer.is_some() || is_given_up) && silent_for.is_some() {
                self.silent -= 1;
            }
            match answer {
                Some(Ok(())) => return Some(Heard::Confirmed(waiting.copy)),
                Some(Err(error)) => return Some(Heard::Failed(waiting.copy, error)),
                None if is_given_up => return Some(Heard::GivenUp(waiting.copy)),
                None => {}
            }
            let (place, message_id) = (Arc::clone(&waiting.place), waiting.message_id.clone());
            let waited = silent_for.map_or(self.stuck_after, |waited| waited + self.confirm);
            waiting.silent_for = Some(waited);
            self.wait(waiting, self.confirm);
            if silent_for.is_some() {
                let reason = format!("no answer from `{place}` within {}", length(self.confirm));
                return Some(Heard::Silence(PublishError::Unknown {
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
        let outlet = Arc::new(Outlet::new(address, "test"));
        let tick = Duration::from_millis(1);
        let mut copies = OnTheirWay {
            stuck_after: tick,
            confirm: tick,
            longest: 3 * tick,
            ..OnTheirWay::new(outlet, &Timing::default())
        };
        let (place, message_id) = (Arc::from("a level"), String::new());
        let publishing = pending().boxed();
        copies
            .wait(Unconfirmed { copy: "a", place, message_id, publishing, silent_for: None }, tick);
        for _ in 0..2 {
            assert!(matches!(copies.next().await, Some(Heard::Silence(_))));
            assert_eq!((copies.len(), copies.silent()), (1, 1));
        }
        assert!(matches!(copies.next().await, Some(Heard::GivenUp("a"))));
        assert_eq!((copies.len(), copies.silent()), (0, 0));
    }
}
