//! What a sweep looks at first: orders whose notice was never confirmed. It is known that no message is on its way for them,
//! so they need not wait for the grace period.

use std::time::Duration;

use super::{SWEEP_SIZE, Sweep};
use crate::{
    config::PublishScheduled,
    order::{OrderId, Outcome},
    store::{StoreError, forget::Published, schedule::Notices},
};

/// A notice is published within milliseconds; one that is due at once is on its way.
const GRACE: Duration = Duration::from_secs(5);

impl Sweep<'_> {
    /// Closes them, page by page, and forgets the notices of those that are final: they would be published for nothing.
    pub(super) async fn close_uncovered(&mut self) -> Result<(), StoreError> {
        let store = &self.worker.store;
        if self.worker.schedule.publish == PublishScheduled::Off
            || store.schedule_lacks(Notices::Published).await?.is_some()
        {
            return Ok(());
        }
        let effect = &self.closer.effect().name;
        let of_effect = self.worker.topology.timeouts.iter().filter(|it| it.effect == *effect);
        let timeouts: Vec<&str> = of_effect.map(|timeout| timeout.name.as_str()).collect();
        let grace = GRACE.min(self.worker.settings.sweep_grace.as_duration());
        let mut after = 0;
        while !self.stop.is_requested() {
            self.alive.moved();
            let page = store.uncovered(&timeouts, grace, after, SWEEP_SIZE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let asked = page.into_iter().filter_map(|notice| Some((notice.id, notice.order?)));
            let (rows, ids): (Vec<i64>, Vec<OrderId>) = asked.unzip();
            let Some(outcomes) = self.ask(&ids).await? else { continue };
            let is_final = |outcome: &Outcome| {
                matches!(outcome, Outcome::Closed { .. } | Outcome::AlreadyFinal)
            };
            let done = rows.into_iter().zip(&outcomes).filter(|(_, outcome)| is_final(outcome));
            let done: Vec<i64> = done.map(|(row, _)| row).collect();
            store.forget(Published::Notices, &done).await?;
        }
        Ok(())
    }
}
