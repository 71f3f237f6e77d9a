//! Closes what is due by the table, whatever the broker does. In a burst, ahead of its messages: they say that some are due, and the
//! table says how many. While no messages come, in their place: then the worker is a poller, until the oldest orders have come by message
//! again for a while. And after a pause, what came due in it.

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

/// 25 pages are about a second's work: for that long messages wait.
const PAGING: Paging = Paging { path: ClosingPath::Burst, orders: 2_000, at_once: 2, pages: 25 };
/// A pass with fewer orders is the last one: as many come by their messages as quickly.
const FEW: usize = 50;
/// Pause between two attempts to take the lock from a worker that goes on: asking for what the other worker is closing would take the
/// locks and the CPU that it needs. Also after a reading that has found less than a burst.
const TRY_AGAIN: Duration = Duration::from_millis(25);
/// Pause after a burst that has closed nothing.
const REST: Duration = Duration::from_millis(250);
/// A burst goes on behind the last one, since what that has passed over is left to its messages; after this long it begins with
/// the oldest order again. Without a burst for this long, what the last one has closed is forgotten.
const START_OVER: Duration = Duration::from_mins(1);
/// The same where no messages come: what the last reading has passed over has no other way.
const START_OVER_AWAY: Duration = Duration::from_secs(1);
/// Between two readings in the place of messages, while something is due.
const TICK: Duration = Duration::from_millis(20);
/// The same while nothing is: an order may be written that is due sooner than the next one.
const LONGEST_TICK: Duration = Duration::from_millis(200);
/// Reading takes one of so many parts of the time at most.
const PARTS: u32 = 10;
/// Orders that have been overdue for less have a message on its way, once messages come again.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// It is no poller for longer, however many messages are late: by then the backlog of an outage is gone.
const LONGEST_TAIL: Duration = Duration::from_mins(1);
/// Between two questions whether a pause lasts.
const PAUSED: Duration = Duration::from_millis(500);

/// Reads the table until a stop is asked for. A burst that fails continues after a pause; the messages do not wait for that, and say
/// what is wrong.
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
            // What asks while it rests is not forgotten.
            () = burst.wanted() => is_asked = true,
            () = worker.health.away.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
        next = reader.rests_for(Instant::now());
        if !next.is_zero() {
            continue;
        }
        // A statement that runs when the stop comes is dropped, and so cancelled.
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
                // A burst that was begun continues.
                if !burst.is_begun() {
                    burst.rest(Some(Instant::now() + REST));
                }
                // Its orders are not at fault.
                if !matches!(&error, SessionEnd::Store(error) if error.is_answer()) {
                    reader.oldest_at = Instant::now();
                }
            }
        }
    }
}

/// Of one effect.
struct Reader<'a> {
    worker: &'a Arc<Worker>,
    effect: &'a str,
    burst: &'a Burst,
    task: (&'a Task, &'a Stop),
    began: Instant,
    /// Where it goes on, and when it begins with the oldest order again.
    key: OverdueKey,
    oldest_at: Instant,
    /// When messages that are late make it look at the table again.
    looks_at: Instant,
    /// Until then it is a poller, and until then at most however much it closes.
    polls: Option<(Instant, Instant)>,
    is_away: bool,
}

/// What some passes came to.
#[derive(Default)]
struct Passed {
    closed: usize,
    rows: usize,
    /// How long reading has taken.
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

    /// After a burst that has closed nothing, a page of a poller, or a look that has found few.
    fn rests_for(&self, now: Instant) -> Duration {
        if self.burst.is_begun() {
            return Duration::ZERO;
        }
        self.burst.rests_for(now).max(self.looks_at.saturating_duration_since(now))
    }

    /// Closes what is due, if that is much, or no message would. Returns when to look again, unless it is asked to before.
    async fn read(&mut self, is_asked: bool) -> Result<Duration, SessionEnd> {
        let (worker, now) = (self.worker, Instant::now());
        match worker.closers[self.effect].pause_lasts().await? {
            Some(true) => {
                self.burst.rest(Some(now + PAUSED));
                return Ok(PAUSED);
            }
            // What has come due meanwhile is closed, the oldest first.
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
        // Also where another worker closes them, or they cannot be closed at present.
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
        // What begins with the oldest one is seldom enough.
        let looked = if begins { Duration::ZERO } else { looked + ended.elapsed() };
        let next = next.max((looked * PARTS).saturating_sub(took));
        // Messages that are late make it read no sooner.
        self.burst.rest(Some(ended + next));
        Ok(next)
    }

    /// While no messages come it is a poller, and for a while after that.
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

    /// Whether a burst begins, by the table.
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

    /// Pass after pass, until few orders become due meanwhile. None if another worker closes them.
    async fn run(&mut self, grace: Duration) -> Result<Option<Passed>, SessionEnd> {
        let (mut passed, mut lock) = (Passed::default(), self.lock().await?);
        while lock.is_some() {
            let (worker, began, before) = (self.worker, Instant::now(), self.key.clone());
            let mut pager =
                Pager::new(worker, self.effect, PAGING, grace, self.key.clone(), self.task);
            while let Some(PageAnswer { ids, deadlines, outcomes, at, .. }) = pager.next().await? {
                // A page that fails is left to its messages, and the burst goes on behind it.
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
            // Rows that are no orders have no key behind which it could go on.
            let is_last = pager.rows < FEW || pager.key == before;
            if is_last || self.polls.is_some() && Instant::now() >= self.oldest_at {
                // It ends in any case.
                _ = held.release().await;
                return Ok(Some(passed));
            }
            lock = Some(held);
        }
        Ok(None)
    }

    /// The lock; PostgreSQL takes it away for a page that takes long. None if another worker has it since.
    async fn kept(&self, lock: Option<BurstLock<'a>>) -> Option<BurstLock<'a>> {
        let lock = lock?;
        if lock.keep().await.is_ok() {
            return Some(lock);
        }
        drop(lock);
        self.lock().await.ok().flatten()
    }

    /// Workers share what is due: one closes it, and what the others wait for without success they close by their messages.
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
            // The other worker goes on as long as the oldest orders are not the same.
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

    /// How long until the next order is overdue for `grace`.
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
