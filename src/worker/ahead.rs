//! The sweep-ahead: where more is due at an instant than a batch holds, orders are closed in the order of the index,
//! ahead of their messages. The messages say that many are due; the database knows which.
//!
//! A message whose order this worker closed ahead of it is acked without a question. What that rests on: the closing is
//! committed; it counts for one message, so a second one is asked for again; and only for [`crate::decisions::recent_orders::REMEMBERED_FOR`]. A
//! notice that was published when its order was closed already, because somebody has opened it again, comes after its
//! level: later than that, or behind the first message.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::{JoinError, JoinSet};

use super::{
    ahead_state::{Ahead, State},
    context::Worker,
    counters::count,
    session::SessionEnd,
};
use crate::{
    decisions::recent_orders::REMEMBERED_FOR,
    order::OrderId,
    shutdown::Stop,
    store::{
        StoreError,
        ahead::{OverdueReader, Reading},
        orders::ClosingPath,
    },
    telemetry,
    text::error_chain,
};

/// Orders in one statement.
const PAGE: i64 = 2_000;
/// Pages of a lap at the most: about a second's work.
const PAGES: u32 = 25;
/// A lap with fewer orders is the last one: as many come by their messages as quickly.
const FEW: usize = 50;
/// Statements at the same time.
const AT_ONCE: usize = 2;
/// How often it is tried to begin while another worker closes ahead.
const TRY_AGAIN: Duration = Duration::from_millis(25);
/// For how long: then the messages are asked for. Until then they wait: asking for what the other one is closing would take
/// the locks and the CPU that it needs.
const ANOTHERS: Duration = Duration::from_secs(3);
/// After a run that has closed nothing the next one waits so many times longer than it took…
const REST: u32 = 10;
/// … at the most so long.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// Closes ahead whenever a consumer asks for it, until a stop is asked for. One that fails is no more than over: the
/// messages are asked for one batch after the other, and say what is wrong.
pub(super) async fn ahead(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut tasks = JoinSet::new();
    for effect in worker.closers.keys() {
        tasks.spawn(serve(Arc::clone(&worker), effect.clone(), stop.clone()));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|panic| SessionEnd::Panicked(panic.to_string()))??;
    }
    Ok(())
}

async fn serve(worker: Arc<Worker>, effect: String, stop: Stop) -> Result<(), SessionEnd> {
    let ahead = &worker.ahead[&effect];
    let _serving = Serving::begin(ahead);
    let mut remembers = false;
    loop {
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = ahead.wanted.notified() => {}
            () = tokio::time::sleep(REMEMBERED_FOR), if remembers => {
                remembers = !ahead.forget_old(Instant::now());
                continue;
            }
        }
        remembers = true;
        let run = Run { worker: &worker, effect: &effect };
        let began = Instant::now();
        // A statement that runs when the stop comes is dropped, and so cancelled.
        let done = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            done = run.run() => done,
        };
        let took = began.elapsed();
        let closed = match done {
            Ok(Some(closed)) => {
                telemetry::closed_ahead(&effect, closed, took);
                closed
            }
            Ok(None) => return Ok(()),
            Err(panic @ SessionEnd::Panicked(_)) => return Err(panic),
            Err(error) => {
                telemetry::ahead_failed(&effect, &error_chain(&error));
                0
            }
        };
        let rest = if closed > 0 { Duration::ZERO } else { took * REST };
        let from = Instant::now() + rest.min(LONGEST_REST);
        ahead.state.send_replace(State::Idle(Some(from)));
    }
}

/// As long as it is there, somebody does it.
struct Serving<'a>(&'a Ahead);

impl<'a> Serving<'a> {
    fn begin(ahead: &'a Ahead) -> Self {
        ahead.state.send_replace(State::Idle(None));
        Self(ahead)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.state.send_replace(State::Off);
    }
}

/// From the oldest order on, lap after lap, until few become due meanwhile.
struct Run<'a> {
    worker: &'a Arc<Worker>,
    effect: &'a str,
}

impl Run<'_> {
    /// How many it closed; `None` where this cannot be done for the effect.
    async fn run(&self) -> Result<Option<usize>, SessionEnd> {
        let mut reader = match self.begin().await? {
            Reading::Begun(reader) => reader,
            Reading::ByAnother => return Ok(Some(0)),
            Reading::Impossible => return Ok(None),
        };
        let mut closed = 0;
        loop {
            let lap = self.close_lap(&mut reader).await?;
            closed += lap.closed;
            self.worker.ahead[self.effect].lap_ended();
            if lap.read < FEW || lap.closed == 0 {
                break;
            }
            if !reader.next_lap().await? {
                break;
            }
        }
        reader.end().await?;
        Ok(Some(closed))
    }

    /// Workers share a burst: one closes ahead, and what the others wait for in vain they close by their messages.
    async fn begin(&self) -> Result<Reading<'_>, StoreError> {
        let (store, effect) = (&self.worker.store, self.worker.closers[self.effect].effect());
        let last = Instant::now() + ANOTHERS;
        loop {
            let reading = store.read_overdue(effect).await?;
            if !matches!(reading, Reading::ByAnother) || Instant::now() >= last {
                return Ok(reading);
            }
            self.worker.ahead[self.effect].another_closes();
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// While some are being closed the next page is read.
    async fn close_lap(&self, reader: &mut OverdueReader<'_>) -> Result<Lap, SessionEnd> {
        let (mut closing, mut lap) = (JoinSet::new(), Lap { read: 0, closed: 0 });
        for _ in 0..PAGES {
            let Some(ids) = reader.page(PAGE).await? else { break };
            lap.read += ids.len();
            if closing.len() >= AT_ONCE {
                lap.closed += joined(closing.join_next().await)?;
            }
            closing.spawn(close(Arc::clone(self.worker), self.effect.to_owned(), ids));
        }
        while !closing.is_empty() {
            lap.closed += joined(closing.join_next().await)?;
        }
        Ok(lap)
    }
}

/// Orders that were overdue, and how many of them could be closed.
struct Lap {
    read: usize,
    closed: usize,
}

/// How many could be closed.
async fn close(
    worker: Arc<Worker>,
    effect: String,
    mut ids: Vec<OrderId>,
) -> Result<usize, StoreError> {
    let ahead = &worker.ahead[&effect];
    let now = Instant::now();
    ids.retain(|id| !ahead.is_left(id, now));
    if ids.is_empty() {
        return Ok(0);
    }
    let outcomes = worker.closers[&effect].outcomes(&ids, ClosingPath::Ahead).await?;
    let path = ClosingPath::Ahead.as_str();
    telemetry::batch_closed(&worker.timeouts_of(&effect), path, &outcomes, now.elapsed());
    let closed = ahead.answered(&ids, &outcomes);
    if closed > 0 {
        worker.health.closed(&effect);
        count(&worker.counters.ahead, closed);
        worker.events.notify_one();
    }
    Ok(closed)
}

fn joined(
    ended: Option<Result<Result<usize, StoreError>, JoinError>>,
) -> Result<usize, SessionEnd> {
    match ended {
        Some(Ok(closed)) => Ok(closed?),
        Some(Err(panic)) => Err(SessionEnd::Panicked(panic.to_string())),
        None => Ok(0),
    }
}
