//! Publishing notices so that each comes out of its level at its own instant, whatever passes meanwhile.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;

use super::{DatabaseClock, Load};
use crate::{
    broker::{PublishError, Publisher},
    order_service::basket::Order,
    topology::route::Route,
    wire::{DueNotice, Message},
};

/// Messages on their way to the broker at once.
const WINDOW: usize = 2_000;

/// Publishes through a level that holds messages longer than all of these wait: the `expiration` of each says how long.
///
/// <https://www.rabbitmq.com/docs/ttl#per-message-ttl-in-publishers>
pub(crate) struct Notices<'a> {
    pub publisher: &'a Publisher,
    /// Through that level.
    pub route: &'a Route,
    /// How long before its time the topology lets a notice go.
    pub lead: Duration,
    pub clock: DatabaseClock,
}

impl Notices<'_> {
    /// Publishes them all, and waits for the confirms.
    ///
    /// # Errors
    /// A message was not confirmed.
    pub(crate) async fn publish(&self, load: &Load) -> Result<(), PublishError> {
        let notices = load.orders.iter().zip(&load.due_us);
        let publishing =
            stream::iter(notices).map(|(order, due_us)| self.publish_one(order, *due_us));
        publishing.buffer_unordered(WINDOW).try_for_each(async |()| Ok(())).await
    }

    async fn publish_one(&self, order: &Order, due_us: i64) -> Result<(), PublishError> {
        let due_at = Timestamp::from_microsecond(due_us).ok();
        let notice = DueNotice { order_id: order.id.clone(), due_at };
        let mut message = Message::notice(self.route.clone(), &notice);
        message.properties.expiration = Some(self.waits_ms(due_us).to_string());
        self.publisher.publish(message).await
    }

    /// Rounded up: no notice comes before its time.
    fn waits_ms(&self, due_us: i64) -> u128 {
        let rest = self.clock.instant(due_us).saturating_duration_since(Instant::now());
        rest.saturating_sub(self.lead).as_millis() + 1
    }
}
