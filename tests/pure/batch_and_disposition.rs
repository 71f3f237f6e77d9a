//! When a batch is full, with the time passed in, and what becomes of a delivery.

use std::time::{Duration, Instant};

use overdue::internals::{
    order::{FinalState, Outcome},
    topology::level::{Lead, Level, best_level},
    topology::route::LONGEST_IN_HAND,
    worker::{
        batch::{Batches, Coming, MANY, TOGETHER},
        disposition::{
            Disposition, NOWHERE_TO_WAIT, Tries, Waits, decide, is_waiting, nowhere_to_wait,
            without_retry,
        },
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

fn delay(text: &str, attempt: u32) -> Disposition {
    let wait = level(text).ttl().as_duration();
    Disposition::Delay { wait, tries: tries(attempt) }
}

fn park(reason: &str) -> Disposition {
    Disposition::Park { reason: reason.to_owned() }
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

    /// Put back again and again, an order comes when due, late by less than the shortest level.
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
            match decide(&outcome, tries(attempt), Waits { retry: &[], hold, lead: Duration::ZERO }) {
                Disposition::Delay { wait, tries: next } => {
                    prop_assert_eq!(next, tries(attempt), "waiting is no failure");
                    let level = best_level(&levels, lead, wait).expect("there are levels");
                    waited += lead.lets_go(level).as_duration();
                }
                Disposition::Hold { wait } => {
                    prop_assert!(wait <= hold);
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

    /// Each retry takes the next level and one more attempt; after the last one it is parked.
    #[test]
    fn attempts_grow_until_the_message_is_parked(
        retry in collection::vec(any_level(), 0..6),
        known in any::<bool>(),
    ) {
        let outcome =
            if known { Outcome::Failed { cause: "23514".to_owned(), reason: "a check".to_owned() } } else { Outcome::Unknown };
        let given = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
        for (attempt, level) in (0_u32..).zip(&retry) {
            let expected = delay(level.name(), attempt + 1);
            prop_assert_eq!(decide(&outcome, tries(attempt), given), expected);
        }
        let last = u32::try_from(retry.len())?;
        for attempt in [last, last + 1, u32::MAX] {
            let parked = matches!(decide(&outcome, tries(attempt), given), Disposition::Park { .. });
            prop_assert!(parked, "attempt {} of {}", attempt, last);
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

/// In any order: the function does not rely on the file's.
fn any_levels() -> impl Strategy<Value = Vec<Level>> {
    collection::vec(any_level(), 1..8)
}

#[test]
fn nothing_waits_for_company_unless_the_database_has_a_batch() {
    let (first, age) = (Instant::now(), Duration::from_millis(20));
    let batches = |closing, in_burst| Batches { closing, at_once: 2, age, in_burst };
    let at = |closing, is_full| batches(closing, false).next(first, is_full);
    assert_eq!(at(0, false), Some(first));
    assert_eq!(at(0, true), Some(first));
    assert_eq!(at(1, false), Some(first + age));
    assert_eq!(at(1, true), Some(first));
    assert_eq!([at(2, false), at(2, true)], [None, None], "one of them has to end before");
    let in_burst = |is_full| batches(0, true).next(first, is_full);
    assert_eq!([in_burst(false), in_burst(true)], [Some(first + age), Some(first)]);
}

/// A broker that is busy hands on a few messages at a time.
#[test]
fn many_orders_one_after_the_other_are_a_burst_and_a_steady_load_is_none() {
    let ms = |ms| Duration::from_millis(ms);
    let begin = Instant::now();
    let (mut steady, mut burst) = (Coming::default(), Coming::default());
    for tick in 0..200 {
        steady.add(9, begin + ms(tick));
        burst.add(11, begin + ms(tick));
    }
    let last = begin + ms(199);
    assert!(!steady.in_burst(last), "9,000/s");
    assert!(burst.in_burst(last) && !burst.in_burst(last + TOGETHER), "11,000/s");
    let mut once = Coming::default();
    once.add(MANY, begin);
    assert!(once.in_burst(begin));
    once.add(1, last);
    assert!(!once.in_burst(last));
    let halves = |apart| {
        let mut coming = Coming::default();
        coming.add(MANY / 2, begin);
        coming.add(MANY / 2, begin + apart);
        coming.in_burst(begin + apart)
    };
    assert!(halves(TOGETHER) && !halves(TOGETHER + ms(1)));
}

/// The broker ends the channel of what stays unsettled for half an hour.
#[test]
fn what_has_been_in_hand_for_long_goes_by_a_level() {
    let retry = levels(&["5s"]);
    let waits = |in_hand: Duration| {
        let hold = Duration::from_mins(5);
        Waits { retry: &retry, hold, lead: hold }.after(in_hand)
    };
    let busy = |in_hand| decide(&Outcome::Busy, tries(0), waits(in_hand));
    let early = |in_hand| {
        decide(&Outcome::NotDue { remaining: Duration::from_secs(9) }, tries(0), waits(in_hand))
    };
    let long = LONGEST_IN_HAND;
    let soon = long.saturating_sub(Duration::from_millis(1));
    assert!(matches!(busy(soon), Disposition::Hold { .. }));
    assert!(matches!(early(soon), Disposition::Hold { .. }));
    assert!(matches!(busy(long), Disposition::Delay { .. }));
    assert!(matches!(early(long), Disposition::Delay { .. }));
}

#[test]
fn without_a_level_nothing_is_best() {
    assert_eq!(best_level(&[], Lead::NONE, Duration::from_secs(1)), None);
}

#[test]
fn each_outcome_has_its_disposition() {
    let retry = levels(&["5s", "1m"]);
    let waits = |seconds| Outcome::NotDue { remaining: Duration::from_secs(seconds) };
    let reason = "violates check \"available\"".to_owned();
    let failed = Outcome::Failed { cause: "23514".to_owned(), reason: reason.clone() };
    let postponed = Outcome::Postponed { reason };
    let table = [
        (Outcome::Closed { late: Duration::ZERO, state: FinalState::CLOSED }, 0, Disposition::Ack),
        (
            Outcome::Closed { late: Duration::from_secs(9), state: FinalState::CLOSED },
            7,
            Disposition::Ack,
        ),
        (Outcome::AlreadyFinal, 7, Disposition::Ack),
        (waits(59), 1, delay("59s", 1)),
        (waits(13 * 86_400), 9, delay("13d", 9)),
        (Outcome::Unknown, 0, delay("5s", 1)),
        (Outcome::Unknown, 1, delay("1m", 2)),
        (
            Outcome::Unknown,
            2,
            park("the database does not know this order; given up after 2 retries"),
        ),
        (Outcome::Busy, 2, delay("1s", 2)),
        (postponed.clone(), 0, delay("1m", 0)),
        (postponed, 9, delay("1m", 9)),
        (failed.clone(), 0, delay("5s", 1)),
        (failed, 2, park("violates check \"available\"; given up after 2 retries")),
    ];
    for (outcome, attempt, expected) in table {
        let waits = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
        let decided = decide(&outcome, tries(attempt), waits);
        assert_eq!(decided, expected, "{outcome:?}, attempt {attempt}");
    }
}

/// A lock says nothing about the guard; every other answer ends the row.
#[test]
fn an_order_that_is_not_guarded_any_more_begins_again_with_the_shortest_wait() {
    let retry = levels(&["5s", "1m"]);
    let given = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
    let reason = "a check".to_owned();
    for (outcome, guarded) in [
        (Outcome::Busy, 3),
        (Outcome::NotDue { remaining: Duration::ZERO }, 4),
        (Outcome::NotDue { remaining: Duration::from_secs(9) }, 0),
        (Outcome::Unknown, 0),
        (Outcome::Failed { cause: "23514".to_owned(), reason: reason.clone() }, 0),
        (Outcome::Postponed { reason }, 0),
    ] {
        let decided = decide(&outcome, Tries { guarded: 3, ..tries(0) }, given);
        let Disposition::Delay { tries: next, .. } = decided else { panic!("{decided:?}") };
        assert_eq!(next.guarded, guarded, "{outcome:?}");
    }
}

/// Everything in the queue has come as early: behind it is nothing that is due sooner, and to send it round would be a storm
/// of copies in every burst.
#[test]
fn what_is_early_by_the_lead_is_held_even_where_there_is_no_room() {
    let lead = Duration::from_millis(500);
    let full = Waits { retry: &[], hold: Duration::ZERO, lead };
    let early = |ms| Outcome::NotDue { remaining: Duration::from_millis(ms) };
    assert_eq!(
        decide(&early(500), tries(0), full),
        Disposition::Hold { wait: Duration::from_millis(500) }
    );
    assert_eq!(decide(&early(501), tries(0), full), delay("501ms", 0));
    // A lock says nothing about the lead.
    assert_eq!(decide(&Outcome::Busy, tries(0), full), delay("1s", 0));
}

/// The broker has nothing that delays: a short rest is held where there is room, everything else says why it is parked.
#[test]
fn without_a_route_a_short_rest_is_held_and_everything_else_is_parked() {
    let (room, none) = (Duration::from_secs(2), Duration::ZERO);
    let hold = |ms| Disposition::Hold { wait: Duration::from_millis(ms) };
    let parks = |minutes, hold| {
        matches!(nowhere_to_wait(Duration::from_mins(minutes), hold), Disposition::Park { .. })
    };
    assert_eq!(nowhere_to_wait(Duration::from_mins(10), room), hold(5_000));
    assert_eq!(nowhere_to_wait(Duration::from_secs(1), room), hold(1_000));
    assert!(parks(11, room) && parks(1, none));
}

/// What waits for its deadline, a lock or a better time can be held; what is tried again is parked with its cause.
#[test]
fn what_cannot_be_tried_again_is_parked_with_its_cause() {
    let reason = "a check".to_owned();
    let failed = Outcome::Failed { cause: "23514".to_owned(), reason: reason.clone() };
    let not_known = "the database does not know this order; ";
    for (outcome, waits, cause) in [
        (Some(Outcome::NotDue { remaining: Duration::ZERO }), true, ""),
        (Some(Outcome::Busy), true, ""),
        (Some(Outcome::Postponed { reason }), true, ""),
        (Some(failed), false, "a check; "),
        (Some(Outcome::Unknown), false, not_known),
        (None, false, not_known),
    ] {
        assert_eq!(is_waiting(outcome.as_ref()), waits, "{outcome:?}");
        assert_eq!(without_retry(outcome.as_ref()), format!("{cause}{NOWHERE_TO_WAIT}"));
    }
}

/// `not_due` with no time left: the effect's own rule guards the order, for nobody knows how long.
#[test]
fn an_overdue_order_that_is_guarded_backs_off_burns_no_retry_and_is_never_parked() {
    let retry = levels(&["5s", "1m"]);
    let guarded = Outcome::NotDue { remaining: Duration::ZERO };
    let given = Waits { retry: &retry, hold: Duration::from_secs(2), lead: Duration::ZERO };
    let mut now = tries(1);
    for expected in ["5s", "1m", "1m", "1m"] {
        let Disposition::Delay { wait, tries: next } = decide(&guarded, now, given) else {
            panic!("it is put back");
        };
        assert_eq!(wait, level(expected).ttl().as_duration());
        assert_eq!(next, Tries { guarded: now.guarded + 1, ..now });
        now = next;
    }
    let forged = Tries { guarded: u32::MAX, ..tries(9) };
    assert!(
        matches!(decide(&guarded, forged, given), Disposition::Delay { wait, .. } if wait == Duration::from_mins(1))
    );

    let without_retry = Waits { retry: &[], ..given };
    let first = decide(&guarded, tries(0), without_retry);
    assert!(matches!(first, Disposition::Delay { wait, .. } if wait == Duration::from_mins(1)));
    // A deadline that was extended is no guard.
    let extended = Outcome::NotDue { remaining: Duration::from_secs(90) };
    assert_eq!(decide(&extended, now, given), delay("90s", 1));
}

#[test]
fn a_short_rest_is_held_and_a_longer_one_waits_on_the_broker() {
    let given = Waits { retry: &[], hold: Duration::from_secs(2), lead: Duration::ZERO };
    let rest =
        |ms| decide(&Outcome::NotDue { remaining: Duration::from_millis(ms) }, tries(4), given);
    for ms in [1, 100, 2_000] {
        assert_eq!(rest(ms), Disposition::Hold { wait: Duration::from_millis(ms) });
    }
    assert_eq!(rest(2_001), delay("2001ms", 4));
}

/// 10 ms, doubling, at most a second; without room to wait about a second on the broker.
#[test]
fn a_locked_order_is_held_for_longer_and_longer_and_burns_no_retry() {
    let given = Waits { retry: &[], hold: Duration::from_secs(2), lead: Duration::ZERO };
    let waits: Vec<u128> = (0..9)
        .map(|busy| match decide(&Outcome::Busy, Tries { busy, ..tries(1) }, given) {
            Disposition::Hold { wait } => wait.as_millis(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
    let full = Waits { hold: Duration::ZERO, ..given };
    assert_eq!(decide(&Outcome::Busy, tries(1), full), delay("1s", 1));
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
    /// Items are taken once, when they are due, earliest first, and those of one instant in the order they came.
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
