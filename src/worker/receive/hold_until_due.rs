//! What comes before its time is held until then, by the database's clock. What its body says is a guess that decides
//! when the database is asked, and no more: it closes nothing that it does not find overdue.

use std::time::Instant;

use super::{
    Consumer,
    ask_deadlines::BatchDeadlines,
    delivery::{Delivery, Guess},
};
use crate::{
    order::Outcome,
    store::{database_time::DatabaseTime, deadlines::Deadline},
    telemetry,
    text::error_chain,
    worker::{counters::count, session::SessionEnd},
};

impl Consumer {
    /// A delivery of which nothing is known but what it says itself.
    pub(super) fn arrived(&mut self, delivery: Delivery) {
        match self.guess(&delivery) {
            Guess::Soon(at) => {
                count(&self.context.worker.counters.held, 1);
                self.hold(delivery, at);
            }
            Guess::Unknown if self.ask_deadlines.works && self.ask_deadlines.pays => {
                self.ask_deadlines.add(delivery, &self.context);
            }
            Guess::Due | Guess::Unknown => self.add(delivery),
        }
    }

    fn guess(&self, delivery: &Delivery) -> Guess {
        // What was tried before is overdue as a rule; what may have killed workers stays in nobody's company.
        if delivery.order_id().is_none() || delivery.was_tried() || self.takes_alone() {
            return Guess::Due;
        }
        let Some(due_at) = delivery.due_at() else { return Guess::Unknown };
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
    pub(super) async fn settle_deadlines(
        &mut self,
        found: BatchDeadlines,
    ) -> Result<(), SessionEnd> {
        let BatchDeadlines { batch, deadlines } = found;
        let deadlines = match deadlines {
            Ok(deadlines) => deadlines,
            Err(error) => {
                if error.is_answer() || error.is_misfit() {
                    let effect = &self.context.timeout.effect;
                    telemetry::due_sql_failed(effect, &error_chain(&error));
                    self.ask_deadlines.works = false;
                }
                // The effect says what is wrong, and waits until it is over.
                for delivery in batch {
                    self.add(delivery);
                }
                return Ok(());
            }
        };
        self.ask_deadlines.pays = false;
        let (now, routes) = (Instant::now(), self.context.levels.routes());
        for (delivery, deadline) in batch.into_iter().zip(deadlines) {
            let outcome = self.foreseen(deadline, now);
            self.ask_deadlines.pays |= outcome.is_some();
            match outcome {
                Some(outcome) => self.settle_one(delivery, Some(&outcome), &routes, now).await?,
                None => self.add(delivery),
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
}
