//! Publishes the notices, page by page.

use std::{cell::Cell, num::NonZeroU32};

use futures_util::{
    future,
    stream::{self, StreamExt},
};

use super::{
    super::{exit::Failure, output::report, progress::Progress, setup},
    RebuildPart,
};
use crate::{
    messaging::{BrokerAddress, PublishError, Publisher},
    oncall::pace::Pace,
    order::OrderId,
    shutdown::Stop,
    store::{
        Store,
        clock::DatabaseTime,
        overdue::{OpenPage, OverdueKey},
    },
    text::counted,
    topology::{Timeout, Topology, level_routes::LevelRoutes},
    wire::{DueNotice, Message},
};

/// Orders of one page.
const PAGE: i64 = 2_000;
/// Notices without a confirm at the same time.
const IN_FLIGHT: usize = 1_024;

/// Publishes the notices, and counts them.
pub(super) struct Notices<'a> {
    store: &'a Store,
    topology: &'a Topology,
    routes: &'a LevelRoutes,
    pace: Pace,
    pub(super) confirmed: u64,
    /// Rows whose id no message can carry.
    pub(super) refused: u64,
}

enum NotConfirmed {
    Ended(Failure),
    Refused(PublishError),
}

fn stopped() -> Failure {
    Failure::failed("stopped")
}

impl<'a> Notices<'a> {
    pub(super) fn new(
        store: &'a Store,
        topology: &'a Topology,
        routes: &'a LevelRoutes,
        rate: NonZeroU32,
    ) -> Self {
        let pace = Pace::new(rate);
        Self { store, topology, routes, pace, confirmed: 0, refused: 0 }
    }

    /// Publishes all parts, one after the other.
    pub(super) async fn publish(
        &mut self,
        address: &BrokerAddress,
        parts: &[RebuildPart<'_>],
        expected: u64,
    ) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let publisher = Publisher::connect(address, "overdue rebuild").await?;
        let mut progress = Progress::new("messages published", Some(expected));
        let mut example = None;
        let ended = async {
            for part in parts {
                self.part(part, &publisher, &stop, &mut progress, &mut example).await?;
            }
            Ok(())
        };
        let ended = ended.await;
        if let Some(example) = example {
            let count = counted(self.refused, "order");
            report(format!(
                "warning: no notice for {count}, which the sweep passes over as well: {example}"
            ));
        }
        ended
    }

    async fn part(
        &mut self,
        part: &RebuildPart<'_>,
        publisher: &Publisher,
        stop: &Stop,
        progress: &mut Progress,
        example: &mut Option<String>,
    ) -> Result<(), Failure> {
        let mut key = OverdueKey::first();
        loop {
            let page = tokio::select! {
                biased;
                () = stop.requested() => return Err(stopped()),
                page = self.store.open_page(part.effect, &key, PAGE) => page?,
            };
            let confirmed = self.page(part.timeout, &page, publisher, stop).await?;
            self.confirmed += confirmed;
            progress.add(confirmed);
            self.refused += u64::try_from(page.refused.len()).unwrap_or(u64::MAX);
            *example = example.take().or_else(|| page.refused.first().cloned());
            if page.is_last {
                return Ok(());
            }
            key = page.next;
        }
    }

    /// Returns the number of notices, all confirmed.
    async fn page(
        &self,
        timeout: &Timeout,
        page: &OpenPage,
        publisher: &Publisher,
        stop: &Stop,
    ) -> Result<u64, Failure> {
        let is_over = Cell::new(false);
        let mut results = stream::iter(&page.orders)
            .take_while(|_| future::ready(!is_over.get()))
            .map(async |(order_id, due_at)| {
                if !self.pace.wait(stop).await {
                    return Err(NotConfirmed::Ended(stopped()));
                }
                let message = self.notice(timeout, order_id, *due_at, page.now());
                let message = message.map_err(NotConfirmed::Ended)?;
                publisher.publish(message).await.map_err(NotConfirmed::Refused)
            })
            .buffer_unordered(IN_FLIGHT);
        let (mut confirmed, mut refused) = (0, None);
        while let Some(result) = results.next().await {
            match result {
                Ok(()) => confirmed += 1,
                Err(NotConfirmed::Ended(ended)) => return Err(ended),
                // The errors of the other notices are awaited: one error has the cause, the others only report the closed channel.
                Err(NotConfirmed::Refused(error)) => {
                    is_over.set(true);
                    refused = Some(PublishError::that_says_why(refused, error));
                }
            }
        }
        refused.map_or(Ok(confirmed), |error| Err(error.into()))
    }

    fn notice(
        &self,
        timeout: &Timeout,
        order_id: &OrderId,
        due_at: DatabaseTime,
        now: DatabaseTime,
    ) -> Result<Message, Failure> {
        let route = self.routes.until_due(self.topology, timeout, now.until(due_at))?;
        let notice = DueNotice { order_id: order_id.clone(), due_at: due_at.timestamp() };
        Ok(Message::notice(route, &notice))
    }
}
