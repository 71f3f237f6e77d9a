//! Payments, each at its time to the millisecond, on connections of their own.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{DemoError, board::Board, create::Created, script::Script};
use crate::{
    shutdown::Stop,
    store::{Fault, Store, StoreError},
};

/// What a payment is.
pub(super) const SQL: &str = include_str!("../../sql/pay.sql");
/// Attempts at a payment that was only in somebody's way.
const ATTEMPTS: u32 = 3;

/// What came of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Its order's place in the script.
    pub order: usize,
    /// Whether it was taken; else it met an order that was closed.
    pub taken: bool,
    /// How long after its time the statement was sent.
    pub late: Duration,
}

/// Takes the payments of a run.
pub(super) struct Cashier {
    /// A pool that nobody else uses.
    pub(super) store: Store,
    /// Payments at the same time.
    pub(super) connections: usize,
    /// When each order is paid.
    pub(super) script: Arc<Script>,
    /// Where they are counted.
    pub(super) board: Arc<Board>,
}

impl Cashier {
    /// Sends each payment at its time; ends after the last one, or when a stop is asked for.
    pub(super) async fn take_payments(
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
        let id = self.script.id(order).as_str();
        let mut attempt = 1;
        loop {
            let client = self.store.client().await?;
            let statement = self.store.named("pay", client.prepare_cached(SQL).await)?;
            let late = at.elapsed();
            let row = self.store.named("pay", client.query_opt(&statement, &[&id]).await);
            match row {
                Ok(row) => {
                    let taken = row.is_some();
                    let counter = if taken { &self.board.paid } else { &self.board.refused };
                    Board::count(counter, 1);
                    return Ok(Payment { order, taken, late });
                }
                Err(error) if error.fault() == Fault::Contention && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
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
