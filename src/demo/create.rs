//! Creating orders in chunks, and publishing each chunk right after its commit.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tokio::{sync::mpsc::UnboundedSender, time::MissedTickBehavior};

use super::{clock::Clock, error::DemoError, progress::Progress, script::Script, setup::DemoSetup};
use crate::{
    broker::Publisher,
    order::OrderId,
    shutdown::Stop,
    topology::route::Route,
    wire::{DueNotice, Message},
};

/// Between two chunks: short enough that orders are published long before they are due.
const EVERY: Duration = Duration::from_millis(50);
/// Chunks a second.
const CHUNKS_A_SECOND: u32 = 20;
/// Messages on their way at once.
const IN_FLIGHT: usize = 1_024;

/// Orders that are in the database, all with one deadline.
#[derive(Clone, Debug)]
pub(super) struct Created {
    /// Their places in the script; one past its end is the last order.
    pub(super) orders: Range<usize>,
    /// When they were created, by the clock of this process.
    pub(super) at: Instant,
}

/// What was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    /// Orders that are in the database.
    pub(super) orders: usize,
    /// Messages that are in the level: the last order has one too.
    pub(super) published: usize,
    /// From the first to the last of them.
    pub(super) took: Duration,
}

/// Creates all orders of the script at the rate of the setup, and then its last one; sends each chunk to both
/// receivers.
pub(super) async fn create_all(
    setup: &DemoSetup,
    script: &Script,
    progress: &Progress,
    publisher: &Publisher,
    clock: Clock,
    receivers: [UnboundedSender<Created>; 2],
    stop: &Stop,
) -> Result<Creation, DemoError> {
    let size = usize::try_from(setup.rate.div_ceil(CHUNKS_A_SECOND)).unwrap_or(usize::MAX);
    let began = Instant::now();
    let mut ticks = tokio::time::interval(EVERY);
    // A chunk that took too long delays the others: two at once would be due at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let total = script.orders.len();
    let mut created = 0;
    let mut took = Duration::ZERO;
    while created <= total {
        tokio::select! {
            biased;
            () = stop.requested() => break,
            _ = ticks.tick() => {}
        }
        // The last order comes alone, so that its message is behind all others.
        let end = if created == total { total + 1 } else { total.min(created + size) };
        let chunk = created..end;
        let orders = chunk.clone().map(|index| script.order(index));
        let due_at = setup.orders.create(orders, script.after).await?;
        let at = clock.instant(due_at - script.after.as_duration());
        for receiver in &receivers {
            // A receiver that is gone has failed, and its error ends the run.
            let _sent = receiver.send(Created { orders: chunk.clone(), at });
        }
        publish(publisher, &setup.route, script, chunk.clone(), due_at).await?;
        let orders = chunk.end.min(total) - chunk.start;
        progress.update(|state| state.created += orders);
        if orders > 0 {
            took = began.elapsed();
        }
        created = chunk.end;
    }
    Ok(Creation { orders: created.min(total), published: created, took })
}

async fn publish(
    publisher: &Publisher,
    route: &Route,
    script: &Script,
    chunk: Range<usize>,
    due_at: Timestamp,
) -> Result<(), DemoError> {
    let messages = chunk.map(|index| message(route, &script.order(index).id, due_at));
    let publishing = stream::iter(messages).map(|message| publisher.publish(message));
    Ok(publishing.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?)
}

fn message(route: &Route, order_id: &OrderId, due_at: Timestamp) -> Message {
    let notice = DueNotice { order_id: order_id.clone(), due_at: Some(due_at) };
    Message::notice(route.clone(), &notice)
}
