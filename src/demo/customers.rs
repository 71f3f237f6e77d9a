//! Creates orders in chunks, publishes each chunk right after its commit, and pays at the times of the script.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until},
};

use super::{Demo, DemoError, Progress};
use crate::{
    messaging::Publisher,
    order::OrderId,
    order_service::outcome::OrderAnswer,
    shutdown::Stop,
    store::StoreError,
    wire::{DueNotice, Message},
};

/// Interval of chunks: short enough that orders are published long before they are due.
const EVERY: Duration = Duration::from_millis(50);
/// Chunks per second.
const CHUNKS_A_SECOND: u32 = 20;
/// Most unconfirmed messages.
const IN_FLIGHT: usize = 1_024;

/// Orders and payments of a run.
#[derive(Default)]
pub(super) struct Customers {
    /// Committed orders, without the last one.
    pub(super) created: u64,
    /// Confirmed messages, with the last order's.
    pub(super) published: usize,
    /// Time from the first order until the last one is published.
    pub(super) creating: Duration,
    answers: Vec<OrderAnswer>,
    payments: JoinSet<Result<Option<OrderAnswer>, StoreError>>,
}

impl Customers {
    /// Creates the orders of the script at its rate, and then the last order. Payments start at their times.
    pub(super) async fn create(
        &mut self,
        demo: &Demo,
        publisher: &Publisher,
        progress: &watch::Sender<Progress>,
        stop: &Stop,
    ) -> Result<(), DemoError> {
        let size = usize::try_from(demo.rate.div_ceil(CHUNKS_A_SECOND)).unwrap_or(usize::MAX);
        let connections = Arc::new(Semaphore::new(demo.payment_connections));
        let began = Instant::now();
        let mut ticks = interval(EVERY);
        // A slow chunk delays the following chunks: two chunks at once would be due at once.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let total = demo.script.orders.len();
        while self.published <= total && !stop.is_requested() {
            ticks.tick().await;
            // The last order is published alone, so that its message is behind all others.
            let end =
                if self.published == total { total + 1 } else { total.min(self.published + size) };
            let chunk = self.published..end;
            let ids: Vec<&OrderId> = chunk.clone().map(|index| demo.order_id(index)).collect();
            let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
            let after = demo.script.after.as_duration();
            let due_at = demo.orders.create(&names, after, demo.seed).await?;
            self.take_payments(demo, chunk, &connections, stop);
            self.answers.extend(ids.iter().map(|id| OrderAnswer::new(id, "created")));
            publish(publisher, demo, &ids, due_at).await?;
            self.published = end;
            if end <= total {
                self.created = u64::try_from(end).unwrap_or(u64::MAX);
                self.creating = began.elapsed();
            }
            progress.send_modify(|progress| progress.created = self.created);
        }
        Ok(())
    }

    /// Waits for the payments and returns every answer. A stop cancels payments whose time has not come.
    pub(super) async fn answers(&mut self) -> Result<Vec<OrderAnswer>, DemoError> {
        while let Some(payment) = self.payments.join_next().await {
            self.answers.extend(payment??);
        }
        Ok(std::mem::take(&mut self.answers))
    }

    fn take_payments(
        &mut self,
        demo: &Demo,
        chunk: Range<usize>,
        connections: &Arc<Semaphore>,
        stop: &Stop,
    ) {
        let created = Instant::now();
        for order in demo.script.orders.get(chunk).unwrap_or_default() {
            let Some(after) = order.pay_after else { continue };
            let (id, service) = (order.id.clone(), demo.payments.clone());
            let (connections, stop) = (Arc::clone(connections), stop.clone());
            self.payments.spawn(async move {
                tokio::select! {
                    () = stop.requested() => return Ok(None),
                    () = sleep_until((created + after).into()) => {}
                }
                // The semaphore is never closed.
                let _connection = connections.acquire().await;
                let taken = service.pay(id.as_str()).await?;
                Ok(Some(OrderAnswer::new(&id, if taken { "taken" } else { "refused" })))
            });
        }
    }
}

impl OrderAnswer {
    fn new(order: &OrderId, answer: &'static str) -> Self {
        Self { order: order.to_string(), answer }
    }
}

impl Demo {
    /// The order at this index; the index after the last one is `script.last`.
    fn order_id(&self, index: usize) -> &OrderId {
        self.script.orders.get(index).map_or(&self.script.last, |order| &order.id)
    }
}

async fn publish(
    publisher: &Publisher,
    demo: &Demo,
    ids: &[&OrderId],
    due_at: Timestamp,
) -> Result<(), DemoError> {
    let message = |id: &&OrderId| {
        let notice = DueNotice { order_id: OrderId::clone(id), due_at: Some(due_at) };
        Message::notice(demo.route.clone(), &notice)
    };
    let publishing = stream::iter(ids.iter().map(message)).map(|it| publisher.publish(it));
    Ok(publishing.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?)
}
