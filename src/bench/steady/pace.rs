//! Publishing each notice at its own instant, as order services do: so long before the deadline as the delay is.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;

use crate::{
    bench::{
        load::{DatabaseClock, Load},
        stage::BenchError,
    },
    broker::Publisher,
    order_service::basket::Order,
    topology::route::Route,
    wire::{DueNotice, Message},
};

/// Timers at the same time.
const TIMERS: usize = 4_000;

/// How one notice is published.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// How long before the deadline.
    pub before: Duration,
    /// Through what.
    pub route: Route,
    /// Whether it says itself how long it waits; otherwise what it goes through does.
    pub expires: bool,
}

/// Publishes notices, each at its instant.
pub(super) struct Pace<'a> {
    pub publisher: &'a Publisher,
    pub clock: DatabaseClock,
    pub load: &'a Load,
}

impl Pace<'_> {
    /// Publishes each order's notice as `plan` says; returns how late the latest of them was.
    pub(super) async fn publish(
        &self,
        plan: impl Fn(usize) -> Result<Planned, BenchError>,
    ) -> Result<Duration, BenchError> {
        let mut notices = Vec::with_capacity(self.load.orders.len());
        for (place, (order, due_us)) in self.load.orders.iter().zip(&self.load.due_us).enumerate() {
            let planned = plan(place)?;
            let due = self.clock.instant(*due_us);
            let at = due.checked_sub(planned.before).unwrap_or(due);
            notices.push((at, order, *due_us, planned));
        }
        notices.sort_by_key(|(at, ..)| *at);
        let publishing = stream::iter(notices)
            .map(|(at, order, due_us, planned)| self.publish_one(at, order, due_us, planned));
        publishing
            .buffer_unordered(TIMERS)
            .try_fold(Duration::ZERO, async |most: Duration, late| Ok(most.max(late)))
            .await
    }

    async fn publish_one(
        &self,
        at: Instant,
        order: &Order,
        due_us: i64,
        planned: Planned,
    ) -> Result<Duration, BenchError> {
        tokio::time::sleep_until(at.into()).await;
        let now = Instant::now();
        let due_at = Timestamp::from_microsecond(due_us).ok();
        let mut message =
            Message::notice(planned.route, &DueNotice { order_id: order.id.clone(), due_at });
        if planned.expires {
            let rest = self.clock.instant(due_us).saturating_duration_since(now);
            message.properties.expiration = Some((rest.as_millis() + 1).to_string());
        }
        self.publisher.publish(message).await?;
        Ok(now.saturating_duration_since(at))
    }
}
