//! Copies on their way to a level or to the parking lot. Each is tried again until it is confirmed, and one for a level is
//! there when a look says that the level was, too.
//!
//! They never stand in the way of what needs no copy: a broker that takes no messages (memory or disk alarm), a full
//! parking lot or a full level stops only them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use tokio::sync::watch;

use super::{
    confirmed_copies::{Arrival, ConfirmedCopies},
    delivery::Delivery,
};
use crate::{
    broker::{PublishError, publish::outlet::Outlet},
    decisions::timer_queue::TimerQueue,
    timing::Timing,
    topology::route::Route,
    wire::Message,
    worker::{
        level_watch::{LevelWatch, Looked},
        log_lines::Why,
        on_their_way::{Heard, OnTheirWay},
    },
};

/// Before a copy that was refused is tried again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The place of what is parked.
const PARKING_LOT: &str = "the parking lot";
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
    Park(Why),
}

/// A delivery that is acked when its copy is confirmed and there.
pub(super) struct Copy {
    pub(super) delivery: Delivery,
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

/// The copies of one queue's consumer.
pub(super) struct Copies {
    sending: OnTheirWay<Copy>,
    refused: TimerQueue<Copy>,
    /// Confirmed; whether their levels took them is not known yet.
    confirmed: ConfirmedCopies<Copy>,
    levels: Arc<LevelWatch>,
    looked: watch::Receiver<Option<Looked>>,
    reported: Option<Instant>,
    /// Between two attempts at the same copy.
    longest_pause: Duration,
}

impl Copies {
    pub(super) fn new(outlet: Arc<Outlet>, levels: Arc<LevelWatch>, timing: &Timing) -> Self {
        Self {
            sending: OnTheirWay::new(outlet, timing),
            refused: TimerQueue::default(),
            confirmed: ConfirmedCopies::new(timing.copies_believed),
            looked: levels.subscribe(),
            levels,
            reported: None,
            longest_pause: timing.backoff_longest,
        }
    }

    /// To the parking lot.
    pub(super) fn park(&mut self, delivery: Delivery, why: Why, message: Message) {
        let purpose = Purpose::Park(why);
        self.send(Copy { delivery, purpose, message, route: None, failures: 0 });
    }

    /// To where it waits.
    pub(super) fn delay(
        &mut self,
        delivery: Delivery,
        purpose: Purpose,
        message: Message,
        route: Route,
    ) {
        self.send(Copy { delivery, purpose, message, route: Some(route), failures: 0 });
    }

    fn send(&mut self, copy: Copy) {
        let place = copy.route().map_or(PARKING_LOT, Route::place).to_owned();
        self.sending.send(&place, copy.message.clone(), copy);
    }

    /// Publishes again what was refused and has waited. Gives back those for a level that `leads` does not know.
    pub(super) fn send_again(
        &mut self,
        now: Instant,
        leads: impl Fn(&Route) -> bool,
    ) -> Vec<Delivery> {
        let mut gone = Vec::new();
        for copy in self.refused.take_due(now, usize::MAX) {
            if copy.route().is_none_or(&leads) {
                self.send(copy);
            } else {
                gone.push(copy.delivery);
            }
        }
        gone
    }

    pub(super) fn next_try(&self) -> Option<Instant> {
        self.refused.next()
    }

    /// What has been confirmed and where it is, and why something was not; `None` while nothing is waited for.
    pub(super) async fn arrived(&mut self) -> Option<(Vec<(Copy, Arrival)>, Option<PublishError>)> {
        loop {
            let until = self.confirmed.until();
            let (arrived, failure) = tokio::select! {
                biased;
                Ok(()) = self.looked.changed(), if until.is_some() => (self.looked(), None),
                () = sleep_until(until), if until.is_some() => (self.given_up(), None),
                Some(heard) = self.sending.next() => self.heard(heard),
                else => return None,
            };
            if !arrived.is_empty() || failure.is_some() {
                return Some((arrived, failure));
            }
        }
    }

    fn heard(&mut self, first: Heard<Copy>) -> (Vec<(Copy, Arrival)>, Option<PublishError>) {
        let (mut arrived, mut failure) = (Vec::new(), None);
        let mut next = Some(first);
        while let Some(heard) = next {
            match heard {
                Heard::Confirmed(copy) => arrived.extend(self.confirmed(copy)),
                Heard::Failed(copy, error) => {
                    self.refuse(copy);
                    failure = Some(error);
                }
                Heard::Silence(error) => failure = Some(error),
            }
            next = self.sending.next().now_or_never().flatten();
        }
        if !self.confirmed.is_empty() {
            self.levels.want();
        }
        (arrived, failure)
    }

    /// What is in the parking lot is there; so is everything where nobody can be asked.
    fn confirmed(&mut self, copy: Copy) -> Option<(Copy, Arrival)> {
        if copy.route.is_none() {
            return Some((copy, Arrival::There));
        }
        if !self.levels.says() {
            return Some((copy, Arrival::Unknown));
        }
        self.confirmed.add(Instant::now(), copy);
        None
    }

    /// A look speaks only of what was confirmed before it began: a level that is there then was there before.
    fn looked(&mut self) -> Vec<(Copy, Arrival)> {
        let Some(Looked { began, routes }) = self.looked.borrow_and_update().clone() else {
            return Vec::new();
        };
        let arrival = |copy: &Copy| match (&routes, &copy.route) {
            (Some(routes), Some(route)) if !routes.leads(route) => Arrival::Gone,
            (Some(_), _) => Arrival::There,
            (None, _) => Arrival::Unknown,
        };
        let copies = self.confirmed.before(began).into_iter();
        let arrived = copies.map(|copy| (arrival(&copy), copy)).map(|(to, copy)| (copy, to));
        let arrived = arrived.collect();
        if !self.confirmed.is_empty() {
            self.levels.want();
        }
        arrived
    }

    fn given_up(&mut self) -> Vec<(Copy, Arrival)> {
        let copies = self.confirmed.given_up(Instant::now()).into_iter();
        copies.map(|copy| (copy, Arrival::Unknown)).collect()
    }

    fn refuse(&mut self, mut copy: Copy) {
        let pause = pause_after(copy.failures, self.longest_pause);
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

    /// Whether something is being sent, or is confirmed and not known to be there.
    pub(super) fn are_on_their_way(&self) -> bool {
        self.sending.len() > 0 || !self.confirmed.is_empty()
    }

    /// Whether something was refused, or has waited for its confirm for long.
    pub(super) fn are_stuck(&self) -> bool {
        !self.refused.is_empty() || self.sending.silent() > 0
    }

    /// Whether another one for the parking lot would only wait.
    pub(super) fn parking_is_stuck(&self, bearable: usize) -> bool {
        let parks = |copy: &&Copy| matches!(copy.purpose, Purpose::Park(_));
        let refused = self.refused.iter().filter(parks).take(bearable).count();
        self.sending.silent_at(PARKING_LOT) + refused >= bearable
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at.into()).await;
    }
}

fn pause_after(failures: u32, longest: Duration) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::{Duration, FIRST_PAUSE, pause_after};

    #[test]
    fn the_pauses_of_a_copy_that_is_refused_for_ever_grow_up_to_the_longest() {
        let longest = Duration::from_secs(5);
        let pause_after = |failures| pause_after(failures, longest);
        assert_eq!(pause_after(0), FIRST_PAUSE);
        for failures in 0..1_000 {
            assert!(pause_after(failures) <= pause_after(failures + 1));
            assert!(pause_after(failures) <= longest);
        }
        assert_eq!(pause_after(u32::MAX), longest);
    }
}
