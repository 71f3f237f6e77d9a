//! What follows a commit: ack, hold, put back or park, as `decisions/disposition` decides.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{Consumer, batch_outcome::Closed, copies::Purpose, delivery::Delivery};
use crate::{
    decisions::disposition::{Disposition, NOWHERE_TO_WAIT, Tries, Waits, nowhere_to_wait},
    order::Outcome,
    store::{FailureKind, StoreError},
    telemetry::{self, labels::ParkReason},
    text::error_chain,
    topology::{level_routes::LevelRoutes, route::Route},
    worker::{counters::count, log_lines::Why, session::SessionEnd},
};

/// Below a timer's precision.
const SHORTEST_HOLD: Duration = Duration::from_millis(1);

/// An order is locked for this long before a person hears of it, and hears of it again.
const REPORT_LOCKED_AFTER: Duration = Duration::from_secs(10);
/// Orders that are named at most: a line of the log is to be readable.
const NAMED: usize = 20;

impl Consumer {
    /// Settles a batch, or keeps it where the database did not close it.
    ///
    /// # Errors
    /// The channel is gone: then all of them come again, and find their orders final.
    pub(super) async fn settle(&mut self, closed: Closed) -> Result<(), SessionEnd> {
        let Closed { batch, outcomes, .. } = closed;
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.keep(batch, &error);
                return Ok(());
            }
        };
        if outcomes.iter().any(Option::is_some) && self.outage.ended() {
            telemetry::closing_again(&self.context.timeout.name);
        }
        let now = Instant::now();
        self.add_to_log(&batch, &outcomes);
        self.report(now);
        let routes = self.context.levels.routes();
        for (delivery, outcome) in batch.into_iter().zip(outcomes) {
            self.settle_one(delivery, outcome.as_ref(), &routes, now).await?;
        }
        Ok(())
    }

    /// The database closes nothing at present: the messages stay here, unacked, until it does.
    fn keep(&mut self, batch: Vec<Delivery>, error: &StoreError) {
        let now = Instant::now();
        if let Some(until) = self.outage.failed(now) {
            let reason = error_chain(error);
            let timeout = &self.context.timeout.name;
            telemetry::closing_failed(timeout, batch.len(), &reason, until.duration_since(now));
            if error.kind() == FailureKind::Unavailable {
                self.context.worker.store.drop_connections();
            }
        }
        for delivery in batch {
            self.hold(delivery, now);
        }
    }

    async fn settle_one(
        &mut self,
        mut delivery: Delivery,
        outcome: Option<&Outcome>,
        routes: &LevelRoutes,
        now: Instant,
    ) -> Result<(), SessionEnd> {
        let worker = &self.context.worker;
        let waits = self.waits();
        let hold = waits.hold;
        match delivery.disposition(outcome, waits) {
            Disposition::Ack => {
                if outcome == Some(&Outcome::AlreadyFinal) {
                    count(&worker.counters.already_final, 1);
                }
                self.channels.finish(delivery.source);
            }
            Disposition::Hold { wait } => {
                if delivery.busy == 0 {
                    self.count_held();
                }
                let is_locked = outcome == Some(&Outcome::Busy);
                delivery.busy = delivery.busy.saturating_add(u32::from(is_locked));
                let since = delivery.locked.map_or(now, |(first, _)| first);
                delivery.locked = is_locked.then_some((since, now));
                self.hold(delivery, now + wait.max(SHORTEST_HOLD));
            }
            Disposition::Delay { wait, tries } => {
                match routes.wait(&worker.topology, &self.context.timeout, wait) {
                    Ok(route)
                        if route.is_too_long(wait) && is_waiting(outcome) && !hold.is_zero() =>
                    {
                        self.count_held();
                        self.hold(delivery, now + wait);
                    }
                    Ok(route) => self.delay(delivery, outcome, route, tries),
                    Err(_) => self.without_route(delivery, outcome, wait, hold).await?,
                }
            }
            Disposition::Park { reason } => {
                let class = class(&delivery, outcome);
                self.park(delivery, Why { class, text: reason }).await?;
            }
        }
        Ok(())
    }

    /// What would be tried again is parked with its cause: it would find no order the next time either.
    async fn without_route(
        &mut self,
        delivery: Delivery,
        outcome: Option<&Outcome>,
        wait: Duration,
        hold: Duration,
    ) -> Result<(), SessionEnd> {
        match nowhere_to_wait(wait, hold) {
            Disposition::Hold { wait } if is_waiting(outcome) => {
                self.count_held();
                self.hold(delivery, Instant::now() + wait.max(SHORTEST_HOLD));
                Ok(())
            }
            _ => {
                let class = ParkReason::NowhereToWait;
                self.park(delivery, Why { class, text: without_retry(outcome) }).await
            }
        }
    }

    /// Publishes again what was refused; what was on its way to a level that is gone is decided anew.
    pub(super) fn send_again(&mut self, now: Instant) {
        let routes = self.context.levels.routes();
        for mut delivery in self.copies.send_again(now, |route| routes.leads(route)) {
            delivery.part.drop_copy();
            self.hold(delivery, now);
        }
    }

    /// For what is waited here at present, and how long a retry waits.
    fn waits(&self) -> Waits<'_> {
        let worker = &self.context.worker;
        let (has_bytes, has_channels) = (self.kept.may_wait(), self.channels.may_wait());
        Waits {
            retry: &worker.topology.retry,
            hold: if has_bytes && has_channels { worker.longest_hold() } else { Duration::ZERO },
            lead: if has_bytes { worker.topology.lead.longest() } else { Duration::ZERO },
        }
    }

    /// The longest rest of a deadline that is waited for here at present.
    pub(super) fn longest_hold(&self) -> Duration {
        let Waits { hold, lead, .. } = self.waits();
        hold.max(lead)
    }

    pub(super) fn count_held(&self) {
        count(&self.context.worker.counters.held, 1);
        telemetry::message_held(&self.context.timeout.name);
    }

    pub(super) fn hold(&mut self, delivery: Delivery, until: Instant) {
        self.channels.waits(delivery.source, true);
        self.follow_clock();
        self.held.add(until, delivery);
    }

    fn delay(&mut self, delivery: Delivery, outcome: Option<&Outcome>, route: Route, tries: Tries) {
        let purpose = if is_waiting(outcome) { Purpose::Wait } else { Purpose::Retry };
        telemetry::delayed(&delivery.label(), &route.routing_key, route.holds, tries.attempt);
        let message = delivery.received.put_back(route.clone(), tries.attempt, tries.guarded);
        let delivery = self.copied_from(delivery);
        self.copies.delay(delivery, purpose, message, route);
    }

    /// Where copies do not get through and many wait, the broker parks the original itself, without a reason. So it
    /// does where the body was too large to be kept.
    async fn park(&mut self, delivery: Delivery, why: Why) -> Result<(), SessionEnd> {
        let (topology, timeout) = (&self.context.worker.topology, &self.context.timeout);
        let copies_are_stuck = topology.dead_letters_at_least_once()
            && self.copies.parking_is_stuck(self.bearable_copies());
        if copies_are_stuck || delivery.received.body_left_out().is_some() {
            self.channels.dead_letter(delivery.source).await?;
            self.was_parked(&delivery, why);
            return Ok(());
        }
        let message = delivery.received.park(topology, timeout, &why.text, now());
        let delivery = self.copied_from(delivery);
        self.copies.park(delivery, why, message);
        Ok(())
    }

    /// It waits until its copy is confirmed.
    fn copied_from(&mut self, mut delivery: Delivery) -> Delivery {
        self.channels.waits(delivery.source, true);
        delivery.part.add_copy();
        delivery
    }

    /// Orders that are overdue and that the effect does not close: because of its own rule, or because it fails.
    fn add_to_log(&mut self, batch: &[Delivery], outcomes: &[Option<Outcome>]) {
        let mut guarded = 0;
        for (delivery, outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Some(Outcome::NotDue { remaining }) if remaining.is_zero() => {
                    guarded += 1;
                    self.guarded.add(1, delivery.label());
                }
                Some(Outcome::Failed { reason, .. }) => {
                    self.failing.add(1, (delivery.label(), reason.clone()));
                }
                _ => {}
            }
        }
        count(&self.context.worker.counters.guarded, guarded);
    }

    /// Names the orders that others keep locked, those that are locked for longest first, and who holds the first one.
    pub(super) fn report_locked(&mut self, now: Instant) {
        let is_new = |at: Instant| now.saturating_duration_since(at) < REPORT_LOCKED_AFTER;
        if self.locked_reported.is_some_and(is_new) || !self.naming.is_empty() {
            return;
        }
        let locked = self.held.iter().filter_map(|delivery| {
            let (first, last) = delivery.locked?;
            Some((last.saturating_duration_since(first), delivery.order_id()?))
        });
        let mut locked: Vec<_> =
            locked.filter(|(since, _)| *since >= REPORT_LOCKED_AFTER).collect();
        locked.sort_unstable_by(|(a, x), (b, y)| b.cmp(a).then(x.cmp(y)));
        let Some((longest, first)) = locked.first().map(|(since, id)| (*since, (*id).clone()))
        else {
            return;
        };
        self.locked_reported = Some(now);
        let (context, orders) = (Arc::clone(&self.context), locked.len());
        let named: Vec<String> = locked.iter().take(NAMED).map(|(_, id)| id.to_string()).collect();
        self.naming.spawn(async move {
            let effect = &context.worker.effects[&context.timeout.effect];
            let lock = context.worker.store.lock_of(effect, &[first]).await;
            telemetry::held(&effect.name, orders, &named.join(","), longest, &lock.to_string());
        });
    }

    pub(super) fn report(&mut self, now: Instant) {
        let timeout = &self.context.timeout.name;
        if let Some((orders, first)) = self.guarded.due(now) {
            telemetry::guarded(timeout, orders, &first);
        }
        if let Some((orders, (first, reason))) = self.failing.due(now) {
            telemetry::failing(timeout, orders, &first, &reason);
        }
        self.parked.report(timeout);
    }
}

/// Why a message is given up.
fn class(delivery: &Delivery, outcome: Option<&Outcome>) -> ParkReason {
    match outcome {
        _ if delivery.order_id().is_none() => ParkReason::Unreadable,
        Some(Outcome::Failed { .. }) => ParkReason::Failed,
        Some(Outcome::Unknown) | None => ParkReason::Unknown,
        Some(_) => ParkReason::NowhereToWait,
    }
}

/// For people who look into the parking lot.
#[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Whether a message waits through no fault of its order.
fn is_waiting(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::NotDue { .. } | Outcome::Busy | Outcome::Postponed { .. }))
}

/// Why a message is parked that could have been tried again, with the cause of that.
fn without_retry(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Outcome::Failed { reason, .. }) => format!("{reason}; {NOWHERE_TO_WAIT}"),
        Some(Outcome::Unknown) | None => {
            format!("the database does not know this order; {NOWHERE_TO_WAIT}")
        }
        _ => NOWHERE_TO_WAIT.to_owned(),
    }
}
