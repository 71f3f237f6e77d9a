//! The order service: it publishes, goes on while the topology changes, and hears of the change later.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use lapin::types::FieldTable;
use tokio::{sync::watch, time::MissedTickBehavior};

use super::{
    ChangeError, Size,
    applying::Stage,
    book::Book,
    scenario::{Scenario, Way},
};
use crate::broker::{Message, Publisher};

/// Unconfirmed messages at once: hides the round trip, and none waits long between its time and the wire.
const IN_FLIGHT: usize = 500;
/// Between two handfuls, while the topology changes.
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Publishing<'a> {
    pub(super) publisher: Publisher,
    pub(super) scenario: &'a Scenario,
    pub(super) size: &'a Size,
    pub(super) book: &'a Book,
}

impl Publishing<'_> {
    /// Publishes `count` messages and awaits every confirm.
    pub(super) async fn many(&self, way: &Way, count: usize) -> Result<(), ChangeError> {
        let publishing = stream::iter(0..count).map(async |_| self.one(way).await);
        publishing.buffer_unordered(IN_FLIGHT).try_for_each(async |()| Ok(())).await
    }

    /// Goes on until the change is done: first as before, a while longer as before, then as it is now.
    pub(super) async fn meanwhile(&self, stage: watch::Receiver<Stage>) -> Result<(), ChangeError> {
        // Unpaced until the change is made, then 200 to 4,000 per second, then 50 until the old queues are gone.
        let handful = (self.size.messages / 5_000).clamp(4, 80);
        let mut old = (self.size.messages / 100).clamp(20, 2_000);
        let mut new = old;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = *stage.borrow();
            if now == Stage::Changing {
                try_join_all((0..handful).map(|_| self.one(&self.scenario.waiting))).await?;
                continue;
            }
            tick.tick().await;
            if old > 0 {
                self.some(&self.scenario.old, &mut old, handful).await?;
            } else if new > 0 {
                self.some(&self.scenario.new, &mut new, handful).await?;
            } else if now == Stage::Changed {
                self.one(&self.scenario.new[0]).await?;
            } else {
                return Ok(());
            }
        }
    }

    /// At most a handful of those that are left, each way in turn.
    async fn some(
        &self,
        ways: &[Way],
        left: &mut usize,
        handful: usize,
    ) -> Result<(), ChangeError> {
        let count = handful.min(*left);
        *left -= count;
        let ways = ways.iter().cycle().skip(*left % ways.len()).take(count);
        try_join_all(ways.map(|way| self.one(way))).await.map(drop)
    }

    async fn one(&self, way: &Way) -> Result<(), ChangeError> {
        let mark = self.book.with(|ledger| ledger.sent(way, self.book.now()));
        let message = Message {
            exchange: self.scenario.before.entry_exchange(),
            routing_key: way.routing_key.clone(),
            message_id: mark.number.to_string(),
            content_type: Some("application/json".to_owned()),
            headers: FieldTable::default(),
            body: serde_json::json!(mark).to_string().into_bytes(),
        };
        self.publisher.publish(message).await?;
        self.book.with(|ledger| ledger.confirmed(mark));
        Ok(())
    }
}
