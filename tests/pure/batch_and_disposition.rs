//! When a batch is full, with the time passed in, and what becomes of a delivery.

use std::time::{Duration, Instant};

use overdue::internals::{
    order::{FinalState, Outcome},
    topology::level::{Lead, Level, best_level},
    topology::route::{LONGEST_IN_HAND, Route},
    worker::{
        batch::{Batches, Coming, MANY, Running, TOGETHER},
        disposition::{Disposition, NOWHERE_TO_WAIT, ParkReason, Tries, Waits, decide},
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

/// Through a place that holds messages for so long.
fn route(holds: Duration) -> Route {
    let (exchange, routing_key) = ("orders.again".to_owned(), "30m.unpaid".to_owned());
    Route { exchange, routing_key, x_delay: None, holds, early: Duration::ZERO, queues: Vec::new() }
}

/// The broker delays each message for as long as it is to wait.
#[allow(clippy::unnecessary_wraps, reason = "it stands for what may find nothing")]
fn exactly(wait: Duration) -> Option<Route> {
    Some(route(wait))
}

fn nowhere(_: Duration) -> Option<Route> {
    None
}

fn put_back(text: &str, tries: Tries) -> Disposition {
    let route = route(level(text).ttl().as_duration());
    Disposition::Delay { route, tries, is_retry: false }
}

fn delay(text: &str, attempt: u32) -> Disposition {
    put_back(text, tries(attempt))
}

fn retry_in(text: &str, attempt: u32) -> Disposition {
    let route = route(level(text).ttl().as_duration());
    Disposition::Delay { route, tries: tries(attempt), is_retry: true }
}

fn hold(ms: u64) -> Disposition {
    Disposition::Hold { wait: Duration::from_millis(ms) }
}

fn park(class: ParkReason, reason: &str) -> Disposition {
    Disposition::Park { class, reason: reason.to_owned() }
}

/// Each outcome but those of orders that are settled.
fn outcomes() -> [Outcome; 6] {
    let reason = "a check".to_owned();
    [
        Outcome::Busy,
        Outcome::NotDue { remaining: Duration::ZERO },
        Outcome::NotDue { remaining: Duration::from_secs(9) },
        Outcome::Unknown,
        Outcome::Failed { cause: "23514".to_owned(), reason: reason.clone() },
        Outcome::Postponed { reason },
    ]
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
            let waits = Waits { retry: &[], hold, lead: Duration::ZERO };
            let best = |wait| Some(route(lead.lets_go(best_level(&levels, lead, wait)?).as_duration()));
            match decide(&outcome, tries(attempt), waits, best) {
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
            let expected = retry_in(level.name(), attempt + 1);
            prop_assert_eq!(decide(&outcome, tries(attempt), given, exactly), expected);
        }
        let last = u32::try_from(retry.len())?;
        for attempt in [last, last + 1, u32::MAX] {
            let decided = decide(&outcome, tries(attempt), given, exactly);
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

/// In any order: the function does not rely on the file's.
fn any_levels() -> impl Strategy<Value = Vec<Level>> {
    collection::vec(any_level(), 1..8)
}

#[test]
fn nothing_waits_for_company_unless_the_database_has_a_batch() {
    let (first, age) = (Instant::now(), Duration::from_millis(20));
    let batches = |closing, in_burst| Batches { closing, at_once: 2, age, in_burst, burst: None };
    let at = |closing, is_full| batches(closing, false).next(first, is_full);
    assert_eq!(at(0, false), Some(first));
    assert_eq!(at(0, true), Some(first));
    assert_eq!(at(1, false), Some(first + age));
    assert_eq!(at(1, true), Some(first));
    assert_eq!([at(2, false), at(2, true)], [None, None], "one of them has to end before");
    let in_burst = |is_full| batches(0, true).next(first, is_full);
    assert_eq!([in_burst(false), in_burst(true)], [Some(first + age), Some(first)]);
}

/// It is closed when a pass has ended that began when it was due, or later; or else when the burst closes nothing any more.
#[test]
fn a_batch_waits_for_a_burst_that_may_close_it() {
    let (first, ms) = (Instant::now(), Duration::from_millis);
    let batches = |closing, passed| {
        let burst = Running { asked_for: first, moved: first + ms(100), passed };
        Batches { closing, at_once: 2, age: ms(20), in_burst: true, burst: Some(burst) }
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
    let busy = |in_hand| decide(&Outcome::Busy, tries(0), waits(in_hand), exactly);
    let rest = Outcome::NotDue { remaining: Duration::from_secs(9) };
    let early = |in_hand| decide(&rest, tries(0), waits(in_hand), exactly);
    let long = LONGEST_IN_HAND;
    let soon = long.saturating_sub(Duration::from_millis(1));
    assert!(matches!(busy(soon), Disposition::Hold { .. }));
    assert!(matches!(early(soon), Disposition::Hold { .. }));
    assert!(matches!(busy(long), Disposition::Delay { .. }));
    assert!(matches!(early(long), Disposition::Delay { .. }));
}

/// A level that holds it for longer would make it late; a retry has no instant that it could miss.
#[test]
fn what_a_level_holds_for_too_long_is_held_where_there_is_room() {
    let retry = levels(&["5s"]);
    let too_long = |wait: Duration| Some(route(wait * 2));
    for outcome in outcomes() {
        let at = |hold_ms| {
            let (hold, lead) = (Duration::from_millis(hold_ms), Duration::ZERO);
            decide(&outcome, tries(0), Waits { retry: &retry, hold, lead }, too_long)
        };
        assert!(matches!(at(0), Disposition::Delay { .. }), "{outcome:?}");
        let is_retry = matches!(outcome, Outcome::Unknown | Outcome::Failed { .. });
        assert_eq!(matches!(at(1), Disposition::Delay { .. }), is_retry, "{outcome:?}");
    }
    let rest = |remaining| {
        let waits = Waits { retry: &[], hold: Duration::from_secs(2), lead: Duration::ZERO };
        decide(&Outcome::NotDue { remaining }, tries(0), waits, too_long)
    };
    assert_eq!(rest(LONGEST_IN_HAND), Disposition::Hold { wait: LONGEST_IN_HAND });
    let longer = LONGEST_IN_HAND + Duration::from_millis(1);
    assert!(matches!(rest(longer), Disposition::Delay { route, .. } if route.holds == longer * 2));
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
        (Outcome::Unknown, 0, retry_in("5s", 1)),
        (Outcome::Unknown, 1, retry_in("1m", 2)),
        (
            Outcome::Unknown,
            2,
            park(
                ParkReason::Unknown,
                "the database does not know this order; given up after 2 retries",
            ),
        ),
        (Outcome::Busy, 2, delay("1s", 2)),
        (postponed.clone(), 0, delay("1m", 0)),
        (postponed, 9, delay("1m", 9)),
        (failed.clone(), 0, retry_in("5s", 1)),
        (
            failed,
            2,
            park(ParkReason::Failed, "violates check \"available\"; given up after 2 retries"),
        ),
    ];
    for (outcome, attempt, expected) in table {
        let waits = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
        let decided = decide(&outcome, tries(attempt), waits, exactly);
        assert_eq!(decided, expected, "{outcome:?}, attempt {attempt}");
    }
}

/// A lock says nothing about the guard; every other answer ends the row.
#[test]
fn an_order_that_is_not_guarded_any_more_begins_again_with_the_shortest_wait() {
    let retry = levels(&["5s", "1m"]);
    let given = Waits { retry: &retry, hold: Duration::ZERO, lead: Duration::ZERO };
    for outcome in outcomes() {
        let guarded = match outcome {
            Outcome::Busy => 3,
            Outcome::NotDue { remaining } if remaining.is_zero() => 4,
            _ => 0,
        };
        let decided = decide(&outcome, Tries { guarded: 3, ..tries(0) }, given, exactly);
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
    let early = |ms| {
        decide(&Outcome::NotDue { remaining: Duration::from_millis(ms) }, tries(0), full, exactly)
    };
    assert_eq!(early(500), hold(500));
    assert_eq!(early(501), delay("501ms", 0));
    // A lock says nothing about the lead.
    assert_eq!(decide(&Outcome::Busy, tries(0), full, exactly), delay("1s", 0));
}

/// The broker has nothing that delays: what waits is held for as long as the broker bears it, with a look now and then.
#[test]
fn without_a_route_a_short_rest_is_held_and_a_longer_one_is_parked() {
    let rest = |remaining, hold_ms| {
        let (hold, lead) = (Duration::from_millis(hold_ms), Duration::ZERO);
        decide(&Outcome::NotDue { remaining }, tries(0), Waits { retry: &[], hold, lead }, nowhere)
    };
    let parked = park(ParkReason::NowhereToWait, NOWHERE_TO_WAIT);
    assert_eq!(rest(LONGEST_IN_HAND, 1), hold(5_000));
    assert_eq!(rest(Duration::from_millis(800), 1), hold(800));
    assert_eq!(rest(LONGEST_IN_HAND + Duration::from_millis(1), 1), parked);
    assert_eq!(rest(Duration::from_millis(800), 0), parked);
}

/// What waits for its deadline, a lock or a better time can be held; what is tried again is parked with its cause.
#[test]
fn what_cannot_be_tried_again_is_parked_with_its_cause() {
    let retry = levels(&["5s"]);
    for outcome in outcomes() {
        let at = |hold_ms| {
            let (hold, lead) = (Duration::from_millis(hold_ms), Duration::ZERO);
            decide(&outcome, tries(0), Waits { retry: &retry, hold, lead }, nowhere)
        };
        let cause = match &outcome {
            Outcome::Failed { .. } => Some("a check; "),
            Outcome::Unknown => Some("the database does not know this order; "),
            _ => None,
        };
        let reason = format!("{}{NOWHERE_TO_WAIT}", cause.unwrap_or_default());
        let parked = park(ParkReason::NowhereToWait, &reason);
        assert_eq!(at(0), parked, "{outcome:?}");
        let is_held = matches!(at(1), Disposition::Hold { .. });
        assert!(if cause.is_some() { at(1) == parked } else { is_held }, "{outcome:?}");
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
        let next = Tries { guarded: now.guarded + 1, ..now };
        assert_eq!(decide(&guarded, now, given, exactly), put_back(expected, next));
        now = next;
    }
    let forged = Tries { guarded: u32::MAX, ..tries(9) };
    assert_eq!(decide(&guarded, forged, given, exactly), put_back("1m", forged));

    let without_retry = Waits { retry: &[], ..given };
    let once = Tries { guarded: 1, ..tries(0) };
    assert_eq!(decide(&guarded, tries(0), without_retry, exactly), put_back("1m", once));
    // A deadline that was extended is no guard.
    let extended = Outcome::NotDue { remaining: Duration::from_secs(90) };
    assert_eq!(decide(&extended, now, given, exactly), delay("90s", 1));
}

#[test]
fn a_short_rest_is_held_and_a_longer_one_waits_on_the_broker() {
    let given = Waits { retry: &[], hold: Duration::from_secs(2), lead: Duration::ZERO };
    let rest = |ms| {
        decide(&Outcome::NotDue { remaining: Duration::from_millis(ms) }, tries(4), given, exactly)
    };
    for ms in [1, 100, 2_000] {
        assert_eq!(rest(ms), hold(ms));
    }
    assert_eq!(rest(2_001), delay("2001ms", 4));
}

/// 10 ms, doubling, at most a second; without room to wait about a second on the broker.
#[test]
fn a_locked_order_is_held_for_longer_and_longer_and_burns_no_retry() {
    let given = Waits { retry: &[], hold: Duration::from_secs(2), lead: Duration::ZERO };
    let waits: Vec<u128> = (0..9)
        .map(|busy| match decide(&Outcome::Busy, Tries { busy, ..tries(1) }, given, exactly) {
            Disposition::Hold { wait } => wait.as_millis(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
    let full = Waits { hold: Duration::ZERO, ..given };
    assert_eq!(decide(&Outcome::Busy, tries(1), full, exactly), delay("1s", 1));
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
