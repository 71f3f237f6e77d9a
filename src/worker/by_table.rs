//! Closes due orders from the table, in three cases. In a burst: ahead of their messages, which show that some orders are due,
//! while the table shows how many. While no messages come: the worker polls the table, and continues for a while when messages
//! come again. After a pause: the orders that became due during the pause.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    backoff::Backoff,
    burst::Burst,
    context::Worker,
    health::Task,
    limits::LOOK_EVERY,
    pager::{PageAnswer, Pager, Paging},
    session::SessionEnd,
    sweep,
};
use crate::{
    decisions::batch::MANY,
    shutdown::Stop,
    store::{
        StoreError,
        orders::ClosingPath,
        overdue::{BurstLock, OverdueKey},
    },
    telemetry,
    text::error_chain,
};

/// A pass has at most 25 pages, which take about a second: messages wait until the pass ends.
const PAGING: Paging = Paging { path: ClosingPath::Burst, orders: 2_000, at_once: 2, pages: 25 };
/// A pass with fewer rows is the last pass of a burst: messages close this number of orders as quickly.
const FEW: usize = 50;
/// Shortest pause between two attempts to take the lock from a worker that makes progress: reading the orders that this worker
/// closes would take locks and CPU from it. Also the shortest pause after a reading that found too few orders for a burst.
const TRY_AGAIN: Duration = Duration::from_millis(25);
/// Pause after a burst that has closed nothing.
const REST: Duration = Duration::from_millis(250);
/// A burst begins behind the orders of the last burst, which left skipped orders to their messages. After this time a burst
/// begins with the oldest order, and without a burst the worker forgets which orders were closed.
const START_OVER: Duration = Duration::from_mins(1);
/// Interval at which polling begins with the oldest order while no messages come: only polling can close skipped orders.
const START_OVER_AWAY: Duration = Duration::from_secs(1);
/// Interval of polling while an order is due.
const TICK: Duration = Duration::from_millis(20);
/// Interval of polling while no order is due: an order with an earlier deadline than the known ones may be inserted.
const LONGEST_TICK: Duration = Duration::from_millis(200);
/// Reading takes at most 1 / `PARTS` of the time of the reader.
const PARTS: u32 = 10;
/// An order that has been overdue for a shorter time has a message in transit, once messages come again.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// Limit of polling after messages come again, however many are late: after this time the backlog of an outage is gone.
const LONGEST_TAIL: Duration = Duration::from_mins(1);
/// Interval at which the end of a pause is checked.
const PAUSED: Duration = Duration::from_millis(500);

/// Reads the table until a stop is requested. A failed burst continues after a back-off; its messages do not wait for that,
/// and their consumers log the error.
pub(super) async fn serve(
    worker: Arc<Worker>,
    effect: String,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let burst = &*worker.bursts[&effect];
    burst.rest(None);
    let served = read_again(&worker, &effect, burst, &stop).await;
    burst.end();
    served
}

async fn read_again(
    worker: &Arc<Worker>,
    effect: &str,
    burst: &Burst,
    stop: &Stop,
) -> Result<(), SessionEnd> {
    let alive = worker.health.task("burst", effect, sweep::ALIVE_WITHIN);
    let mut reader = Reader::new(worker, effect, burst, (&alive, stop));
    let (mut backoff, mut next, mut is_asked) =
        (Backoff::new(&worker.timing), Duration::ZERO, false);
    loop {
        alive.moved();
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            // A request during a pause is kept.
            () = burst.wanted() => is_asked = true,
            () = worker.health.away.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
        next = reader.rests_for(Instant::now());
        if !next.is_zero() {
            continue;
        }
        // A statement that runs when the stop is requested is dropped, and so cancelled.
        let read = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            read = reader.read(std::mem::take(&mut is_asked)) => read,
        };
        match read {
            Ok(after) => (backoff, next) = (Backoff::new(&worker.timing), after),
            Err(panic @ SessionEnd::Panicked(_)) => return Err(panic),
            Err(error) => {
                telemetry::burst_failed(effect, &error_chain(&error));
                next = backoff.pause_after(REST);
                // A burst that has begun continues.
                if !burst.is_begun() {
                    burst.rest(Some(Instant::now() + REST));
                }
                // If the database did not answer, the orders are not at fault: the next pass begins with the oldest order.
                if !matches!(&error, SessionEnd::Store(error) if error.is_answer()) {
                    reader.oldest_at = Instant::now();
                }
            }
        }
    }
}

/// The reader of one effect's table.
struct Reader<'a> {
    worker: &'a Arc<Worker>,
    effect: &'a str,
    burst: &'a Burst,
    task: (&'a Task, &'a Stop),
    began: Instant,
    /// The last order that was read, and when reading begins with the oldest order again.
    key: OverdueKey,
    oldest_at: Instant,
    /// When late messages may cause the next reading of the table.
    looks_at: Instant,
    /// When polling ends, and its latest end while orders are still being closed.
    polls: Option<(Instant, Instant)>,
    is_away: bool,
}

/// Result of some passes.
#[derive(Default)]
struct Passed {
    closed: usize,
    rows: usize,
    /// Time spent on reading.
    looked: Duration,
}

impl<'a> Reader<'a> {
    fn new(
        worker: &'a Arc<Worker>,
        effect: &'a str,
        burst: &'a Burst,
        task: (&'a Task, &'a Stop),
    ) -> Self {
        let (now, key) = (Instant::now(), OverdueKey::first());
        let (began, oldest_at, looks_at) = (now, now, now);
        let (polls, is_away) = (None, false);
        Self { worker, effect, burst, task, began, key, oldest_at, looks_at, polls, is_away }
    }

    /// Time until the next reading: after a burst that closed nothing, after polling, or after a reading with few due orders.
    fn rests_for(&self, now: Instant) -> Duration {
        if self.burst.is_begun() {
            return Duration::ZERO;
        }
        self.burst.rests_for(now).max(self.looks_at.saturating_duration_since(now))
    }

    /// Closes due orders in a burst, or while polling. Returns the pause before the next reading; a request ends the pause.
    async fn read(&mut self, is_asked: bool) -> Result<Duration, SessionEnd> {
        let (worker, now) = (self.worker, Instant::now());
        match worker.closers[self.effect].pause_lasts().await? {
            Some(true) => {
                self.burst.rest(Some(now + PAUSED));
                return Ok(PAUSED);
            }
            // The orders that became due during the pause are closed, the oldest first.
            Some(false) => self.poll(now),
            None => {}
        }
        self.follow_messages(now);
        if !self.burst.is_begun()
            && self.polls.is_none()
            && !(is_asked && self.are_many_due(now).await?)
        {
            if now.saturating_duration_since(self.oldest_at) >= START_OVER {
                self.burst.forget();
            }
            return Ok(LOOK_EVERY);
        }
        let in_burst = self.burst.is_begun();
        let polls = self.polls.is_some();
        let begins = now >= self.oldest_at;
        let least = if self.is_away { START_OVER_AWAY } else { START_OVER };
        if begins {
            (self.key, self.oldest_at) = (OverdueKey::first(), now + least);
        }
        let waits = ON_ITS_WAY + worker.settings.batch_linger.as_duration();
        let grace = if self.is_away || !polls || in_burst { Duration::ZERO } else { waits };
        let passed = self.run(grace).await;
        let (ended, took) = (Instant::now(), now.elapsed());
        let looked =
            passed.as_ref().map_or(took, |passed| passed.as_ref().map_or(took, |it| it.looked));
        if begins {
            self.oldest_at = ended + least.max(looked * PARTS);
        }
        let closed = passed.as_ref().map_or(0, |passed| passed.as_ref().map_or(0, |it| it.closed));
        // Polling continues also if another worker closes the orders, or if they cannot be closed at present.
        let goes_on = closed > 0 || !matches!(passed, Ok(Some(_)));
        if let Some((until, last)) = &mut self.polls
            && goes_on
        {
            *until = (*last).min(ended + worker.timing.messages_again);
        }
        let Some(Passed { rows, .. }) = passed? else {
            return Ok(if polls { LONGEST_TICK } else { REST });
        };
        if closed > 0 || !polls {
            telemetry::burst_closed(self.effect, closed, took);
        }
        if !polls {
            self.burst.rest((closed == 0).then(|| ended + REST));
            return Ok(LOOK_EVERY);
        }
        let next = if rows > 0 { TICK } else { self.until_next_due(grace).await? };
        // The time of a reading from the oldest order is left out, because such a reading is rare.
        let looked = if begins { Duration::ZERO } else { looked + ended.elapsed() };
        let next = next.max((looked * PARTS).saturating_sub(took));
        // Late messages cause no earlier reading.
        self.burst.rest(Some(ended + next));
        Ok(next)
    }

    /// Polls while no messages come, and for a while after that.
    fn follow_messages(&mut self, now: Instant) {
        let worker = self.worker;
        let opens_for_long = now - self.began >= worker.timing.broker_silence;
        let is_away = worker.health.is_away(&worker.timeouts_with(self.effect), opens_for_long);
        if std::mem::replace(&mut self.is_away, is_away) != is_away {
            telemetry::messages_come(self.effect, !is_away);
        }
        if is_away {
            self.poll(now);
        }
        if self.polls.is_some_and(|(until, _)| until <= now) {
            (self.polls, self.oldest_at) = (None, now + START_OVER);
        }
    }

    fn poll(&mut self, now: Instant) {
        if self.polls.is_none() {
            self.oldest_at = now;
        }
        self.polls = Some((now + self.worker.timing.messages_again, now + LONGEST_TAIL));
    }

    /// Whether the table shows enough due orders for a burst.
    async fn are_many_due(&mut self, now: Instant) -> Result<bool, StoreError> {
        if now >= self.oldest_at {
            self.key = OverdueKey::first();
        }
        let effect = self.worker.closers[self.effect].effect();
        let many = i64::try_from(MANY).unwrap_or(i64::MAX);
        let page = self.worker.store.overdue_page(effect, &self.key, many, Duration::ZERO).await?;
        let are_many = page.is_some_and(|page| page.rows >= MANY);
        if are_many {
            self.burst.want(Instant::now());
        } else {
            self.looks_at = Instant::now() + TRY_AGAIN.max(now.elapsed() * PARTS);
        }
        Ok(are_many || self.burst.is_begun())
    }

    /// Runs passes until a pass has few orders. `None` if another worker closes the orders.
    async fn run(&mut self, grace: Duration) -> Result<Option<Passed>, SessionEnd> {
        let (mut passed, mut lock) = (Passed::default(), self.lock().await?);
        while lock.is_some() {
            let (worker, began, before) = (self.worker, Instant::now(), self.key.clone());
            let mut pager =
                Pager::new(worker, self.effect, PAGING, grace, self.key.clone(), self.task);
            while let Some(PageAnswer { ids, deadlines, outcomes, at, .. }) = pager.next().await? {
                // A failed page is left to its messages, and the burst continues behind it.
                self.key.clone_from(&pager.key);
                match outcomes {
                    Ok(outcomes) => {
                        passed.closed += self.burst.answered((&ids, &deadlines), &outcomes, at);
                    }
                    Err(error) => pager.end(Some(error)),
                }
                lock = self.kept(lock).await;
                if lock.is_none() {
                    pager.end(None);
                }
            }
            passed.rows += pager.rows;
            passed.looked += pager.looked;
            self.key.clone_from(&pager.key);
            let Some(held) = lock else { break };
            self.burst.passed(began);
            // Rows with invalid order ids have no key to continue from.
            let is_last = pager.rows < FEW || pager.key == before;
            if is_last || self.polls.is_some() && Instant::now() >= self.oldest_at {
                // If the release fails, the connection ends, and the lock with it.
                _ = held.release().await;
                return Ok(Some(passed));
            }
            lock = Some(held);
        }
        Ok(None)
    }

    /// Keeps the lock, or takes it again if PostgreSQL ended its transaction during a long page. `None` if another worker has it.
    async fn kept(&self, lock: Option<BurstLock<'a>>) -> Option<BurstLock<'a>> {
        let lock = lock?;
        if lock.keep().await.is_ok() {
            return Some(lock);
        }
        drop(lock);
        self.lock().await.ok().flatten()
    }

    /// Takes the lock, so that one worker at a time closes the due orders. `None` if no burst runs, or if it closes nothing:
    /// messages then close the orders.
    async fn lock(&self) -> Result<Option<BurstLock<'a>>, StoreError> {
        let Self { worker, effect, burst, .. } = self;
        let many = i64::try_from(MANY).unwrap_or(i64::MAX);
        let (mut oldest, mut rest) = (None, Duration::ZERO);
        loop {
            if let Some(lock) = worker.store.lock_burst(effect).await? {
                return Ok(Some(lock));
            }
            self.task.0.moved();
            tokio::time::sleep(rest.max(TRY_AGAIN)).await;
            if burst.awaited(Instant::now()).is_none() {
                return Ok(None);
            }
            let asked = Instant::now();
            // The other worker makes progress while the oldest orders change.
            let of_effect = worker.closers[*effect].effect();
            let page =
                worker.store.overdue_page(of_effect, &self.key, many, Duration::ZERO).await?;
            let last = page.map(|page| page.next);
            if oldest != last {
                burst.moved(Instant::now());
                oldest = last;
            }
            rest = (asked.elapsed() * PARTS).min(REST);
        }
    }

    /// Time until the next order has been overdue for `grace`, between [`TICK`] and [`LONGEST_TICK`].
    async fn until_next_due(&self, grace: Duration) -> Result<Duration, StoreError> {
        let worker = self.worker;
        let effect = worker.closers[self.effect].effect();
        let page = worker.store.open_page(effect, &self.key, 1).await?;
        let next = page.orders.first().and_then(|(_, due_at)| worker.clock.surely(*due_at));
        let rest = next
            .map_or(LONGEST_TICK, |due| (due + grace).saturating_duration_since(Instant::now()));
        Ok(rest.clamp(TICK, LONGEST_TICK))
    }
}
