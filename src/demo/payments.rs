//! Payments, each at its time to the millisecond, on connections of their own.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc, time::Instant};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    create::Created, error::DemoError, evidence::Payment, progress::Progress, script::Script,
};
use crate::{order_service::OrderService, shutdown::Stop, store::StoreError};

/// The payments of a run.
pub(super) struct Payments {
    pub(super) service: OrderService,
    /// Payments at the same time.
    pub(super) connections: usize,
    pub(super) script: Arc<Script>,
    pub(super) progress: Arc<Progress>,
}

impl Payments {
    /// Sends each payment at its time; ends after the last one, or when a stop is requested.
    pub(super) async fn send_all(
        &self,
        created: UnboundedReceiver<Created>,
        stop: &Stop,
    ) -> Result<Vec<Payment>, DemoError> {
        let mut agenda = Agenda { created: Some(created), due: BinaryHeap::new(), over: false };
        let mut sending = FuturesUnordered::new();
        let mut payments = Vec::new();
        loop {
            let room = sending.len() < self.connections;
            tokio::select! {
                next = agenda.next(&self.script, stop), if room && !agenda.over => match next {
                    Some((at, order)) => sending.push(self.pay(order, at)),
                    None => agenda.over = true,
                },
                Some(sent) = sending.next(), if !sending.is_empty() => payments.push(sent?),
                else => return Ok(payments),
            }
        }
    }

    async fn pay(&self, order: usize, at: Instant) -> Result<Payment, StoreError> {
        let answer = self.service.pay(&self.script.order(order).id).await?;
        let counter = if answer.taken { &self.progress.paid } else { &self.progress.refused };
        Progress::count(counter, 1);
        let late = answer.sent.saturating_duration_since(at);
        Ok(Payment { order, taken: answer.taken, late })
    }
}

/// Payments to come, soonest first; filled while orders are still being created.
struct Agenda {
    created: Option<UnboundedReceiver<Created>>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    over: bool,
}

impl Agenda {
    /// Waits until the next payment's time has come; `None` after the last one. Nothing is lost when it is dropped.
    async fn next(&mut self, script: &Script, stop: &Stop) -> Option<(Instant, usize)> {
        loop {
            let soonest = self.due.peek().map(|Reverse((at, _))| *at);
            if self.created.is_none() && soonest.is_none() {
                return None;
            }
            tokio::select! {
                biased;
                () = stop.requested() => return None,
                chunk = receive(&mut self.created) => match chunk {
                    Some(chunk) => self.add(script, &chunk),
                    None => self.created = None,
                },
                () = until(soonest) => return self.due.pop().map(|Reverse(payment)| payment),
            }
        }
    }

    fn add(&mut self, script: &Script, chunk: &Created) {
        for index in chunk.orders.clone() {
            let pay_after = script.orders.get(index).and_then(|order| order.pay_after);
            self.due.extend(pay_after.map(|after| Reverse((chunk.at + after, index))));
        }
    }
}

async fn receive(created: &mut Option<UnboundedReceiver<Created>>) -> Option<Created> {
    match created {
        Some(created) => created.recv().await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
