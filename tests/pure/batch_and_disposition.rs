//! When a batch is full, with the time as an input, and the disposition of each delivery.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use overdue::internals::{
    order::{FinalState, Outcome},
    topology::level::{Lead, Level, best_level},
    topology::route::{LONGEST_IN_HAND, Route},
    worker::{
        batch::{BatchPolicy, BurstProgress},
        disposition::{Disposition, Tries, Unseen, Waits, decide},
        timer_queue::TimerQueue,
    },
};
use proptest::{collection, prelude::*};

fn level(text: &str) -> Level {
    text.parse().expect("a level")
}

fn levels(texts: &[&str]) -> Vec<Level> {
    texts.iter().map(|text| level(text)).collect()
}

fn tries(attempt: u32) -> Tries {
    Tries { attempt, ..Tries::default() }
}

/// A route through a queue whose messages expire after `holds`.
fn route(holds: Duration) -> Route {
    let (exchange, routing_key) = ("orders.again".to_owned(), "30m.unpaid".to_owned());
    Route { exchange, routing_key, x_delay: None, holds, early: Duration::ZERO, queues: Vec::new() }
}

/// A broker that delays each message exactly for `wait`.
#[allow(clippy::unnecessary_wraps, reason = "it stands for what may find nothing")]
fn exactly(wait: Duration) -> Option<Route> {
    Some(route(wait))
}

/// A disposition as a line.
fn shown(disposition: Disposition) -> String {
    match disposition {
        Disposition::Ack => "ack".to_owned(),
        Disposition::AckGone => "ack, gone".to_owned(),
        Disposition::Hold { wait } => format!("hold {wait:?}"),
        Disposition::Delay { route, tries: Tries { attempt, guarded, .. }, is_retry } => {
            let burnt = if is_retry { ", a retry" } else { "" };
            format!("delay {:?}, attempt {attempt}, guarded {guarded}{burnt}", route.holds)
        }
        Disposition::Park { class, reason } => format!("park as {class:?}: {reason}"),
    }
}

proptest! {
    #[test]
    fn the_best_level_is_the_longest_that_does_not_pass_the_rest(
        levels in any_levels(),
        lead in any_lead(),
        remaining_ms in 0_u64..5_000_000,
    ) {
        let remaining = Duration::from_millis(remaining_ms);
        let best = best_level(&levels, lead, remaining).expect("there are levels");
        let shortest = levels.iter().map(Level::ttl).min().expect("there are levels");
        let holds = |level: &Level| lead.lets_go(level).as_duration();
        if holds(best) > remaining {
            prop_assert_eq!(best.ttl(), shortest);
        }
        let mut longer = levels.iter().filter(|level| level.ttl() > best.ttl());
        prop_assert_eq!(longer.find(|level| holds(level) <= remaining), None);
    }

    /// An order that is requeued repeatedly arrives when due, late by less than the shortest level.
    #[test]
    fn waiting_ends_after_the_deadline_and_before_one_more_shortest_level(
        levels in any_levels(),
        lead in any_lead(),
        times_shortest in 0_u32..2_000,
        extra_ms in 1_u64..10_000,
        attempt in 0_u32..9,
        hold_ms in 0_u64..3_000,
    ) {
        let hold = Duration::from_millis(hold_ms);
        let shortest = levels.iter().map(|level| level.ttl().as_duration()).min().expect("levels");
        let deadline = shortest * times_shortest + Duration::from_millis(extra_ms).min(shortest);
        let mut waited = Duration::ZERO;
        loop {
            let outcome = Outcome::NotDue { remaining: deadline.saturating_sub(waited) };
            let waits = Waits { retry: &[], hold, lead: Duration::ZERO };
            let best = |wait| Some(route(lead.lets_go(best_level(&levels, lead, wait)?).as_duration()));
            match decide(&outcome, &Unseen::Fault, tries(attempt), waits, best) {
                Disposition::Delay { route, tries: next, is_retry } => {
                    prop_assert_eq!((next, is_retry), (tries(attempt), false), "waiting is no failure");
                    waited += route.holds;
                }
                Disposition::Hold { wait } => {
                    prop_assert!(!hold.is_zero() && wait <= LONGEST_IN_HAND);
                    waited += wait;
                    prop_assert_eq!(waited, deadline, "what is held is closed at its deadline");
                }
                other => return Err(TestCaseError::fail(format!("{other:?} while waiting"))),
            }
            if waited >= deadline {
                break;
            }
        }
        let late = waited.saturating_sub(deadline);
        prop_assert!(late < shortest || deadline.is_zero(), "late by {:?}", late);
    }

    /// Each retry takes the next level and raises the attempt; after the last one the message is parked.
    #[test]
    fn attempts_grow_until_the_message_is_parked(
        retry in collection::vec(any_level(), 0..6),
        known in any::<bool>(),
    ) {
        let outcome =
            if known { Outcome::Failed { cause: "23514".to_owned(), reason: "a check".to_owned() } } else { Outcome::Unknown };
        let given = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
        for (attempt, level) in (0_u32..).zip(&retry) {
            let route = route(level.ttl().as_duration());
            let expected = Disposition::Delay { route, tries: tries(attempt + 1), is_retry: true };
            prop_assert_eq!(decide(&outcome, &Unseen::Fault, tries(attempt), given, exactly), expected);
        }
        let last = u32::try_from(retry.len())?;
        for attempt in [last, last + 1, u32::MAX] {
            let decided = decide(&outcome, &Unseen::Fault, tries(attempt), given, exactly);
            prop_assert!(matches!(decided, Disposition::Park { .. }), "attempt {} of {}", attempt, last);
        }
    }
}

fn any_level() -> impl Strategy<Value = Level> {
    (1_u64..4_000, prop_oneof![Just("ms"), Just("s"), Just("m")])
        .prop_map(|(number, unit)| level(&format!("{number}{unit}")))
}

fn any_lead() -> impl Strategy<Value = Lead> {
    let given = (0_u64..1_000).prop_map(|ms| Lead::Given(Duration::from_millis(ms)));
    prop_oneof![Just(Lead::Usual), given]
}

/// Levels in any order: the function does not rely on the file's order.
fn any_levels() -> impl Strategy<Value = Vec<Level>> {
    collection::vec(any_level(), 1..8)
}

#[test]
fn nothing_waits_for_company_unless_the_database_has_a_batch() {
    let (first, age) = (Instant::now(), Duration::from_millis(20));
    let linger = Duration::from_millis(3);
    let batches = |closing| BatchPolicy { closing, at_once: 2, linger, age, burst: None };
    let at = |closing, is_full| batches(closing).next(first, is_full);
    assert_eq!(at(0, false), Some(first + linger));
    assert_eq!(at(0, true), Some(first));
    assert_eq!(at(1, false), Some(first + age));
    assert_eq!(at(1, true), Some(first));
    assert_eq!([at(2, false), at(2, true)], [None, None], "one of them has to end before");
}

/// The batch is closed after a pass that began when it was due, or later, or after the burst has closed nothing for a while.
#[test]
fn a_batch_waits_for_a_burst_that_may_close_it() {
    let (first, ms) = (Instant::now(), Duration::from_millis);
    let batches = |closing, passed| {
        let burst = BurstProgress { moved: first + ms(100), passed };
        BatchPolicy { closing, at_once: 2, linger: ms(0), age: ms(20), burst: Some(burst) }
    };
    let given_up = batches(0, None).burst.expect("it is there").given_up_at();
    let at = |passed| [false, true].map(|is_full| batches(1, passed).next(first, is_full));
    assert!(given_up > first + ms(100));
    assert_eq!(at(None), [Some(given_up); 2], "no pass has ended");
    assert_eq!(at(first.checked_sub(ms(1))), [Some(given_up); 2], "it was not due then");
    for passed in [first, first + ms(1)] {
        assert_eq!(at(Some(passed)), [Some(first + ms(20)), Some(first)]);
    }
    assert_eq!(batches(2, None).next(first, true), None, "one of them has to end before");
    let late = given_up + ms(1);
    assert_eq!(batches(1, None).next(late, true), Some(late), "nothing is closed before it is due");
}

#[test]
fn without_a_level_nothing_is_best() {
    assert_eq!(best_level(&[], Lead::NONE, Duration::from_secs(1)), None);
}

type Routes = fn(Duration) -> Option<Route>;

/// Each outcome, with and without room, with a fitting level, with one that is too long, and without a level.
#[test]
fn each_outcome_has_its_disposition() {
    let retry = levels(&["5s", "1m"]);
    let ms = Duration::from_millis;
    let (lead, long) = (ms(500), LONGEST_IN_HAND);
    let rests = [ms(0), ms(1), lead, lead + ms(1), ms(2_000), ms(2_001), long, long + ms(1)];
    let reason = "a check".to_owned();
    let mut outcomes = vec![
        Outcome::Closed { late: Duration::ZERO, state: FinalState::CLOSED },
        Outcome::AlreadyFinal,
        Outcome::Busy,
        Outcome::Unknown,
        Outcome::Failed { cause: "23514".to_owned(), reason: reason.clone() },
        Outcome::Postponed { reason },
    ];
    outcomes.extend(rests.map(|remaining| Outcome::NotDue { remaining }));
    let with: [(&str, Duration, Duration, Routes); 7] = [
        ("room", ms(2_000), Duration::ZERO, exactly),
        ("full", Duration::ZERO, lead, exactly),
        ("in hand for long", Duration::ZERO, Duration::ZERO, exactly),
        ("room, the level holds twice as long", ms(2_000), Duration::ZERO, |it| exactly(it * 2)),
        ("full, the level holds twice as long", Duration::ZERO, lead, |it| exactly(it * 2)),
        ("room, no level", ms(2_000), Duration::ZERO, |_| None),
        ("full, no level", Duration::ZERO, lead, |_| None),
    ];
    let mut table = String::new();
    for outcome in outcomes {
        writeln!(table, "# {outcome:?}").unwrap();
        for (name, hold, lead, route) in with {
            let waits = Waits { retry: &retry, hold, lead };
            let done = decide(&outcome, &Unseen::Fault, tries(0), waits, route);
            writeln!(table, "{name}: {}", shown(done)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
    // The broker closes the channel of a delivery that is unacked for half an hour.
    let room = Waits { retry: &retry, hold: ms(2_000), lead };
    let holds = |in_hand| (room.after(in_hand).hold, room.after(in_hand).lead);
    assert_eq!(holds(long.saturating_sub(ms(1))), (ms(2_000), lead));
    assert_eq!(holds(long), (Duration::ZERO, Duration::ZERO));
}

/// A lock doubles the wait. A guard uses the levels for retries up to the longest. Each retry raises the attempt. Any other outcome
/// resets the count of guards.
#[test]
fn what_comes_again_and_again() {
    let retry = levels(&["5s", "1m"]);
    let guarded = Outcome::NotDue { remaining: Duration::ZERO };
    let later = Outcome::NotDue { remaining: Duration::from_secs(90) };
    let failed = Outcome::Failed { cause: "23514".to_owned(), reason: "a check".to_owned() };
    let mut table = String::new();
    for (outcome, retry) in [
        (&Outcome::Busy, &retry[..]),
        (&guarded, &retry),
        (&guarded, &[]),
        (&later, &retry),
        (&Outcome::Unknown, &retry),
        (&failed, &retry),
    ] {
        let waits = Waits { retry, hold: Duration::from_secs(2), lead: Duration::ZERO };
        writeln!(table, "# {outcome:?}, {} retries", retry.len()).unwrap();
        for times in [0, 1, 2, 3, 6, 7, u32::MAX] {
            let tries = Tries { attempt: times.min(9), guarded: times, busy: times };
            writeln!(
                table,
                "{times}: {}",
                shown(decide(outcome, &Unseen::Fault, tries, waits, exactly))
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// An unseen row was deleted, is not committed yet, or is hidden.
#[test]
fn a_row_that_is_gone_is_looked_for_once_more() {
    let retry = levels(&["5s", "1m"]);
    let hidden = Unseen::Hidden("row level security hides rows of cart".to_owned());
    let failed = Outcome::Failed { cause: "23514".to_owned(), reason: "a check".to_owned() };
    let mut table = String::new();
    for unseen in [Unseen::Fault, Unseen::Gone, hidden] {
        writeln!(table, "# {unseen:?}").unwrap();
        for attempt in 0..=2 {
            let waits = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
            let decided = |outcome| shown(decide(outcome, &unseen, tries(attempt), waits, exactly));
            writeln!(table, "{attempt}: {}", decided(&Outcome::Unknown)).unwrap();
            assert!(!decided(&failed).starts_with("ack"), "the row is there");
        }
    }
    insta::assert_snapshot!(table, @r#"
    # Fault
    0: delay 5s, attempt 1, guarded 0, a retry
    1: delay 60s, attempt 2, guarded 0, a retry
    2: park as Unknown: the database does not know this order; given up after 2 retries
    # Gone
    0: delay 5s, attempt 1, guarded 0, a retry
    1: ack, gone
    2: ack, gone
    # Hidden("row level security hides rows of cart")
    0: delay 5s, attempt 1, guarded 0, a retry
    1: delay 60s, attempt 2, guarded 0, a retry
    2: park as Unknown: the database does not know this order: row level security hides rows of cart; given up after 2 retries
    "#);
}

/// The database's clock was set forward.
#[test]
fn what_is_brought_forward_is_due_earlier_and_in_the_same_order() {
    let (start, ms) = (Instant::now(), Duration::from_millis);
    let mut schedule = TimerQueue::default();
    for (at, item) in [(500, "c"), (300, "a"), (300, "b")] {
        schedule.add(start + ms(at), item);
    }
    schedule.bring_forward(ms(200));
    assert_eq!(schedule.next(), Some(start + ms(100)));
    schedule.add(start + ms(100), "new");
    assert_eq!(schedule.take_due(start + ms(299), 9), ["a", "b", "new"]);
    assert_eq!(schedule.take_due(start + ms(300), 9), ["c"]);
}

proptest! {
    /// Each item is taken once, when due: earliest first, and in order of arrival for equal times.
    #[test]
    fn a_schedule_gives_what_is_due_and_nothing_before_it(
        offsets_ms in collection::vec(0_u64..50, 0..40),
        looks_ms in collection::vec(0_u64..60, 0..10),
        limit in 1_usize..9,
    ) {
        let start = Instant::now();
        let mut schedule = TimerQueue::default();
        for (number, offset_ms) in offsets_ms.iter().enumerate() {
            schedule.add(start + Duration::from_millis(*offset_ms), (*offset_ms, number));
        }
        let mut expected: Vec<_> = offsets_ms.iter().enumerate().map(|(n, ms)| (*ms, n)).collect();
        expected.sort_unstable();
        for look_ms in looks_ms {
            let first = schedule.next().map(|at| at - start);
            prop_assert_eq!(first, expected.first().map(|(ms, _)| Duration::from_millis(*ms)));
            let (due, now) = (expected.iter().filter(|(ms, _)| *ms <= look_ms).count(), start + Duration::from_millis(look_ms));
            prop_assert_eq!(schedule.are_due(limit, now), due >= limit);
            let due = due.min(limit);
            let taken = schedule.take_due(now, limit);
            prop_assert_eq!(taken, expected.drain(..due).collect::<Vec<_>>());
            prop_assert_eq!(schedule.len(), expected.len());
            prop_assert_eq!(schedule.is_empty(), expected.is_empty());
        }
        prop_assert_eq!(schedule.iter().copied().collect::<Vec<_>>(), expected);
    }
}
