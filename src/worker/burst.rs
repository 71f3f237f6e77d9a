//! The bursts of one effect: what its reader and the consumers of its queues share. Messages say that some orders are due, the table says
//! how many, and while the reader closes them their messages wait.
//!
//! A message is acked without a question if its order was asked for by the table after the message came, or if the message names the
//! deadline at which the table closed the order. Any other one may be about a deadline that the order was given since, so it is asked for.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    decisions::{batch::Running, recently_closed::RecentlyClosed},
    order::{OrderId, Outcome},
    store::clock::DatabaseTime,
};

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No task would begin one.
    Off,
    /// One can be asked for, from an instant on.
    Idle(Option<Instant>),
    /// One was asked for, and has not come to its end.
    Runs(Running),
}

/// The bursts of one effect, as their task and the consumers of its queues share them.
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

/// Says when a burst has begun, has ended a pass, or is over.
pub(super) struct Changes(watch::Receiver<Phase>);

impl Changes {
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Burst {
    /// Begins a burst, since much is due. Whether one begins.
    pub(super) fn want(&self, now: Instant) -> bool {
        let begins = self.state.send_if_modified(|state| {
            let begins = matches!(*state, Phase::Idle(from) if from <= Some(now));
            if begins {
                *state = Phase::Runs(Running { moved: now, passed: None });
            }
            begins
        });
        if begins {
            self.wanted.notify_one();
        }
        begins
    }

    /// Some messages are due when they come: the table says whether many are, once it has rested.
    pub(super) fn look(&self) {
        if matches!(*self.state.borrow(), Phase::Idle(_)) {
            self.wanted.notify_one();
        }
    }

    /// It is over, or was none. The next one begins from an instant on.
    pub(super) fn rest(&self, from: Option<Instant>) {
        self.state.send_if_modified(|state| {
            let before = std::mem::replace(state, Phase::Idle(from));
            matches!(before, Phase::Runs(_))
        });
    }

    /// No task would begin one any more.
    pub(super) fn end(&self) {
        self.state.send_replace(Phase::Off);
    }

    /// Waits until one is asked for, or a look at the table.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// How long none begins. Nothing while one runs.
    pub(super) fn rests_for(&self, now: Instant) -> Duration {
        match *self.state.borrow() {
            Phase::Idle(Some(from)) => from.saturating_duration_since(now),
            _ => Duration::ZERO,
        }
    }

    /// Forgets what was closed.
    pub(super) fn forget(&self) {
        *self.closed.lock() = RecentlyClosed::default();
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    /// The burst that messages wait for: one that runs, and has closed something of late.
    pub(super) fn awaited(&self, now: Instant) -> Option<Running> {
        match *self.state.borrow() {
            Phase::Runs(running) if now < running.given_up_at() => Some(running),
            _ => None,
        }
    }

    pub(super) fn is_begun(&self) -> bool {
        matches!(*self.state.borrow(), Phase::Runs(_))
    }

    /// Whether an order was closed by the table after a message about it was received, or at the deadline that the message names.
    pub(super) fn has_closed(
        &self,
        id: &OrderId,
        received: Instant,
        due_at: Option<DatabaseTime>,
    ) -> bool {
        self.closed.lock().has(id, received, due_at.and_then(to_the_millisecond))
    }

    /// It goes on. No consumer is woken: what is closed is acked many at a time.
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

    /// How many orders were closed.
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

/// A deadline as a notice may have it: publishers round it.
fn to_the_millisecond(time: DatabaseTime) -> Option<i64> {
    time.timestamp().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::FinalState;

    /// A burst that was asked for at `now`.
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
