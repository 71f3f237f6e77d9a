//! Payments, each at its time to the millisecond, on connections of their own.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc, time::Instant};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedReceiver, time::sleep_until};

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
        let due = BinaryHeap::new();
        let mut agenda = Agenda { created, all_created: false, due, over: false };
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
        self.progress.update(|state| {
            *(if answer.taken { &mut state.paid } else { &mut state.refused }) += 1;
        });
        let answered = Instant::now();
        let late = answer.sent.saturating_duration_since(at);
        let pay_after = self.script.orders.get(order).and_then(|order| order.pay_after);
        let deadline = at + self.script.after.as_duration();
        let in_time = pay_after.is_some_and(|after| answered + after < deadline);
        Ok(Payment { order, taken: answer.taken, late, in_time })
    }
}

/// Payments to come, soonest first; filled while orders are still being created.
struct Agenda {
    created: UnboundedReceiver<Created>,
    all_created: bool,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    over: bool,
}

impl Agenda {
    /// Waits until the next payment's time has come; `None` after the last one. Nothing is lost when it is dropped.
    async fn next(&mut self, script: &Script, stop: &Stop) -> Option<(Instant, usize)> {
        loop {
            let soonest = self.due.peek().map(|Reverse((at, _))| *at);
            if self.all_created && soonest.is_none() {
                return None;
            }
            let its_time = sleep_until(soonest.unwrap_or_else(Instant::now).into());
            tokio::select! {
                biased;
                () = stop.requested() => return None,
                chunk = self.created.recv(), if !self.all_created => match chunk {
                    Some(chunk) => self.add(script, &chunk),
                    None => self.all_created = true,
                },
                () = its_time, if soonest.is_some() => {
                    return self.due.pop().map(|Reverse(payment)| payment);
                }
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
