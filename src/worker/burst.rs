//! Closes what is due by the table, whatever the broker does. In a burst, ahead of its messages: they say that some are due, and the
//! table says how many. While no messages come, in their place: then the worker is a poller, until the oldest orders have come by message
//! again for a while. And after a pause, what came due in it.
//!
//! A message is acked without a question if its order was asked for by the table after the message came, or if the message names the
//! deadline at which the table closed the order. Any other one may be about a deadline that the order was given since, so it is asked for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{
    backoff::Backoff,
    context::Worker,
    health::Task,
    limits::LOOK_EVERY,
    pager::{PageAnswer, Pager, Paging},
    session::SessionEnd,
    sweep,
};
use crate::{
    decisions::{
        batch::{MANY, Running},
        recently_closed::RecentlyClosed,
    },
    order::{OrderId, Outcome},
    shutdown::Stop,
    store::{
        StoreError,
        clock::DatabaseTime,
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
/// Between two questions whether a pause lasts.
const PAUSED: Duration = Duration::from_millis(500);

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No task would begin one.
    Off,
    /// One can be asked for, from an instant on.
    Idle(Option<Instant>),
    /// One was asked for, and has not come to its end.
    Runs(Running),
}

/// The bursts of one effect, as their task and the consumers of its queues share them.
#[derive(Debug)]
pub(crate) struct Burst {
    wanted: Notify,
    state: watch::Sender<Phase>,
    closed: Mutex<RecentlyClosed>,
}

impl Default for Burst {
    fn default() -> Self {
        let state = watch::Sender::new(Phase::Off);
        Self { wanted: Notify::new(), state, closed: Mutex::default() }
    }
}

/// Says when a burst has begun, has ended a pass, or is over.
pub(super) struct Changes(watch::Receiver<Phase>);

impl Changes {
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Burst {
    /// Begins a burst, since much is due. Whether one begins.
    pub(super) fn want(&self, now: Instant) -> bool {
        let begins = self.state.send_if_modified(|state| {
            let begins = matches!(*state, Phase::Idle(from) if from <= Some(now));
            if begins {
                *state = Phase::Runs(Running { moved: now, passed: None });
            }
            begins
        });
        if begins {
            self.wanted.notify_one();
        }
        begins
    }

    /// Some messages are due when they come: the table says whether many are, once it has rested.
    pub(super) fn look(&self) {
        if matches!(*self.state.borrow(), Phase::Idle(_)) {
            self.wanted.notify_one();
        }
    }

    /// It is over, or was none. The next one begins from an instant on.
    fn rest(&self, from: Option<Instant>) {
        self.state.send_if_modified(|state| {
            let before = std::mem::replace(state, Phase::Idle(from));
            matches!(before, Phase::Runs(_))
        });
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    /// The burst that messages wait for: one that runs, and has closed something of late.
    pub(super) fn awaited(&self, now: Instant) -> Option<Running> {
        match *self.state.borrow() {
            Phase::Runs(running) if now < running.given_up_at() => Some(running),
            _ => None,
        }
    }

    fn is_begun(&self) -> bool {
        matches!(*self.state.borrow(), Phase::Runs(_))
    }

    /// Whether an order was closed by the table after a message about it was received, or at the deadline that the message names.
    pub(super) fn has_closed(
        &self,
        id: &OrderId,
        received: Instant,
        due_at: Option<DatabaseTime>,
    ) -> bool {
        self.closed.lock().has(id, received, due_at.and_then(to_the_millisecond))
    }

    /// It goes on. No consumer is woken: what is closed is acked many at a time.
    fn moved(&self, now: Instant) {
        self.state.send_if_modified(|state| {
            if let Phase::Runs(running) = state {
                running.moved = now;
            }
            false
        });
    }

    fn passed(&self, began: Instant) {
        self.state.send_modify(|state| {
            if let Phase::Runs(running) = state {
                running.passed = Some(began);
            }
        });
    }

    /// How many orders were closed.
    fn answered(
        &self,
        (ids, deadlines): (&[OrderId], &[DatabaseTime]),
        outcomes: &[Outcome],
        asked: Instant,
    ) -> usize {
        let orders = ids.iter().zip(deadlines).zip(outcomes);
        let closed = orders.filter(|(_, outcome)| matches!(outcome, Outcome::Closed { .. }));
        let closed = closed.map(|((id, deadline), _)| (id.clone(), to_the_millisecond(*deadline)));
        let count = self.closed.lock().add(closed, asked);
        if count > 0 {
            self.moved(Instant::now());
        }
        count
    }
}

/// A deadline as a notice may have it: publishers round it.
fn to_the_millisecond(time: DatabaseTime) -> Option<i64> {
    time.timestamp().map(Timestamp::as_millisecond)
}

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
    burst.state.send_replace(Phase::Off);
    served
}

async fn read_again(
    worker: &Arc<Worker>,
    effect: &str,
    burst: &Burst,
    stop: &Stop,
) -> Result<(), SessionEnd> {
    let alive = worker.health.task("burst", effect, sweep::ALIVE_WITHIN);
    let mut reader = Reader {
        worker,
        effect,
        burst,
        task: (&alive, stop),
        began: Instant::now(),
        key: OverdueKey::first(),
        oldest_at: Instant::now(),
        polls_until: None,
        is_away: false,
    };
    let (mut backoff, mut next) = (Backoff::new(&worker.timing), Duration::ZERO);
    loop {
        alive.moved();
        let is_asked = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = burst.wanted.notified() => true,
            () = worker.health.away.notified() => false,
            () = tokio::time::sleep(next) => false,
        };
        // What asks while it rests is not forgotten.
        let state = *burst.state.borrow();
        if let Phase::Idle(Some(from)) = state
            && !stop.pause(from.saturating_duration_since(Instant::now())).await
        {
            return Ok(());
        }
        // A statement that runs when the stop comes is dropped, and so cancelled.
        let read = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            read = reader.read(is_asked) => read,
        };
        match read {
            Ok(after) => {
                (backoff, next) = (Backoff::new(&worker.timing), after);
            }
            Err(panic @ SessionEnd::Panicked(_)) => return Err(panic),
            Err(error) => {
                telemetry::burst_failed(effect, &error_chain(&error));
                next = backoff.pause_after(REST);
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
    /// Until then it is a poller, unless it closes something.
    polls_until: Option<Instant>,
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
    /// Closes what is due, if that is much, or no message would. Returns when to look again, unless it is asked to before.
    async fn read(&mut self, is_asked: bool) -> Result<Duration, SessionEnd> {
        let (worker, now) = (self.worker, Instant::now());
        match worker.closers[self.effect].pause_lasts().await? {
            Some(true) => {
                self.burst.rest(Some(now + PAUSED));
                return Ok(PAUSED);
            }
            Some(false) => self.poll(now),
            None => {}
        }
        let opens_for_long = now - self.began >= worker.timing.broker_silence;
        let is_away = worker.health.is_away(&worker.timeouts_with(self.effect), opens_for_long);
        if std::mem::replace(&mut self.is_away, is_away) != is_away {
            telemetry::messages_come(self.effect, !is_away);
        }
        if is_away {
            self.poll(now);
        }
        self.polls_until = self.polls_until.filter(|until| now < *until);
        let (polls, in_burst) = (self.polls_until.is_some(), self.burst.is_begun());
        if !polls && !in_burst && !(is_asked && self.are_many_due(now).await?) {
            if now.saturating_duration_since(self.oldest_at) >= START_OVER {
                *self.burst.closed.lock() = RecentlyClosed::default();
            }
            return Ok(LOOK_EVERY);
        }
        let begins = now >= self.oldest_at;
        let least = if polls { START_OVER_AWAY } else { START_OVER };
        if begins {
            (self.key, self.oldest_at) = (OverdueKey::first(), now + least);
        }
        let grace = if is_away || !polls || in_burst { Duration::ZERO } else { ON_ITS_WAY };
        let Some(Passed { closed, rows, looked }) = self.run(grace).await? else {
            return Ok(if polls { LONGEST_TICK } else { REST });
        };
        let (ended, took) = (Instant::now(), now.elapsed());
        if begins {
            self.oldest_at = ended + least.max(took * PARTS);
        }
        if closed > 0 || !polls {
            telemetry::burst_closed(self.effect, closed, took);
        }
        if !polls {
            self.burst.rest((closed == 0).then(|| ended + REST));
            return Ok(LOOK_EVERY);
        }
        if closed > 0 {
            self.polls_until = self.polls_until.max(Some(ended + worker.timing.messages_again));
        }
        let next = if rows > 0 { TICK } else { self.until_next_due(grace).await? };
        // What begins with the oldest one is seldom enough.
        let looked = if begins { Duration::ZERO } else { looked + ended.elapsed() };
        let next = next.max((looked * PARTS).saturating_sub(took));
        // Messages that are late make it read no sooner.
        self.burst.rest(Some(ended + next));
        Ok(next)
    }

    /// Messages do not come, or what they said was refused until now.
    fn poll(&mut self, now: Instant) {
        if self.polls_until.is_none() {
            self.oldest_at = now;
        }
        self.polls_until = Some(now + self.worker.timing.messages_again);
    }

    /// Whether a burst begins, by the table.
    async fn are_many_due(&self, now: Instant) -> Result<bool, StoreError> {
        let closer = &self.worker.closers[self.effect];
        let many = i64::try_from(MANY).unwrap_or(i64::MAX);
        let after = if now >= self.oldest_at { &OverdueKey::first() } else { &self.key };
        let page =
            self.worker.store.overdue_page(closer.effect(), after, many, Duration::ZERO).await?;
        if page.is_some_and(|page| page.rows >= MANY) {
            self.burst.want(Instant::now());
            return Ok(true);
        }
        self.burst.rest(Some(Instant::now() + TRY_AGAIN.max(now.elapsed() * PARTS)));
        Ok(false)
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
            if pager.rows < FEW || pager.key == before {
                held.release().await?;
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
        let (many, mut oldest) = (i64::try_from(MANY).unwrap_or(i64::MAX), None);
        loop {
            if let Some(lock) = worker.store.lock_burst(effect).await? {
                return Ok(Some(lock));
            }
            tokio::time::sleep(TRY_AGAIN).await;
            if burst.awaited(Instant::now()).is_none() {
                return Ok(None);
            }
            // The other worker goes on as long as the oldest orders are not the same.
            let of_effect = worker.closers[*effect].effect();
            let page =
                worker.store.overdue_page(of_effect, &self.key, many, Duration::ZERO).await?;
            let last = page.map(|page| page.next);
            if oldest != last {
                burst.moved(Instant::now());
                oldest = last;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::FinalState;

    /// A burst that was asked for at `now`.
    fn running(now: Instant) -> Burst {
        let burst = Burst::default();
        assert!(!burst.want(now) && burst.awaited(now).is_none(), "no task would begin one");
        burst.rest(None);
        assert!(burst.want(now) && !burst.want(now), "it is asked for once");
        burst
    }

    #[test]
    fn a_burst_is_awaited_as_long_as_it_closes_orders() {
        let now = Instant::now();
        let burst = running(now);
        let given_up = burst.awaited(now).expect("it has just begun").given_up_at();
        assert!(given_up > now && burst.awaited(given_up).is_none());
        burst.moved(given_up);
        let again = burst.awaited(given_up).expect("it has moved").given_up_at();
        assert!(again > given_up);
        burst.rest(Some(again));
        assert!(burst.awaited(given_up).is_none(), "it is over");
        assert!(!burst.want(given_up) && burst.want(again), "it rests");
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_end_of_a_pass_and_not_by_each_page() {
        let now = Instant::now();
        let burst = running(now);
        let mut changes = burst.changes();
        burst.moved(now);
        assert!(!changes.0.has_changed().unwrap());
        burst.passed(now);
        changes.next().await;
        assert_eq!(burst.awaited(now).unwrap().passed, Some(now));
    }

    #[test]
    fn only_closed_orders_are_remembered() {
        let received = Instant::now();
        let (burst, asked) = (running(received), received + TRY_AGAIN);
        let ids = ["o-1", "o-2", "o-3"].map(|id| OrderId::parse(id).unwrap());
        let state = FinalState::of_outcome("closed").unwrap();
        let closed = Outcome::Closed { late: Duration::ZERO, state };
        let outcomes = [closed, Outcome::AlreadyFinal, Outcome::Busy];
        let deadlines = [1_000, 2_000, 3_000].map(DatabaseTime::from_unix_ms);
        assert_eq!(burst.answered((&ids, &deadlines), &outcomes, asked), 1);
        assert_eq!(
            ids.each_ref().map(|id| burst.has_closed(id, received, None)),
            [true, false, false]
        );
        assert!(!burst.has_closed(&ids[0], asked, None));
        assert!(burst.has_closed(&ids[0], asked, Some(deadlines[0])));
        assert!(!burst.has_closed(&ids[0], asked, Some(deadlines[1])));
    }
}
