//! Copies on their way to a level or to the parking lot. Each is tried again until it is confirmed.
//!
//! They never stand in the way of what needs no copy: a broker that takes no messages (memory or disk alarm), a full
//! parking lot or a full level stops only them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};

use super::{
    backoff,
    copy_publisher::{CopyError, CopyPublisher},
    due::Due,
    schedule::Schedule,
};
use crate::{topology::route::Route, wire::Message};

/// Before a copy that was refused is tried again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A confirm takes milliseconds; after so long without any, nothing gets through.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// One line in the log stands for all failures within it.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// What the copy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It waits in a level: for its deadline, or for what guards it.
    Wait,
    /// It waits in a level for a retry.
    Retry,
    /// The parking lot, and why.
    Park(String),
}

/// A delivery that is acked when its copy is confirmed.
pub(super) struct Copy {
    pub(super) due: Due,
    pub(super) purpose: Purpose,
    message: Message,
    /// Where it is to wait; none for the parking lot.
    route: Option<Route>,
    failures: u32,
}

impl Copy {
    /// Where it is to wait; none for the parking lot.
    pub(super) fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }
}

type Sending = BoxFuture<'static, (Copy, Result<(), CopyError>)>;

/// The copies of one queue's consumer.
pub(super) struct Copies {
    publisher: Arc<CopyPublisher>,
    sending: FuturesUnordered<Sending>,
    refused: Schedule<Copy>,
    /// When the last one was confirmed, or the first of those that are being sent was begun.
    progress: Instant,
    reported: Option<Instant>,
}

impl Copies {
    pub(super) fn new(publisher: Arc<CopyPublisher>) -> Self {
        let (sending, refused) = (FuturesUnordered::new(), Schedule::default());
        Self { publisher, sending, refused, progress: Instant::now(), reported: None }
    }

    /// To the parking lot.
    pub(super) fn park(&mut self, due: Due, reason: String, message: Message) {
        let purpose = Purpose::Park(reason);
        self.send(Copy { due, purpose, message, route: None, failures: 0 });
    }

    /// To where it waits.
    pub(super) fn delay(&mut self, due: Due, purpose: Purpose, message: Message, route: Route) {
        self.send(Copy { due, purpose, message, route: Some(route), failures: 0 });
    }

    fn send(&mut self, copy: Copy) {
        if self.sending.is_empty() {
            self.progress = Instant::now();
        }
        let publisher = Arc::clone(&self.publisher);
        let sending = async move {
            let result = publisher.publish(copy.message.clone()).await;
            (copy, result)
        };
        self.sending.push(sending.boxed());
    }

    /// Publishes again what was refused and has waited. Gives back those for a level that `leads` does not know.
    pub(super) fn send_again(&mut self, now: Instant, leads: impl Fn(&Route) -> bool) -> Vec<Due> {
        let mut gone = Vec::new();
        for copy in self.refused.take_due(now, usize::MAX) {
            if copy.route().is_none_or(&leads) {
                self.send(copy);
            } else {
                gone.push(copy.due);
            }
        }
        gone
    }

    pub(super) fn next_try(&self) -> Option<Instant> {
        self.refused.next()
    }

    /// What has been confirmed, and why something was not; `None` while nothing is being sent.
    pub(super) async fn confirmed(&mut self) -> Option<(Vec<Copy>, Option<CopyError>)> {
        let mut next = self.sending.next().await;
        let (mut confirmed, mut failure) = (Vec::new(), None);
        while let Some((copy, result)) = next {
            match result {
                Ok(()) => confirmed.push(copy),
                Err(error) => {
                    self.refuse(copy);
                    failure = Some(error);
                }
            }
            next = self.sending.next().now_or_never().flatten();
        }
        if !confirmed.is_empty() {
            self.progress = Instant::now();
        }
        (!confirmed.is_empty() || failure.is_some()).then_some((confirmed, failure))
    }

    fn refuse(&mut self, mut copy: Copy) {
        let pause = pause_after(copy.failures);
        copy.failures += 1;
        self.refused.add(Instant::now() + pause, copy);
    }

    /// Whether a failure is worth a line in the log: one stands for all that follow soon after it.
    pub(super) fn is_to_be_reported(&mut self) -> bool {
        let is_new = self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if is_new {
            self.reported = Some(Instant::now());
        }
        is_new
    }

    pub(super) fn len(&self) -> usize {
        self.sending.len() + self.refused.len()
    }

    pub(super) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether nothing gets through at present, or something was refused.
    pub(super) fn are_stuck(&self) -> bool {
        !self.refused.is_empty() || self.nothing_gets_through()
    }

    /// Whether another one for the parking lot would only wait.
    pub(super) fn parking_is_stuck(&self, bearable: usize) -> bool {
        let parks = |copy: &&Copy| matches!(copy.purpose, Purpose::Park(_));
        self.len() >= bearable
            && (self.nothing_gets_through()
                || self.refused.iter().filter(parks).take(bearable).count() >= bearable)
    }

    fn nothing_gets_through(&self) -> bool {
        self.is_sending() && self.progress.elapsed() > STUCK_AFTER
    }
}

fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(backoff::LONGEST)
}

#[cfg(test)]
mod tests {
    use super::{FIRST_PAUSE, backoff, pause_after};

    #[test]
    fn a_copy_that_is_refused_for_ever_is_tried_every_five_seconds() {
        assert_eq!(pause_after(0), FIRST_PAUSE);
        for failures in 0..1_000 {
            assert!(pause_after(failures) <= pause_after(failures + 1));
            assert!(pause_after(failures) <= backoff::LONGEST);
        }
        assert_eq!(pause_after(u32::MAX), backoff::LONGEST);
    }
}
