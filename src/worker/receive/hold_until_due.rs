//! What comes before its time is held until then, by the database's clock. What its body says is a guess that decides
//! when the database is asked, and no more: it closes nothing that it does not find overdue.

use std::time::{Duration, Instant};

use super::{
    Consumer,
    ask_deadlines::Looked,
    delivery::{Due, Guess},
};
use crate::{
    order::Outcome,
    store::{database_time::DatabaseTime, deadlines::Deadline},
    telemetry,
    text::error_chain,
    worker::{counters::count, session::SessionEnd},
};

/// Closed so much later than the clock said: the clock may have been set since it was read.
const OFF: Duration = Duration::from_millis(50);

impl Consumer {
    /// A delivery of which nothing is known but what it says itself.
    pub(super) fn arrived(&mut self, mut due: Due) {
        match self.guess(&due) {
            Guess::Soon(at) => {
                due.by_clock = true;
                count(&self.context.worker.counters.held, 1);
                self.hold(due, at);
            }
            Guess::Unknown if self.looks.works && self.looks.pays => {
                self.looks.add(due, &self.context);
            }
            Guess::Due | Guess::Unknown => self.add(due),
        }
    }

    fn guess(&self, due: &Due) -> Guess {
        // What was tried before is overdue as a rule; what may have killed workers stays in nobody's company.
        if due.order_id().is_none() || due.was_tried() || self.takes_alone() {
            return Guess::Due;
        }
        let Some(due_at) = due.due_at() else { return Guess::Unknown };
        self.until(due_at)
    }

    /// A far date is asked for: a wrong one is not to cost its order more than what is waited for in hand.
    fn until(&self, due_at: DatabaseTime) -> Guess {
        let now = Instant::now();
        match self.context.worker.clock.surely(due_at) {
            Some(at) if at <= now => Guess::Due,
            Some(at) if at - now <= self.longest_hold() => Guess::Soon(at),
            _ => Guess::Unknown,
        }
    }

    /// Holds what is early, acks what is final, and closes the rest.
    pub(super) async fn settle_looked(&mut self, looked: Looked) -> Result<(), SessionEnd> {
        let Looked { batch, deadlines } = looked;
        let deadlines = match deadlines {
            Ok(deadlines) => deadlines,
            Err(error) => {
                if error.is_answer() || error.is_misfit() {
                    let effect = &self.context.timeout.effect;
                    telemetry::due_sql_failed(effect, &error_chain(&error));
                    self.looks.works = false;
                }
                // The effect says what is wrong, and waits until it is over.
                for due in batch {
                    self.add(due);
                }
                return Ok(());
            }
        };
        self.looks.pays = false;
        let (now, routes) = (Instant::now(), self.context.levels.routes());
        for (mut due, deadline) in batch.into_iter().zip(deadlines) {
            let outcome = self.foreseen(deadline, now);
            self.looks.pays |= outcome.is_some();
            due.by_clock = true;
            match outcome {
                Some(outcome) => self.settle_one(due, Some(&outcome), &routes, now).await?,
                None => self.add(due),
            }
        }
        Ok(())
    }

    /// What the effect would say; none where it is to be asked.
    fn foreseen(&self, deadline: Deadline, now: Instant) -> Option<Outcome> {
        match deadline {
            Deadline::Final => Some(Outcome::AlreadyFinal),
            Deadline::Unknown => None,
            Deadline::At(due_at) => {
                let remaining =
                    self.context.worker.clock.surely(due_at)?.checked_duration_since(now)?;
                (!remaining.is_zero()).then_some(Outcome::NotDue { remaining })
            }
        }
    }

    /// Whether a clock may have been set: then it is read again.
    pub(super) fn compare_with_clock(&mut self, due: &Due, outcome: Option<&Outcome>) {
        let clock = &self.context.worker.clock;
        match outcome {
            Some(Outcome::Closed { late, .. }) if due.by_clock && *late > OFF => clock.doubt(),
            Some(Outcome::NotDue { remaining }) if !remaining.is_zero() => {
                self.looks.pays |= *remaining <= self.context.worker.longest_hold();
                if due.by_clock {
                    clock.doubt();
                }
            }
            _ => {}
        }
    }
}
