//! The order service: it publishes, goes on while the topology changes, and learns of the change later.

use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::{sync::watch, time::MissedTickBehavior};

use super::{
    error::MeasureError,
    phase::ChangePhase,
    scenario::{MessageRoute, Scenario},
    shared_log::SharedLog,
    size::ChangeSize,
};
use crate::{
    broker::{PublishError, Publisher},
    wire::Message,
};

/// Unconfirmed messages at once: hides the round trip, and none waits long between its time and the wire.
const IN_FLIGHT: usize = 500;
/// Between two handfuls, while the topology changes.
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Publishing<'a> {
    pub(super) publisher: Publisher,
    pub(super) scenario: &'a Scenario,
    pub(super) size: &'a ChangeSize,
    pub(super) log: &'a SharedLog,
}

impl Publishing<'_> {
    /// Publishes `count` messages and awaits every confirm.
    pub(super) async fn many(
        &self,
        route: &MessageRoute,
        count: usize,
    ) -> Result<(), MeasureError> {
        let publishing = stream::iter(0..count).map(async |_| self.one(route).await);
        all(publishing.buffer_unordered(IN_FLIGHT)).await
    }

    /// Goes on until the change is done: first as before, slowly while the queue of a removed timeout leaves, a while longer as before, then as it is now.
    pub(super) async fn meanwhile(
        &self,
        phase: watch::Receiver<ChangePhase>,
    ) -> Result<(), MeasureError> {
        // Unpaced until the change is made, then 200 to 4,000 per second, then 50 until the old queues are gone.
        let handful = (self.size.messages / 5_000).clamp(4, 80);
        let mut old = (self.size.messages / 100).clamp(20, 2_000);
        let mut new = old;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = *phase.borrow();
            if now == ChangePhase::Changing {
                self.many(&self.scenario.waiting, handful).await?;
                continue;
            }
            tick.tick().await;
            if now == ChangePhase::Leaving {
                self.one(&self.scenario.waiting).await?;
                continue;
            }
            if old > 0 {
                self.some(&self.scenario.old, &mut old, handful).await?;
            } else if new > 0 {
                self.some(&self.scenario.new, &mut new, handful).await?;
            } else if now == ChangePhase::Changed {
                self.one(&self.scenario.new[0]).await?;
            } else {
                return Ok(());
            }
        }
    }

    /// At most a handful of those that are left, taking the routes one after the other.
    async fn some(
        &self,
        routes: &[MessageRoute],
        left: &mut usize,
        handful: usize,
    ) -> Result<(), MeasureError> {
        let count = handful.min(*left);
        *left -= count;
        let routes = routes.iter().cycle().skip(*left % routes.len()).take(count);
        let publishing = stream::iter(routes).map(|route| self.one(route));
        all(publishing.buffer_unordered(IN_FLIGHT)).await
    }

    async fn one(&self, route: &MessageRoute) -> Result<(), PublishError> {
        let tag = self.log.with(|log| log.sent(route, self.log.now()));
        let message = Message::json(
            self.scenario.before.entry_exchange(),
            route.routing_key.clone(),
            tag.number.to_string(),
            &serde_json::json!(tag),
        );
        self.publisher.publish(message).await?;
        self.log.with(|log| log.confirmed(tag));
        Ok(())
    }
}

/// Waits for all of them, also where one fails: of those on a channel that has ended only one may know why.
async fn all(publishing: impl Stream<Item = Result<(), PublishError>>) -> Result<(), MeasureError> {
    let why = async |kept, result: Result<(), PublishError>| match result {
        Ok(()) => kept,
        Err(error) => Some(PublishError::that_says_why(kept, error)),
    };
    publishing.fold(None, why).await.map_or(Ok(()), |error| Err(error.into()))
}
