//! Trying again what the broker has refused.
//!
//! A nack says that one queue was full; the others have their copy already, and each attempt makes one more. So one
//! event of a name is tried, and then twice as many each time, until the broker refuses again.

use super::{Relay, RelayError, chains, chains::Fate};
use crate::{
    store::refused_events::{Regrouped, Retry},
    telemetry,
};

/// Event names at once.
const NAMES: i64 = 20;
/// Events at once, at the most, when the broker takes them again.
const MOST: i64 = 256;
/// Of one name, before the others have their turn.
const ROUNDS: u32 = 20;

/// What became of the event names that were due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retried {
    /// Some are refused still.
    pub(super) refused: bool,
    /// There may be more to do at once.
    pub(super) more: bool,
    /// The broker has closed the channel.
    pub(super) closed: bool,
}

/// What became of some events of one name.
#[derive(Debug, Default)]
struct Round {
    published: usize,
    refused: bool,
    forbidden: bool,
}

impl Relay<'_> {
    /// Tries the event names that are due again.
    pub(super) async fn retry_refused(&self) -> Result<Retried, RelayError> {
        let due = self.worker.store.claim_retries(NAMES).await?;
        let mut retried = Retried { more: !due.is_empty(), ..Retried::default() };
        for retry in due {
            let last = self.retry(&retry).await?;
            retried.refused |= last.refused;
            if last.forbidden {
                retried.closed = true;
                break;
            }
        }
        Ok(retried)
    }

    /// The last round.
    async fn retry(&self, retry: &Retry) -> Result<Round, RelayError> {
        let store = &self.worker.store;
        let (mut published, mut events) = (false, 1);
        for _round in 0..ROUNDS {
            let round = self.round(&retry.event, events).await?;
            published |= round.published > 0;
            if round.refused {
                store.retry_again(&retry.event, published, true).await?;
                return Ok(round);
            }
            if round.published == 0 {
                match store.end_retry(retry).await? {
                    Some(lasted_ms) => {
                        telemetry::event_accepted(&retry.event, retry.events, lasted_ms);
                    }
                    None => store.retry_again(&retry.event, true, false).await?,
                }
                return Ok(round);
            }
            events = MOST.min(events * 2);
        }
        store.retry_again(&retry.event, true, false).await?;
        Ok(Round::default())
    }

    /// Publishes the oldest events that wait for a name.
    async fn round(&self, waits_for: &str, limit: i64) -> Result<Round, RelayError> {
        let store = &self.worker.store;
        let events = store.refused_events(waits_for, limit).await?;
        let mut round = Round::default();
        let (mut published, mut regrouped, mut failure) = (Vec::new(), Vec::new(), None);
        for (event, fate) in chains::publish(self.publisher, &self.exchange, events).await {
            match fate {
                Fate::Published => published.push(event.row),
                Fate::Refused(refused) if refused.event == waits_for => {
                    round.refused = true;
                    round.forbidden |= refused.forbidden;
                }
                // A later event of an order, and its own name is refused: it waits there from now on.
                Fate::Refused(refused) if refused.event == event.event => {
                    let (order_id, event, reason) = (event.order_id, refused.event, refused.reason);
                    regrouped.push(Regrouped { order_id, event, reason });
                }
                Fate::Refused(_) | Fate::Untried => {}
                // It was looked at when it was claimed, so this does not happen; it is not to be lost.
                Fate::Never(_) => round.refused = true,
                Fate::Failed(error) => failure = failure.or(Some(error)),
            }
        }
        store.forget_refused(&published).await?;
        for event in store.regroup_refused(waits_for, &regrouped).await? {
            let reason = regrouped.iter().find(|order| order.event == event);
            telemetry::event_refused(&event, reason.map_or("", |order| &order.reason));
        }
        round.published = published.len() + regrouped.len();
        match failure {
            None => Ok(round),
            Some(error) => Err(error.into()),
        }
    }
}
