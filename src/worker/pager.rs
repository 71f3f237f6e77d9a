//! Reads overdue orders page by page, in the order of the index, for the sweep and for bursts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{clock_watch, context::Worker, health::Task, session::SessionEnd};
use crate::{
    order::{OrderId, Outcome},
    shutdown::Stop,
    spans::Batch,
    store::{
        StoreError,
        clock::DatabaseTime,
        orders::ClosingPath,
        overdue::{OverdueKey, OverduePage},
    },
    telemetry,
};

/// How overdue orders are read and closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paging {
    pub(super) path: ClosingPath,
    /// Orders in one statement.
    pub(super) orders: i64,
    /// Statements at the same time.
    pub(super) at_once: usize,
    /// Limit of pages.
    pub(super) pages: usize,
}

/// Closes the overdue orders of an effect. The pager skips orders that cannot be closed, and continues behind them.
pub(super) struct Pager<'a> {
    pub(super) worker: &'a Arc<Worker>,
    pub(super) effect: &'a str,
    pub(super) paging: Paging,
    /// Orders that have been overdue for a shorter time are not read.
    pub(super) grace: Duration,
    /// The last order that was queried; the next page begins behind it.
    pub(super) key: OverdueKey,
    pub(super) alive: &'a Task,
    /// After a requested stop no further page is read.
    pub(super) stop: &'a Stop,
    /// Number of rows read.
    pub(super) rows: usize,
    /// Time spent on reading.
    pub(super) looked: Duration,
    pages: usize,
    is_at_end: bool,
    page: Option<OverduePage>,
    closing: JoinSet<PageAnswer>,
    /// Why no further page is closed.
    failure: Option<StoreError>,
}

/// The outcomes of a page.
pub(super) struct PageAnswer {
    pub(super) ids: Vec<OrderId>,
    /// The deadline of each of `ids`, if the page was read by deadline.
    pub(super) deadlines: Vec<DatabaseTime>,
    /// The outcome of each of `ids`.
    pub(super) outcomes: Result<Vec<Outcome>, StoreError>,
    /// An instant before the statement was sent.
    pub(super) at: Instant,
    /// Errors of rows with an invalid order id.
    pub(super) refused: Vec<String>,
}

impl<'a> Pager<'a> {
    pub(super) fn new(
        worker: &'a Arc<Worker>,
        effect: &'a str,
        paging: Paging,
        grace: Duration,
        key: OverdueKey,
        (alive, stop): (&'a Task, &'a Stop),
    ) -> Self {
        let (rows, pages, is_at_end, page, closing) = (0, 0, false, None, JoinSet::new());
        Self {
            worker,
            effect,
            paging,
            grace,
            key,
            alive,
            stop,
            rows,
            pages,
            looked: Duration::ZERO,
            is_at_end,
            page,
            closing,
            failure: None,
        }
    }

    /// The outcomes of the next page; `None` after the last page. While pages are being closed, the next page is read. If reading
    /// fails, the outcomes of these pages are returned first: a dropped statement may have closed its orders.
    pub(super) async fn next(&mut self) -> Result<Option<PageAnswer>, SessionEnd> {
        loop {
            self.alive.moved();
            if self.page.is_none() && !self.is_at_end {
                match self.read().await {
                    Ok(page) => self.page = page,
                    Err(error) => self.end(Some(error)),
                }
            }
            if self.closing.len() < self.paging.at_once
                && let Some(page) = self.page.take()
            {
                self.key = page.next;
                let (worker, effect) = (Arc::clone(self.worker), self.effect.to_owned());
                let (path, deadlines) = (self.paging.path, page.deadlines);
                let closing = close(worker, effect, path, page.ids, page.refused);
                self.closing.spawn(async { PageAnswer { deadlines, ..closing.await } });
                continue;
            }
            return match self.closing.join_next().await {
                Some(Ok(asked)) => Ok(Some(asked)),
                Some(Err(panic)) => Err(SessionEnd::Panicked(panic.to_string())),
                None => self.failure.take().map_or(Ok(None), |failure| Err(failure.into())),
            };
        }
    }

    /// Closes no further page. Outcomes of earlier pages are returned before the first failure.
    pub(super) fn end(&mut self, failure: Option<StoreError>) {
        (self.page, self.is_at_end) = (None, true);
        self.failure = self.failure.take().or(failure);
    }

    async fn read(&mut self) -> Result<Option<OverduePage>, StoreError> {
        let ends = self.pages >= self.paging.pages || self.stop.is_requested();
        if ends || self.worker.clock.leap(Instant::now()).is_some() {
            return Ok(None);
        }
        let (store, effect) = (&self.worker.store, self.worker.closers[self.effect].effect());
        let began = Instant::now();
        let page = store.overdue_page(effect, &self.key, self.paging.orders, self.grace).await?;
        self.looked += began.elapsed();
        // Only a reading of the clock after the page shows that the clock had leapt before the page was read.
        clock_watch::read(self.worker).await?;
        if self.worker.clock.leap(Instant::now()).is_some() {
            return Ok(None);
        }
        let Some(page) = page else { return Ok(None) };
        // A page of rows with invalid order ids has no key to continue from.
        let is_last = i64::try_from(page.rows).is_ok_and(|rows| rows < self.paging.orders);
        self.is_at_end = is_last || page.next == self.key;
        self.rows += page.rows;
        self.pages += 1;
        Ok(Some(page))
    }
}

/// Closes the orders of a page, and counts them.
pub(super) async fn close(
    worker: Arc<Worker>,
    effect: String,
    path: ClosingPath,
    ids: Vec<OrderId>,
    refused: Vec<String>,
) -> PageAnswer {
    let at = Instant::now();
    let traces = worker.traces.of(&ids);
    let outcomes = worker.closers[&effect].outcomes(&ids, &traces, path, None).await;
    if let Ok(outcomes) = &outcomes
        && !ids.is_empty()
    {
        let (timeouts, took) = (worker.timeouts_of(&effect), at.elapsed());
        let of_all = Batch { timeout: &timeouts, effect: &effect, path: path.as_str(), took };
        worker.spans.closed(of_all, &ids, &traces, outcomes);
        telemetry::answered(&timeouts, &ids, &traces, outcomes);
        if worker.counters.batch(&timeouts, path, outcomes, took) > 0 {
            worker.events.notify_one();
            worker.health.closed(&effect);
        }
    }
    PageAnswer { ids, deadlines: Vec::new(), outcomes, at, refused }
}
