//! Copies that are published and have no answer yet. One that waits for its answer is not published again.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::timeout;

use crate::{
    broker::{PublishError, publish::outlet::Outlet},
    text::length,
    timing::Timing,
    wire::Message,
};

/// One line in the log stands for all failures within it.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// What was heard of copies.
pub(super) enum Heard<C> {
    Confirmed(C),
    /// It may be published again.
    Failed(C, PublishError),
    /// One waits for its answer for long.
    Silence(PublishError),
}

type Answer = Result<(), PublishError>;

struct Waiting<C> {
    copy: C,
    place: Arc<str>,
    message_id: String,
    publishing: BoxFuture<'static, Answer>,
    /// Whether it has waited for as long as copies that get through do not.
    is_silent: bool,
}

/// Of one consumer.
pub(super) struct OnTheirWay<C> {
    outlet: Arc<Outlet>,
    waiting: FuturesUnordered<BoxFuture<'static, (Waiting<C>, Option<Answer>)>>,
    /// How many have been without an answer for long, by place.
    silent: BTreeMap<Arc<str>, usize>,
    stuck_after: Duration,
    confirm: Duration,
    /// Between two attempts at the same message at most.
    longest_pause: Duration,
    reported: Option<Instant>,
    failed: Option<Instant>,
}

impl<C: Send + 'static> OnTheirWay<C> {
    pub(super) fn new(outlet: Arc<Outlet>, timing: &Timing) -> Self {
        let (waiting, silent) = (FuturesUnordered::new(), BTreeMap::new());
        Self {
            outlet,
            waiting,
            silent,
            stuck_after: timing.copies_stuck,
            confirm: timing.confirm,
            longest_pause: timing.backoff_longest,
            reported: None,
            failed: None,
        }
    }

    pub(super) fn send(&mut self, place: &str, message: Message, copy: C) {
        let (outlet, place) = (Arc::clone(&self.outlet), Arc::from(place));
        let (to, message_id) = (Arc::clone(&place), message.message_id.clone());
        let publishing = async move { outlet.publish(&to, message).await }.boxed();
        let waiting = Waiting { copy, place, message_id, publishing, is_silent: false };
        self.wait(waiting, self.stuck_after);
    }

    fn wait(&mut self, mut waiting: Waiting<C>, within: Duration) {
        let answer = async move {
            let answer = timeout(within, &mut waiting.publishing).await.ok();
            (waiting, answer)
        };
        self.waiting.push(answer.boxed());
    }

    /// `None` while nothing is on its way.
    pub(super) async fn next(&mut self) -> Option<Heard<C>> {
        loop {
            let (mut waiting, answer) = self.waiting.next().await?;
            let was_silent = waiting.is_silent;
            if let Some(answer) = answer {
                if was_silent && let Some(count) = self.silent.get_mut(&waiting.place) {
                    *count -= 1;
                }
                return Some(match answer {
                    Ok(()) => Heard::Confirmed(waiting.copy),
                    Err(error) => Heard::Failed(waiting.copy, error),
                });
            }
            let (place, message_id) = (Arc::clone(&waiting.place), waiting.message_id.clone());
            waiting.is_silent = true;
            self.wait(waiting, self.confirm);
            if was_silent {
                let reason = format!("no answer from `{place}` within {}", length(self.confirm));
                return Some(Heard::Silence(PublishError::Unknown {
                    message_id,
                    reason,
                    channel_ended: false,
                }));
            }
            *self.silent.entry(place).or_default() += 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Those that have waited for longer than copies that get through.
    pub(super) fn silent(&self) -> usize {
        self.silent.values().sum()
    }

    /// One was refused, or gets no answer. Whether it is time for a line in the log.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.failed = Some(now);
        let is_new = self.reported.is_none_or(|at| now.duration_since(at) >= REPORT_EVERY);
        if is_new {
            self.reported = Some(now);
        }
        is_new
    }

    /// Whether they get through again: everything that was refused has been tried once more.
    pub(super) fn work_again(&mut self, now: Instant) -> bool {
        let over = 2 * self.longest_pause;
        self.silent() == 0 && self.failed.take_if(|at| now.duration_since(*at) >= over).is_some()
    }
}
