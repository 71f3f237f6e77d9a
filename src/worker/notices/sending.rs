//! Notices that are published and not confirmed yet. A pass does not wait for long for the last of them, and publishes none of
//! them twice meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::timeout_at;

use super::doubts::Doubts;
use crate::{
    broker::{PublishError, Publisher},
    store::schedule::ScheduledNotice,
    timing::Timing,
    topology::route::Route,
    wire::{DueNotice, Message},
};

/// What was heard of a notice.
pub(super) struct Heard {
    pub(super) notice: ScheduledNotice,
    /// Nothing, for as long as it was waited for: why.
    pub(super) answer: Result<Result<(), PublishError>, String>,
}

type Answer = (ScheduledNotice, Option<Result<(), PublishError>>);

/// A notice on its way.
#[derive(Debug)]
struct Sent {
    /// Where it waits first: one queue.
    place: String,
    /// When its page was begun.
    page: Instant,
}

/// Everything on its way.
pub(super) struct Sending {
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// By row.
    sent: BTreeMap<i64, Sent>,
    doubts: Doubts,
    /// How long a page waits for its confirms.
    silence: Duration,
    /// After this long nothing more is expected of a message.
    given_up: Duration,
}

/// The word before the last of a routing key chooses the queue: that of a level, or of a digit where a ladder is entered.
fn place_of(route: &Route) -> String {
    let word = route.routing_key.rsplit('.').nth(1).unwrap_or_default();
    format!("`{word}` in exchange `{}`", route.exchange)
}

fn unconfirmed(place: &str) -> String {
    format!("no confirm for {place}")
}

impl Sending {
    pub(super) fn new(timing: &Timing) -> Self {
        let (answers, sent) = (FuturesUnordered::new(), BTreeMap::new());
        let (silence, given_up) = (timing.notices_silence, timing.notice_given_up);
        Self { answers, sent, doubts: Doubts::new(timing), silence, given_up }
    }

    /// Publishes a notice, in the page that was begun at `page`.
    ///
    /// # Errors
    /// Why it waits: it is on its way, or others have no confirm.
    pub(super) fn send(
        &mut self,
        publisher: &Publisher,
        notice: ScheduledNotice,
        route: Route,
        page: Instant,
    ) -> Result<(), String> {
        let (place, end) = (place_of(&route), page + self.given_up);
        let is_free = !self.sent.contains_key(&notice.id);
        if !is_free || !self.doubts.may_try(&place, Instant::now(), end) {
            return Err(unconfirmed(&place));
        }
        let due = DueNotice { order_id: notice.order_id.clone(), due_at: Some(notice.due_at) };
        let (message, publisher) = (Message::notice(route, &due), publisher.clone());
        self.sent.insert(notice.id, Sent { place, page });
        self.answers.push(Box::pin(async move {
            let answer = timeout_at(end.into(), publisher.publish(message)).await;
            (notice, answer.ok())
        }));
        Ok(())
    }

    /// What is heard of those of this page, and of others meanwhile; and why some of the page are left, where they are.
    pub(super) async fn heard(&mut self, page: Instant) -> (Vec<Heard>, Option<String>) {
        let mut open = self.of_page(page).count();
        let mut heard = Vec::with_capacity(open);
        let end = tokio::time::Instant::from(page + self.silence);
        loop {
            let next = if open > 0 {
                timeout_at(end, self.answers.next()).await.ok().flatten()
            } else {
                self.answers.next().now_or_never().flatten()
            };
            let Some((notice, answer)) = next else { break };
            let Some(sent) = self.sent.remove(&notice.id) else { continue };
            open -= usize::from(sent.page == page);
            self.judge(&sent.place, answer.as_ref());
            heard.push(Heard { notice, answer: answer.ok_or_else(|| unconfirmed(&sent.place)) });
        }
        let places: BTreeSet<String> = self.of_page(page).cloned().collect();
        for place in &places {
            self.doubts.waits(place, page + self.given_up);
        }
        (heard, places.first().map(|place| unconfirmed(place)))
    }

    fn of_page(&self, page: Instant) -> impl Iterator<Item = &String> {
        self.sent.values().filter(move |sent| sent.page == page).map(|sent| &sent.place)
    }

    fn judge(&mut self, place: &str, answer: Option<&Result<(), PublishError>>) {
        match answer {
            Some(Ok(())) => self.doubts.confirmed(place),
            Some(Err(PublishError::Refused { .. } | PublishError::Returned { .. })) | None => {
                self.doubts.failed(place, Instant::now());
            }
            // It is about the connection, or the message.
            Some(Err(_)) => {}
        }
    }

    /// How many are on their way.
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// The connection is gone: nothing more is heard of them.
    pub(super) fn give_up(&mut self) {
        self.answers.clear();
        self.sent.clear();
    }
}
