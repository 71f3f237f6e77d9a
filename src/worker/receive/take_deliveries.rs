//! Takes deliveries from the channels: what may have killed a worker is taken alone, and what says that it is early is held
//! until its instant by the database's clock. That is a guess which decides when the database is asked, and no more: it
//! closes nothing that it does not find overdue.

use std::time::Instant;

use futures_util::FutureExt;

use super::{Consumer, delivery::Delivery};
use crate::{
    decisions::quarantine::Step,
    telemetry,
    wire::Received,
    worker::{
        channels::{Bodies, Source},
        session::SessionEnd,
    },
};

/// Deliveries that are taken in one go.
const AT_ONCE: usize = 64;

impl Consumer {
    /// Takes a delivery, and those that are there already: going round the loop costs more than they do.
    pub(super) async fn receive(
        &mut self,
        (source, received): (Source, Received),
    ) -> Result<(), SessionEnd> {
        self.take(source, received).await?;
        self.receive_ready().await
    }

    /// Takes deliveries that are there already.
    pub(super) async fn receive_ready(&mut self) -> Result<(), SessionEnd> {
        for _ in 0..AT_ONCE {
            if !self.may_receive() || self.channels.is_short() {
                break;
            }
            let Some(delivery) = self.channels.next().now_or_never() else { break };
            let (source, received) = delivery?;
            self.take(source, received).await?;
        }
        Ok(())
    }

    async fn take(&mut self, source: Source, received: Received) -> Result<(), SessionEnd> {
        let may_widen = self.channels.may_replace();
        let step = match received.deliveries() {
            Some(deliveries) => {
                self.report_suspect(deliveries);
                self.quarantine.receive(deliveries, may_widen)
            }
            None => Step::Take,
        };
        if step == Step::Narrow {
            self.channels.give_back(source).await?;
        } else {
            self.arrived(Delivery::read(source, received, &self.kept));
        }
        if step == Step::Take { Ok(()) } else { self.replace_channel().await }
    }

    /// A delivery of which nothing is known but what it says itself.
    fn arrived(&mut self, delivery: Delivery) {
        let Some(at) = self.early_until(&delivery) else { return self.add(delivery) };
        self.count_held();
        self.hold(delivery, at);
    }

    /// A far date is asked for: a wrong one is not to cost its order more than what is waited for in hand.
    fn early_until(&self, delivery: &Delivery) -> Option<Instant> {
        // What was tried before is usually overdue; what may have killed workers is closed alone.
        if delivery.order_id().is_none() || delivery.was_tried() || self.quarantine.is_alone() {
            return None;
        }
        let now = Instant::now();
        let at = self.context.worker.clock.surely(delivery.due_at()?)?;
        (at > now && at - now <= self.longest_hold()).then_some(at)
    }

    /// Goes on receiving on another channel.
    pub(super) async fn replace_channel(&mut self) -> Result<(), SessionEnd> {
        let alone = self.quarantine.is_alone();
        let prefetch = if alone { 1 } else { self.context.prefetch };
        for (source, received) in self.channels.replace(prefetch, Bodies::Notices).await? {
            let suspect = received.deliveries().is_some_and(|n| self.quarantine.is_suspect(n));
            if alone && suspect {
                self.channels.give_back(source).await?;
            } else {
                self.arrived(Delivery::read(source, received, &self.kept));
            }
        }
        self.suspected &= alone;
        Ok(())
    }

    fn report_suspect(&mut self, deliveries: u32) {
        if self.quarantine.is_suspect(deliveries) && !self.suspected {
            telemetry::suspected(&self.context.timeout.name, deliveries);
            self.suspected = true;
        }
    }
}
