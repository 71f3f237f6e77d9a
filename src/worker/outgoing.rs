//! Rows on their way to the broker: read, published, deleted when they are confirmed. Events of the outbox and notices that
//! `schedule()` writes are two sources of one engine.
//!
//! One worker publishes each part of a table, by a lock of its session with the database. It looks several times a second: a
//! transaction that would notify it waits for others when it commits.

mod engine;
pub(crate) mod events;
pub(crate) mod notices;
mod undeleted;
mod unmoved;

use std::time::{Duration, Instant};

use super::{
    backoff::{Backoff, jitter},
    context::Worker,
    health::{Task, Work},
};
use crate::{
    decisions::low_watermark::LowWatermark,
    messaging::PublishError,
    shutdown::Stop,
    store::{
        StoreError,
        outgoing::{OutgoingSession, Table},
    },
    text::error_chain,
    wire::Message,
};
use engine::{Engine, Published, Row, RowFate};
use undeleted::Undeleted;

/// Rows of one page: what it costs is shared by all of them.
const PAGE: i64 = 2_000;
/// Between two looks while there is nothing, and between two tries to lead what another worker leads: four cheap statements per
/// second.
const IDLE: Duration = Duration::from_millis(250);
/// While rows are left that the broker does not take, looking at everything takes one of so many parts of the time, and moving
/// what cannot be moved another one.
const PARTS: u32 = 5;
/// The least time before what the broker does not take is tried again.
const LEFT_EVERY: Duration = Duration::from_secs(1);

/// Why rows that are to be published stay in their table for now.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutgoingError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// None of the rows is at fault.
    #[error("{0}")]
    Elsewhere(String),
}

/// The oldest rows after one.
#[derive(Default)]
struct RowsRead {
    rows: Vec<(Row, Message)>,
    /// Rows that are not published.
    decided: Vec<(Row, RowFate)>,
    /// Its last row, whether that is to be published or not; none if there are no rows.
    last: Option<i64>,
    is_full: bool,
    /// Some are neither published nor decided: they wait for others.
    holds: bool,
}

/// Rows that the broker does not take for now, and that stay where they are.
#[derive(Debug)]
struct Left {
    rows: usize,
    /// Of the first.
    reason: String,
}

/// What a pass came to.
#[derive(Debug, Default)]
struct Passed {
    published: usize,
    left: Option<Left>,
    /// Rows whose routes lead nowhere: they are tried again at once, by others.
    returned: usize,
    /// It has read every row.
    is_whole: bool,
    /// It was a look at everything, also of what is below the low watermark.
    is_look: bool,
}

impl Passed {
    fn leave(&mut self, rows: usize, reason: String) {
        self.left.get_or_insert(Left { rows: 0, reason }).rows += rows;
    }
}

/// The session of one source.
struct Leader<'a> {
    worker: &'a Worker,
    database: OutgoingSession,
    engine: Engine,
    undeleted: Undeleted,
    low_watermark: LowWatermark,
    /// The parts that this session publishes, and those that others do.
    parts: Vec<String>,
    others: Vec<String>,
    lead_at: Instant,
    /// Between two looks at everything.
    look_every: Duration,
}

/// A table of rows to publish.
trait Source: Send {
    const TABLE: Table;
    const WORK: Work;
    /// What its connection to the broker is called.
    const PURPOSE: &'static str;
    /// Whether rows of one order go one after the other: then a pass ends with a page that was cut, and each page begins where the pass
    /// began, as long as rows are gone when their page is done with. One may have come meanwhile that the later ones wait for.
    const IN_ORDER: bool;

    /// The parts of the table, at the beginning of a session; none if nothing can be published.
    fn begin(&mut self) -> impl Future<Output = Result<Vec<String>, OutgoingError>> + Send;
    /// The rows after one; `is_look` at everything.
    fn read(
        &mut self,
        session: &mut Leader<'_>,
        after: i64,
        is_look: bool,
    ) -> impl Future<Output = Result<RowsRead, OutgoingError>> + Send;
    /// Deletes what is confirmed, and puts aside what was refused.
    fn settle(
        &mut self,
        session: &mut Leader<'_>,
        fates: Vec<(Row, RowFate)>,
        passed: &mut Passed,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Says what was done, and waits until there may be more.
    fn rest(
        &mut self,
        session: &mut Leader<'_>,
        passed: &Passed,
        stop: &Stop,
    ) -> impl Future<Output = ()> + Send;
    fn failed(&mut self, reason: &str);
}

/// Publishes a source until a stop is asked for.
///
/// A failure is logged and tried again after a while; it does not end the session of the worker.
async fn publish<S: Source>(worker: &Worker, mut source: S, alive: &Task, stop: &Stop) {
    while !stop.is_requested() {
        alive.moved();
        if let Err(error) = in_one_session(worker, &mut source, alive, stop).await {
            failed(worker, &mut source, &error);
        }
        stop.pause(jitter(worker.timing.backoff_longest)).await;
    }
}

fn failed<S: Source>(worker: &Worker, source: &mut S, error: &OutgoingError) {
    let reason = error_chain(error);
    source.failed(&reason);
    worker.health.failed(S::WORK, "", &reason);
}

async fn in_one_session<S: Source>(
    worker: &Worker,
    source: &mut S,
    alive: &Task,
    stop: &Stop,
) -> Result<(), OutgoingError> {
    let others = source.begin().await?;
    if others.is_empty() {
        return Ok(());
    }
    // Nothing is kept of an earlier session: after a failover ids are given out again, to rows that are not published.
    let mut session = Leader {
        worker,
        database: OutgoingSession::open(&worker.store).await?,
        engine: Engine::new(worker, S::PURPOSE),
        undeleted: Undeleted::new(worker.timing.undeleted_again),
        low_watermark: LowWatermark::default(),
        parts: Vec::new(),
        others,
        lead_at: Instant::now(),
        look_every: Duration::ZERO,
    };
    let mut backoff = Backoff::new(&worker.timing);
    while !stop.is_requested() {
        alive.moved();
        session.lead(S::TABLE).await?;
        if session.parts.is_empty() {
            stop.pause(IDLE).await;
            continue;
        }
        match session.pass(source, alive, stop).await {
            Ok(passed) => {
                backoff = Backoff::new(&worker.timing);
                source.rest(&mut session, &passed, stop).await;
            }
            // Without the database there is no lock.
            Err(error @ OutgoingError::Store(_)) => return Err(error),
            // After a while its locks end with it: another worker may be able to publish.
            Err(error) if backoff.is_longest() && !session.has_to_last() => return Err(error),
            Err(error) => {
                failed(worker, source, &error);
                session.low_watermark.look_soon();
                stop.pause(backoff.pause()).await;
            }
        }
    }
    Ok(())
}

impl Leader<'_> {
    /// Whether the session is to go on whatever fails: the next one would publish once more what is published and not deleted, and what
    /// has no answer yet (an alarm, a queue that does not answer).
    fn has_to_last(&self) -> bool {
        !self.undeleted.is_empty() || self.engine.has_unanswered()
    }

    /// Leads what no other worker leads any more.
    async fn lead(&mut self, table: Table) -> Result<(), StoreError> {
        if self.others.is_empty() || Instant::now() < self.lead_at {
            return Ok(());
        }
        self.lead_at = Instant::now() + IDLE;
        let more = self.database.lead(table, &self.others).await?;
        if !more.is_empty() {
            self.low_watermark.look_soon();
        }
        self.others.retain(|part| !more.contains(part));
        self.parts.extend(more);
        Ok(())
    }

    /// Publishes what is there, page by page.
    async fn pass<S: Source>(
        &mut self,
        source: &mut S,
        alive: &Task,
        stop: &Stop,
    ) -> Result<Passed, OutgoingError> {
        let began = Instant::now();
        let is_look = self.low_watermark.is_due(began, self.look_every);
        let mut after = if is_look { 0 } else { self.low_watermark.row() };
        let mut passed = Passed { is_whole: after == 0, is_look, ..Passed::default() };
        self.undeleted.try_again(&self.database).await?;
        let (mut last_of_all, mut is_cut) = (None, false);
        loop {
            alive.moved();
            let RowsRead { rows, decided, last, is_full, holds } =
                source.read(self, after, is_look).await?;
            // What is remembered would be gone with a session that asks nothing for long.
            if let Some(reason) = self.undeleted.is_full() {
                return Err(OutgoingError::Elsewhere(reason));
            }
            if let Some(last) = last {
                self.low_watermark.saw(last);
                last_of_all = Some(last);
            }
            let Published { mut fates, has_more, failure } = self.engine.publish(rows, stop).await;
            fates.extend(decided);
            source.settle(self, fates, &mut passed).await?;
            if let Some(failure) = failure {
                return Err(failure);
            }
            is_cut |= has_more;
            if stop.is_requested() || !is_full || has_more && S::IN_ORDER {
                break;
            }
            if !S::IN_ORDER || holds || passed.left.is_some() {
                after = last.unwrap_or(after);
            }
        }
        passed.is_whole &= !is_cut;
        // Rows that are left stay above the low watermark until the next full scan.
        let left_none = passed.left.is_none() && passed.returned == 0;
        if !is_cut && (is_look || left_none && self.low_watermark.is_far_below()) {
            // Rows that are left may be below the low watermark.
            let last = last_of_all.filter(|_| passed.left.is_none());
            self.low_watermark.looked(last, self.database.writers(S::TABLE).await?);
        }
        if is_look && is_cut {
            self.low_watermark.look_soon();
        }
        if is_look {
            self.look_every = match passed.left {
                Some(_) => self.rest_after(began.elapsed(), 1),
                None => self.worker.timing.look_at_everything,
            };
        }
        Ok(passed)
    }

    /// For what takes one of [`PARTS`] of the time; at the most so many times what is between two looks.
    fn rest_after(&self, took: Duration, most: u32) -> Duration {
        let look = self.worker.timing.look_at_everything;
        (PARTS * took).clamp(LEFT_EVERY.min(look), most * look)
    }
}
