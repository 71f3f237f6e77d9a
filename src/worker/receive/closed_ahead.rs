//! Deliveries of one queue whose orders are probably being closed ahead of them.
//!
//! They wait for the sweep-ahead of their effect: to be acked, or to be asked for where it has passed over them. A message
//! waits until a lap has ended that began after it came. Acks are left for the end of a lap, and nothing more is received
//! while many wait: in a burst the database is to have the machine to itself. It lasts as long as orders are closed; where
//! none was for half a second, the messages are asked for.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use tokio::sync::watch;

use super::delivery::Delivery;
use crate::worker::ahead_state::{Ahead, State};

/// The lap that is under way when a message comes may have begun before its order was due.
const LAPS: u64 = 2;

/// What waits, in the order it came.
pub(super) struct ClosedAhead {
    ahead: Arc<Ahead>,
    state: watch::Receiver<State>,
    /// Each with the lap after which it does not wait any more.
    waiting: VecDeque<(u64, Delivery)>,
    /// Laps that were looked at.
    looked: u64,
}

impl ClosedAhead {
    pub(super) fn new(ahead: Arc<Ahead>) -> Self {
        let state = ahead.watch();
        Self { ahead, state, waiting: VecDeque::new(), looked: 0 }
    }

    /// More is due than a batch holds.
    pub(super) fn want(&self) {
        self.ahead.want();
    }

    /// Whether its order was closed ahead of it.
    pub(super) fn is_closed(&self, delivery: &Delivery, now: Instant) -> bool {
        delivery.order_id().is_some_and(|id| self.ahead.take(id, now))
    }

    /// Whether a message should wait, which it does once at the most.
    pub(super) fn may_wait(&self, delivery: &Delivery, now: Instant) -> bool {
        !delivery.has_waited && self.is_ahead(now) && self.may_be_closed(delivery, now)
    }

    /// Unless it was passed over already.
    fn may_be_closed(&self, delivery: &Delivery, now: Instant) -> bool {
        delivery.order_id().is_some_and(|id| !self.ahead.is_left(id, now))
    }

    fn is_ahead(&self, now: Instant) -> bool {
        self.state.borrow().closes(now)
    }

    pub(super) fn add(&mut self, mut delivery: Delivery) {
        delivery.has_waited = true;
        self.waiting.push_back((self.ahead.laps() + LAPS, delivery));
    }

    /// Its message was answered, so that this is not remembered for another one.
    pub(super) fn forget(&self, delivery: &Delivery, now: Instant) {
        if let Some(id) = delivery.order_id() {
            let _ = self.ahead.take(id, now);
        }
    }

    /// Whether at least `many` wait.
    pub(super) fn has(&self, many: usize) -> bool {
        self.waiting.len() >= many
    }

    /// When it is to be looked what has become of them: at once where a lap has ended, or the sweep-ahead is over.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let (first, _) = self.waiting.front()?;
        let (state, laps) = (*self.state.borrow(), self.ahead.laps());
        let goes_on = state.closes(now) && laps == self.looked && laps < *first;
        if goes_on { state.given_up_at() } else { Some(now) }
    }

    /// Waits until the sweep-ahead has begun, has ended a lap, or is over.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Takes those that wait no longer: whose orders are closed, and at most `room` that are to be asked for.
    pub(super) fn take(&mut self, now: Instant, room: usize) -> (Vec<Delivery>, Vec<Delivery>) {
        let state = *self.state.borrow_and_update();
        self.looked = self.ahead.laps();
        let is_ahead = state.closes(now);
        let (mut closed, mut open, mut kept) = (Vec::new(), Vec::new(), VecDeque::new());
        while let Some((until, delivery)) = self.waiting.pop_front() {
            if self.is_closed(&delivery, now) {
                closed.push(delivery);
            } else if is_ahead && self.looked < until && self.may_be_closed(&delivery, now) {
                kept.push_back((until, delivery));
            } else if open.len() < room {
                open.push(delivery);
            } else {
                self.waiting.push_front((until, delivery));
                break;
            }
        }
        kept.append(&mut self.waiting);
        self.waiting = kept;
        (closed, open)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        order::{FinalState, OrderId, Outcome},
        wire::Received,
        worker::{channels::Source, kept_bytes::KeptBytes},
    };

    /// A sweep-ahead that runs, and those who wait for it. `began` is before everything that follows.
    fn running() -> (Arc<Ahead>, ClosedAhead, Instant) {
        let (ahead, began) = (Arc::<Ahead>::default(), Instant::now());
        ahead.state.send_replace(State::Idle(None));
        let closed_ahead = ClosedAhead::new(Arc::clone(&ahead));
        closed_ahead.want();
        (ahead, closed_ahead, began)
    }

    fn message(body: &str) -> Delivery {
        let received = Received { body: body.as_bytes().to_vec(), ..Received::default() };
        Delivery::read(Source::of(1), received, &KeptBytes::default())
    }

    fn ids(taken: &[Delivery]) -> Vec<String> {
        taken.iter().map(Delivery::label).collect()
    }

    /// Closed and open ones, at most `room` of those.
    fn take(
        closed_ahead: &mut ClosedAhead,
        now: Instant,
        room: usize,
    ) -> (Vec<String>, Vec<String>) {
        let (closed, open) = closed_ahead.take(now, room);
        (ids(&closed), ids(&open))
    }

    fn answered(ahead: &Ahead, id: &str, outcome: Outcome) {
        ahead.answered(&[OrderId::parse(id).unwrap()], &[outcome]);
    }

    fn closed() -> Outcome {
        Outcome::Closed { late: Duration::ZERO, state: FinalState::of_outcome("closed").unwrap() }
    }

    const NONE: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());

    #[test]
    fn a_message_waits_for_the_lap_that_began_after_it_came_and_only_once() {
        let (ahead, mut closed_ahead, now) = running();
        let delivery = message("o-1");
        assert!(closed_ahead.may_wait(&delivery, now));
        closed_ahead.add(delivery);
        assert_eq!(take(&mut closed_ahead, now, 9), NONE);
        // This one may have begun before its order was due.
        ahead.lap_ended();
        assert_eq!(
            closed_ahead.next(now),
            Some(now),
            "a lap has ended: there is something to look at"
        );
        assert_eq!(take(&mut closed_ahead, now, 9), NONE);
        assert!(closed_ahead.next(now) > Some(now));
        ahead.lap_ended();
        let (closed, open) = closed_ahead.take(now, 9);
        assert_eq!((ids(&closed), ids(&open)), (vec![], vec!["o-1".to_owned()]));
        assert!(!closed_ahead.may_wait(&open[0], now), "it has waited");
        assert!(!closed_ahead.has(1) && closed_ahead.next(now).is_none());
    }

    #[test]
    fn what_was_closed_ahead_is_found_at_any_time_and_for_one_message() {
        let (ahead, mut closed_ahead, now) = running();
        for id in ["o-1", "o-2", "o-1"] {
            closed_ahead.add(message(id));
        }
        answered(&ahead, "o-1", closed());
        assert_eq!(take(&mut closed_ahead, now, 9), (vec!["o-1".to_owned()], vec![]));
        assert!(closed_ahead.has(2), "the second message about it is asked for, like any other");
        ahead.lap_ended();
        ahead.lap_ended();
        assert_eq!(take(&mut closed_ahead, now, 9).1, ["o-2", "o-1"]);
    }

    #[test]
    fn what_was_passed_over_is_asked_for_at_once() {
        let failed = Outcome::Failed { cause: "23514".to_owned(), reason: "a check".to_owned() };
        for outcome in [Outcome::Busy, Outcome::Unknown, failed] {
            let (ahead, mut closed_ahead, now) = running();
            closed_ahead.add(message("o-1"));
            closed_ahead.add(message("o-2"));
            answered(&ahead, "o-1", outcome);
            assert_eq!(take(&mut closed_ahead, now, 9).1, ["o-1"]);
            assert!(closed_ahead.has(1) && !closed_ahead.may_wait(&message("o-1"), now));
        }
    }

    /// Its message has had its answer from the database.
    #[test]
    fn what_was_answered_otherwise_is_not_remembered_for_the_next_message() {
        let (ahead, closed_ahead, now) = running();
        answered(&ahead, "o-1", closed());
        let delivery = message("o-1");
        closed_ahead.forget(&delivery, now);
        assert!(!closed_ahead.is_closed(&delivery, now));
        answered(&ahead, "o-2", Outcome::AlreadyFinal);
        assert!(
            !closed_ahead.is_closed(&message("o-2"), now),
            "it was not closed ahead of its message"
        );
    }

    #[test]
    fn nobody_waits_for_a_sweep_ahead_that_is_over_or_closes_nothing() {
        let (ahead, mut closed_ahead, now) = running();
        for n in 0..5 {
            closed_ahead.add(message(&format!("o-{n}")));
        }
        let given_up = closed_ahead.next(now).unwrap();
        assert!(given_up > now);
        assert_eq!(take(&mut closed_ahead, now, 9), NONE);
        assert_eq!(take(&mut closed_ahead, given_up, 2).1, ["o-0", "o-1"]);
        assert!(!closed_ahead.may_wait(&message("o-9"), given_up));
        ahead.state.send_replace(State::Idle(None));
        assert_eq!(closed_ahead.next(now), Some(now));
        assert_eq!(take(&mut closed_ahead, now, 9).1, ["o-2", "o-3", "o-4"]);
    }

    #[test]
    fn while_another_worker_closes_ahead_they_go_on_waiting() {
        let (ahead, mut closed_ahead, now) = running();
        closed_ahead.add(message("o-1"));
        let given_up = closed_ahead.next(now).unwrap();
        ahead.another_closes();
        assert!(closed_ahead.next(now).unwrap() > given_up);
        assert_eq!(take(&mut closed_ahead, given_up, 9), NONE);
    }

    #[test]
    fn only_a_message_about_an_order_waits_and_only_where_somebody_closes_ahead() {
        let (ahead, closed_ahead, now) = running();
        assert!(!closed_ahead.may_wait(&message("not an order id"), now));
        ahead.state.send_replace(State::Off);
        assert!(!closed_ahead.may_wait(&message("o-1"), now));
        closed_ahead.want();
        assert!(!closed_ahead.may_wait(&message("o-1"), now), "nobody would do it");
    }
}
