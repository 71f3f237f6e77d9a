//! What becomes of the originals of copies: ack where the copy is in its place, and another decision where it is not.

use std::time::Instant;

use super::{
    Consumer,
    confirmed_copies::Arrival,
    copies::{Copy, Purpose},
    delivery::Delivery,
};
use crate::{
    broker::PublishError,
    telemetry::{self, labels::ParkReason},
    text::error_chain,
    worker::{counters::count, health::Work, log_lines::Why},
};

/// Why a copy is in the parking lot that was on its way to a level.
const LEVEL_GONE: &str = "the broker does not route to its level any more";
/// The same, where the original was not acked yet.
const PARKED_COPY: &str = "the broker does not route to its level any more: a copy was parked, and the notice waits elsewhere";

impl Consumer {
    /// What is where it was sent to is done with; what was not confirmed is tried again.
    pub(super) fn copied(&mut self, arrived: Vec<(Copy, Arrival)>, failure: Option<&PublishError>) {
        let (health, timeout) = (&self.context.worker.health, &self.context.timeout.name);
        match failure {
            Some(failure) => {
                let reason = error_chain(failure);
                if self.copies.is_to_be_reported() {
                    telemetry::copies_wait(timeout, self.copies.len(), &reason);
                }
                health.failed(Work::Copies, timeout, &reason);
            }
            None if !self.copies.are_stuck() && health.works(Work::Copies, timeout) => {
                telemetry::copies_work(timeout);
            }
            None => {}
        }
        for (copy, arrival) in arrived {
            let in_level = match (arrival, copy.route()) {
                (Arrival::Gone, _) => {
                    self.went_elsewhere(copy.delivery);
                    continue;
                }
                (Arrival::Unknown, Some(route)) => self.context.levels.confirmed(route),
                _ => true,
            };
            let Copy { delivery, purpose, .. } = copy;
            self.channels.waits(delivery.source, false);
            self.channels.finish(delivery.source);
            let (counters, timeout) = (&self.context.worker.counters, &self.context.timeout.name);
            match purpose {
                _ if !in_level => self.was_parked(&delivery, level_gone(LEVEL_GONE)),
                Purpose::Wait => {
                    count(&counters.put_back, 1);
                    telemetry::put_back(timeout);
                }
                Purpose::Retry => {
                    count(&counters.retried, 1);
                    telemetry::retried(timeout);
                }
                Purpose::Park(why) => self.was_parked(&delivery, why),
            }
        }
    }

    /// The alternate exchange took the copy: the original is still here, and is decided anew.
    fn went_elsewhere(&mut self, mut delivery: Delivery) {
        self.was_parked(&delivery, level_gone(PARKED_COPY));
        delivery.part.drop_copy();
        self.channels.waits(delivery.source, false);
        self.hold(delivery, Instant::now());
    }

    pub(super) fn was_parked(&mut self, delivery: &Delivery, why: Why) {
        count(&self.context.worker.counters.parked, 1);
        self.parked.add(&self.context.timeout.name, delivery.label(), why);
    }
}

fn level_gone(text: &str) -> Why {
    Why { class: ParkReason::LevelGone, text: text.to_owned() }
}
