//! One order at a time whose rows others have one after the other: it stands in PostgreSQL's queue for them, beside the batches,
//! which pass over what is locked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::{JoinError, JoinSet};

use super::{
    batch::{Answered, close_in_turn},
    delivery::Delivery,
};
use crate::{order::Outcome, worker::context::ConsumerContext};

/// An order that was passed over for this long waits in turn.
const PASSED_OVER_FOR: Duration = Duration::from_millis(500);
/// Before the next one after one that has waited without success: somebody keeps a row locked, and it keeps the others that it
/// needs meanwhile.
const AGAIN_AFTER: Duration = Duration::from_secs(3);

/// The order that waits, and from when on the next one may.
#[derive(Default)]
pub(super) struct InTurn {
    waiting: JoinSet<Answered>,
    from: Option<Instant>,
}

impl InTurn {
    /// Whether an order waits.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Asks for the order of a delivery, or gives it back.
    pub(super) fn take(
        &mut self,
        context: &Arc<ConsumerContext>,
        delivery: Delivery,
        now: Instant,
    ) -> Option<Delivery> {
        let since = delivery.locked.map_or(now, |(since, _)| since);
        if self.waits()
            || self.from.is_some_and(|from| now < from)
            || now.saturating_duration_since(since) < PASSED_OVER_FOR
        {
            return Some(delivery);
        }
        let context = Arc::clone(context);
        self.waiting.spawn(async move { close_in_turn(&context, delivery).await });
        None
    }

    /// The next answer; none if no order waits.
    pub(super) async fn answered(&mut self) -> Option<Result<Answered, JoinError>> {
        let answered = self.waiting.join_next().await?;
        if answered.as_ref().is_ok_and(is_still_busy) {
            self.from = Some(Instant::now() + AGAIN_AFTER);
        }
        Some(answered)
    }
}

fn is_still_busy(answered: &Answered) -> bool {
    answered.outcomes.as_ref().map_or(true, |outcomes| outcomes.contains(&Some(Outcome::Busy)))
}
