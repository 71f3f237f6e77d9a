//! What follows a commit: ack, hold, put back or park. The only place that decides how a delivery is settled.

use std::time::{Duration, Instant};

use super::{
    copies::{Copy, Purpose},
    copy_publisher::CopyError,
    counters::count,
    disposition::{Disposition, NOWHERE_TO_WAIT, Tries, nowhere_to_wait},
    due::Due,
    receive::{Closed, Consumer},
    session_end::SessionEnd,
};
use crate::{
    order::Outcome,
    store::{FailureKind, StoreError},
    telemetry,
    text::error_chain,
    topology::{level_routes::LevelRoutes, route::Route},
};

/// Below a timer's precision.
const SHORTEST_HOLD: Duration = Duration::from_millis(1);
/// Why a copy is in the parking lot that was on its way to a level.
const LEVEL_GONE: &str = "the broker does not route to its level any more";

impl Consumer {
    /// Settles a batch, or keeps it where the database did not close it.
    ///
    /// # Errors
    /// The channel is gone: then all of them come again, and find their orders final.
    pub(super) async fn settle(&mut self, closed: Closed) -> Result<(), SessionEnd> {
        let Closed { batch, outcomes } = closed;
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
        self.report_guarded(&batch, &outcomes);
        let now = Instant::now();
        let context = &self.context;
        let routes = context.levels.routes();
        for (due, outcome) in batch.into_iter().zip(outcomes) {
            self.settle_one(due, outcome.as_ref(), &routes, now).await?;
        }
        Ok(())
    }

    /// The database closes nothing at present: the messages stay here, unacked, until it does.
    fn keep(&mut self, batch: Vec<Due>, error: &StoreError) {
        let now = Instant::now();
        if let Some(until) = self.outage.failed(now) {
            let reason = error_chain(error);
            let timeout = &self.context.timeout.name;
            telemetry::closing_failed(timeout, batch.len(), &reason, until.duration_since(now));
            if error.kind() == FailureKind::Unavailable {
                self.context.worker.store.drop_connections();
            }
        }
        for due in batch {
            self.hold(due, now);
        }
    }

    async fn settle_one(
        &mut self,
        mut due: Due,
        outcome: Option<&Outcome>,
        routes: &LevelRoutes,
        now: Instant,
    ) -> Result<(), SessionEnd> {
        let worker = &self.context.worker;
        let may_wait = self.channels.may_wait() && self.kept.may_wait();
        let hold = if may_wait { worker.settings.hold.as_duration() } else { Duration::ZERO };
        match due.disposition(outcome, &worker.topology, hold) {
            Disposition::Ack => {
                if outcome == Some(&Outcome::AlreadyFinal) {
                    count(&worker.counters.already_final, 1);
                }
                self.channels.finish(due.source);
            }
            Disposition::Hold { wait } => {
                count(&worker.counters.held, usize::from(due.busy == 0));
                let again = u32::from(outcome == Some(&Outcome::Busy));
                due.busy = due.busy.saturating_add(again);
                self.hold(due, now + wait.max(SHORTEST_HOLD));
            }
            Disposition::Delay { wait, tries } => {
                match routes.wait(&worker.topology, &self.context.timeout, wait) {
                    Ok(route) => self.delay(due, outcome, route, tries),
                    Err(_) => self.without_route(due, outcome, wait, hold).await?,
                }
            }
            Disposition::Park { reason } => self.park(due, reason).await?,
        }
        Ok(())
    }

    /// What would be tried again is parked with its cause: it would find no order the next time either.
    async fn without_route(
        &mut self,
        due: Due,
        outcome: Option<&Outcome>,
        wait: Duration,
        hold: Duration,
    ) -> Result<(), SessionEnd> {
        match nowhere_to_wait(wait, hold) {
            Disposition::Hold { wait } if is_waiting(outcome) => {
                count(&self.context.worker.counters.held, 1);
                self.hold(due, Instant::now() + wait.max(SHORTEST_HOLD));
                Ok(())
            }
            _ => self.park(due, without_retry(outcome)).await,
        }
    }

    /// Publishes again what was refused; what was on its way to a level that is gone is decided anew.
    pub(super) fn send_again(&mut self, now: Instant) {
        let routes = self.context.levels.routes();
        for mut due in self.copies.send_again(now, |route| routes.leads(route)) {
            due.part.drop_copy();
            self.hold(due, now);
        }
    }

    fn hold(&mut self, due: Due, until: Instant) {
        self.channels.waits(due.source, true);
        self.held.add(until, due);
    }

    fn delay(&mut self, due: Due, outcome: Option<&Outcome>, route: Route, tries: Tries) {
        let purpose = if is_waiting(outcome) { Purpose::Wait } else { Purpose::Retry };
        telemetry::delayed(&due.label(), &route.routing_key, route.holds, tries.attempt);
        let message = due.received.put_back(route.clone(), tries.attempt, tries.guarded);
        let due = self.copied_from(due);
        self.copies.delay(due, purpose, message, route);
    }

    /// Where copies do not get through and many wait, the broker parks the original itself, without a reason. So it
    /// does where the body was too large to be kept.
    async fn park(&mut self, due: Due, reason: String) -> Result<(), SessionEnd> {
        let (topology, timeout) = (&self.context.worker.topology, &self.context.timeout);
        let copies_are_stuck = topology.dead_letters_at_least_once()
            && self.copies.parking_is_stuck(self.bearable_copies());
        if copies_are_stuck || due.received.body_left_out().is_some() {
            self.channels.dead_letter(due.source).await?;
            self.was_parked(&due, reason);
            return Ok(());
        }
        let message = due.received.park(topology, timeout, &reason);
        let due = self.copied_from(due);
        self.copies.park(due, reason, message);
        Ok(())
    }

    /// It waits until its copy is confirmed.
    fn copied_from(&mut self, mut due: Due) -> Due {
        self.channels.waits(due.source, true);
        due.part.add_copy();
        due
    }

    /// What was confirmed is done with; what was not is tried again.
    pub(super) fn copied(&mut self, confirmed: Vec<Copy>, failure: Option<&CopyError>) {
        if let Some(failure) = failure
            && self.copies.is_to_be_reported()
        {
            let timeout = &self.context.timeout.name;
            telemetry::copies_wait(timeout, self.copies.len(), &error_chain(failure));
        }
        for copy in confirmed {
            let in_level = copy.route().is_none_or(|route| self.context.levels.confirmed(route));
            let Copy { due, purpose, .. } = copy;
            self.channels.waits(due.source, false);
            self.channels.finish(due.source);
            let counters = &self.context.worker.counters;
            match purpose {
                _ if !in_level => self.was_parked(&due, LEVEL_GONE.to_owned()),
                Purpose::Wait => count(&counters.put_back, 1),
                Purpose::Retry => count(&counters.retried, 1),
                Purpose::Park(reason) => self.was_parked(&due, reason),
            }
        }
    }

    fn was_parked(&mut self, due: &Due, reason: String) {
        count(&self.context.worker.counters.parked, 1);
        self.parked.add(due.label(), reason);
    }

    /// One line for all orders of a batch that are overdue and that the effect does not close.
    fn report_guarded(&self, batch: &[Due], outcomes: &[Option<Outcome>]) {
        let is_guarded = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::NotDue { remaining }) if remaining.is_zero());
        let mut guarded = batch.iter().zip(outcomes).filter(|(_, outcome)| is_guarded(outcome));
        if let Some((first, _)) = guarded.next() {
            let orders = 1 + guarded.count();
            count(&self.context.worker.counters.guarded, orders);
            telemetry::guarded(&self.context.timeout.name, orders, &first.label());
        }
    }
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
