//! The outbox's way to the broker: claim, publish, forget what was confirmed.
//!
//! What cannot be published goes out of the way of the others (`outbox_refused`): an event that the broker refuses is
//! tried again after a while, one that can never be published stays there with its reason.

mod chains;
mod retry;

use std::{sync::Arc, time::Duration};

use super::{backoff, context::Worker, jitter, session_end::SessionEnd};
use crate::{
    broker::{ConnectError, PublishError, Publisher},
    shutdown::Stop,
    store::{
        StoreError,
        outbox::{Claimed, Refusal},
    },
    telemetry,
    text::error_chain,
};
use chains::{Fate, Refused};

/// Events on their way at once.
const CLAIM: i64 = 500;
/// The batches of this process notify; events of other processes that died are found by polling. After a failure it is
/// a back-off as well.
const POLL: Duration = backoff::LONGEST;
/// The shortest back-off of a refused event.
const POLL_REFUSED: Duration = Duration::from_secs(1);

/// Why events stay in the outbox for now.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is left after all that can be published was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Events that the broker has refused.
    Refused,
}

/// Publishes what is in the outbox until a stop is asked for.
///
/// A failure is logged and tried again after a while, on a connection of its own: a broker that blocks publishers
/// (memory or disk alarm) does not end the session. The events wait in the outbox.
pub(super) async fn relay(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut publisher = None;
    loop {
        let relayed = relay_all(&worker, &mut publisher, &stop).await;
        if let Err(error) = &relayed {
            telemetry::relay_failed(&error_chain(error));
        }
        let pause = if matches!(relayed, Ok(Left::Refused)) { POLL_REFUSED } else { POLL };
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = worker.events.notified(), if relayed.is_ok() => {}
            () = tokio::time::sleep(jitter::up_to(pause)) => {}
        }
    }
}

/// Leaves `link` empty where it failed, so that the next time begins with a new connection.
async fn relay_all(
    worker: &Worker,
    link: &mut Option<Publisher>,
    stop: &Stop,
) -> Result<Left, RelayError> {
    let publisher = match link.take().filter(|publisher| !publisher.is_closed()) {
        Some(publisher) => publisher,
        None => Publisher::connect(&worker.address, "overdue worker: events").await?,
    };
    let relay =
        Relay { worker, publisher: &publisher, exchange: worker.topology.events_exchange() };
    let mut left = Left::Nothing;
    while !stop.is_requested() {
        let retried = relay.retry_refused().await?;
        if retried.refused {
            left = Left::Refused;
        }
        if retried.closed {
            return Ok(left);
        }
        let claimed = worker.store.claim_events(CLAIM).await?;
        if claimed.is_empty() && !retried.more {
            break;
        }
        if relay.publish_claimed(claimed).await? == Left::Refused {
            left = Left::Refused;
        }
    }
    *link = Some(publisher);
    Ok(left)
}

/// A worker's connection for events.
struct Relay<'a> {
    worker: &'a Worker,
    publisher: &'a Publisher,
    exchange: String,
}

impl Relay<'_> {
    async fn publish_claimed(&self, claimed: Claimed) -> Result<Left, RelayError> {
        let Claimed { events, held, unpublishable } = claimed;
        report_unpublishable(&unpublishable);
        let mut sorted = Sorted { refusals: held, ..Sorted::default() };
        for (event, fate) in chains::publish(self.publisher, &self.exchange, events).await {
            sorted.add(event.row, fate);
        }
        let store = &self.worker.store;
        store.forget_events(&sorted.published).await?;
        let left = if sorted.refusals.is_empty() { Left::Nothing } else { Left::Refused };
        if left == Left::Refused {
            self.refuse(&sorted.refusals).await?;
        }
        store.release_events(&sorted.untried).await?;
        match sorted.failure {
            None => Ok(left),
            Some(error) => Err(error.into()),
        }
    }

    async fn refuse(&self, refusals: &[Refusal]) -> Result<(), RelayError> {
        let never: Vec<(i64, String)> = refusals
            .iter()
            .filter(|refusal| refusal.waits_for.is_none())
            .map(|refusal| (refusal.row, refusal.reason.clone()))
            .collect();
        report_unpublishable(&never);
        for event in self.worker.store.refuse_events(refusals).await? {
            let reason = refusals
                .iter()
                .find(|refusal| refusal.waits_for.as_deref() == Some(event.as_str()))
                .map_or("", |refusal| &refusal.reason);
            telemetry::event_refused(&event, reason);
        }
        Ok(())
    }
}

fn report_unpublishable(events: &[(i64, String)]) {
    if let Some((id, reason)) = events.first() {
        telemetry::events_unpublishable(events.len(), *id, reason);
    }
}

/// The events of one claim, by what became of them.
#[derive(Default)]
struct Sorted {
    published: Vec<i64>,
    refusals: Vec<Refusal>,
    /// Also those of which it is not known whether they arrived.
    untried: Vec<i64>,
    failure: Option<PublishError>,
}

impl Sorted {
    fn add(&mut self, row: i64, fate: Fate) {
        match fate {
            Fate::Published => self.published.push(row),
            Fate::Refused(Refused { event, reason, forbidden }) => {
                self.refusals.push(Refusal { row, waits_for: Some(event), reason, forbidden });
            }
            Fate::Never(reason) => self.refusals.push(Refusal::for_ever(row, reason)),
            Fate::Untried => self.untried.push(row),
            Fate::Failed(error) => {
                self.untried.push(row);
                self.failure.get_or_insert(error);
            }
        }
    }
}
