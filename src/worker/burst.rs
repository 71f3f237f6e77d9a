//! The bursts of one effect, shared by its reader and the consumers of its queues. Messages show that some orders are due,
//! the table shows how many. While the reader closes them, their messages wait.
//!
//! A consumer acks a message without a query in two cases: the table was read for its order after the message arrived, or the
//! message has the deadline at which the table closed the order. Any other message may be about a later deadline of the
//! order, so its order is queried.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    decisions::{batch::BurstProgress, recently_closed::RecentlyClosed},
    order::{OrderId, Outcome},
    store::clock::DatabaseTime,
};

/// Phase of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No task runs bursts.
    Off,
    /// No burst runs. A request is accepted from this instant on; `None`: at once.
    Idle(Option<Instant>),
    /// A burst was requested, and has not ended.
    Runs(BurstProgress),
}

/// The bursts of one effect, as the reader and the consumers share them.
#[derive(Debug)]
pub(crate) struct Burst {
    wanted: Notify,
    state: watch::Sender<Phase>,
    closed: Mutex<RecentlyClosed>,
}

impl Default for Burst {
    fn default() -> Self {
        let state = watch::Sender::new(Phase::Off);
        Self { wanted: Notify::new(), state, closed: Mutex::default() }
    }
}

/// Wakes a consumer when a burst has begun, has completed a pass, or is over.
pub(super) struct Changes(watch::Receiver<Phase>);

impl Changes {
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Burst {
    /// Begins a burst, because many orders are due. Returns whether one begins.
    pub(super) fn want(&self, now: Instant) -> bool {
        let begins = self.state.send_if_modified(|state| {
            let begins = matches!(*state, Phase::Idle(from) if from <= Some(now));
            if begins {
                *state = Phase::Runs(BurstProgress { moved: now, passed: None });
            }
            begins
        });
        if begins {
            self.wanted.notify_one();
        }
        begins
    }

    /// Requests a reading of the table, because messages were due on arrival. The table shows whether many orders are due.
    pub(super) fn look(&self) {
        if matches!(*self.state.borrow(), Phase::Idle(_)) {
            self.wanted.notify_one();
        }
    }

    /// Ends a running burst. The next burst may begin at `from`; `None`: at once.
    pub(super) fn rest(&self, from: Option<Instant>) {
        self.state.send_if_modified(|state| {
            let before = std::mem::replace(state, Phase::Idle(from));
            matches!(before, Phase::Runs(_))
        });
    }

    /// Refuses all bursts from now on: the task that runs them has ended.
    pub(super) fn end(&self) {
        self.state.send_replace(Phase::Off);
    }

    /// Waits until a burst or a reading of the table is requested.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Time until a burst may begin; zero while one runs.
    pub(super) fn rests_for(&self, now: Instant) -> Duration {
        match *self.state.borrow() {
            Phase::Idle(Some(from)) => from.saturating_duration_since(now),
            _ => Duration::ZERO,
        }
    }

    /// Forgets the closed orders.
    pub(super) fn forget(&self) {
        *self.closed.lock() = RecentlyClosed::default();
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    /// The burst that messages wait for: it runs, and closed an order recently.
    pub(super) fn awaited(&self, now: Instant) -> Option<BurstProgress> {
        match *self.state.borrow() {
            Phase::Runs(running) if now < running.given_up_at() => Some(running),
            _ => None,
        }
    }

    pub(super) fn is_begun(&self) -> bool {
        matches!(*self.state.borrow(), Phase::Runs(_))
    }

    /// Whether the table closed an order after a message about it was received, or at the deadline of the message.
    pub(super) fn has_closed(
        &self,
        id: &OrderId,
        received: Instant,
        due_at: Option<DatabaseTime>,
    ) -> bool {
        self.closed.lock().has(id, received, due_at.and_then(to_the_millisecond))
    }

    /// Records progress of a burst. It wakes no consumer, so that many messages are acked at a time.
    pub(super) fn moved(&self, now: Instant) {
        self.state.send_if_modified(|state| {
            if let Phase::Runs(running) = state {
                running.moved = now;
            }
            false
        });
    }

    pub(super) fn passed(&self, began: Instant) {
        self.state.send_if_modified(|state| {
            let Phase::Runs(running) = state else { return false };
            running.passed = Some(began);
            true
        });
    }

    /// Records the outcomes of a page. Returns the number of closed orders.
    pub(super) fn answered(
        &self,
        (ids, deadlines): (&[OrderId], &[DatabaseTime]),
        outcomes: &[Outcome],
        asked: Instant,
    ) -> usize {
        let orders = ids.iter().zip(deadlines).zip(outcomes);
        let closed = orders.filter(|(_, outcome)| matches!(outcome, Outcome::Closed { .. }));
        let closed = closed.map(|((id, deadline), _)| (id.clone(), to_the_millisecond(*deadline)));
        let count = self.closed.lock().add(closed, asked);
        if count > 0 {
            self.moved(Instant::now());
        }
        count
    }
}

/// A deadline in milliseconds since 1970, as a notice may have it: publishers round it.
fn to_the_millisecond(time: DatabaseTime) -> Option<i64> {
    time.timestamp().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::FinalState;

    /// A burst that was requested at `now`.
    fn running(now: Instant) -> Burst {
        let burst = Burst::default();
        assert!(!burst.want(now) && burst.awaited(now).is_none(), "no task would begin one");
        burst.rest(None);
        assert!(burst.want(now) && !burst.want(now), "it is asked for once");
        burst
    }

    #[test]
    fn a_burst_is_awaited_as_long_as_it_closes_orders() {
        let now = Instant::now();
        let burst = running(now);
        let given_up = burst.awaited(now).expect("it has just begun").given_up_at();
        assert!(given_up > now && burst.awaited(given_up).is_none());
        burst.moved(given_up);
        let again = burst.awaited(given_up).expect("it has moved").given_up_at();
        assert!(again > given_up);
        burst.rest(Some(again));
        assert!(burst.awaited(given_up).is_none(), "it is over");
        assert!(!burst.want(given_up) && burst.want(again), "it rests");
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_end_of_a_pass_and_not_by_each_page() {
        let now = Instant::now();
        let burst = running(now);
        let mut changes = burst.changes();
        burst.moved(now);
        assert!(!changes.0.has_changed().unwrap());
        burst.passed(now);
        changes.next().await;
        assert_eq!(burst.awaited(now).unwrap().passed, Some(now));
    }

    #[test]
    fn only_closed_orders_are_remembered() {
        let received = Instant::now();
        let (burst, asked) = (running(received), received + Duration::from_millis(25));
        let ids = ["o-1", "o-2", "o-3"].map(|id| OrderId::parse(id).unwrap());
        let state = FinalState::of_outcome("closed").unwrap();
        let closed = Outcome::Closed { late: Duration::ZERO, state };
        let outcomes = [closed, Outcome::AlreadyFinal, Outcome::Busy];
        let deadlines = [1_000, 2_000, 3_000].map(DatabaseTime::from_unix_ms);
        assert_eq!(burst.answered((&ids, &deadlines), &outcomes, asked), 1);
        assert_eq!(
            ids.each_ref().map(|id| burst.has_closed(id, received, None)),
            [true, false, false]
        );
        assert!(!burst.has_closed(&ids[0], asked, None));
        assert!(burst.has_closed(&ids[0], asked, Some(deadlines[0])));
        assert!(!burst.has_closed(&ids[0], asked, Some(deadlines[1])));
    }
}
