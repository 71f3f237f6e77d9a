//! `overdue bench change`: the account of every message, the changes, and the text.

use std::{collections::BTreeSet, time::Duration};

use overdue::{
    bench::change::{
        Size,
        kind::{Kind, Levels, LevelsError},
        ledger::{Ledger, Mark, Tally},
        report::{Change, Line, Report},
        scenario::{Scenario, Way},
    },
    plan::{diff::diff, snapshot::Snapshot},
    topology::level::Ttl,
};
use proptest::prelude::*;

/// Of the level `1s`.
fn way(stays: bool) -> Way {
    let ttl = Ttl::from_millis(1_000).unwrap();
    Way { routing_key: "1s.unpaid".to_owned(), ttl, stays }
}

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn confirmed(ledger: &mut Ledger, stays: bool, now: Duration) -> Mark {
    let mark = ledger.sent(&way(stays), now);
    ledger.confirmed(mark);
    mark
}

#[test]
fn every_message_that_comes_once_and_in_time_is_right() {
    let mut ledger = Ledger::default();
    let marks = [0, 1, 2].map(|ms| confirmed(&mut ledger, true, at(ms)));
    ledger.change_begins();
    for mark in marks {
        ledger.received(Some(mark), at(1_002));
    }
    let right = Tally { published: 3, waiting: 3, received: 3, distinct: 3, ..Tally::default() };
    assert_eq!(ledger.tally(), right);
    assert_eq!(ledger.lateness().collect::<Vec<_>>(), [at(2), at(1), at(0)]);
    assert_eq!((ledger.out(), ledger.published(), ledger.last_event()), (3, 3, at(1_002)));
}

#[test]
fn a_message_that_does_not_come_is_lost_once_it_was_confirmed() {
    let mut ledger = Ledger::default();
    let lost = confirmed(&mut ledger, true, at(0));
    ledger.confirmed(lost);
    let unconfirmed = ledger.sent(&way(true), at(0));
    assert_eq!((ledger.tally().lost, ledger.tally().published), (1, 1));
    ledger.received(Some(unconfirmed), at(1_000));
    assert_eq!((ledger.tally().lost, ledger.tally().distinct), (1, 1));
    ledger.received(Some(lost), at(1_000));
    assert_eq!(ledger.tally().lost, 0);
}

#[test]
fn a_copy_is_early_until_its_level_is_over() {
    let mut ledger = Ledger::default();
    let mark = confirmed(&mut ledger, true, at(10));
    ledger.received(Some(mark), Duration::from_micros(1_009_999));
    assert_eq!(ledger.tally().early, 1);
    assert_eq!(ledger.lateness().collect::<Vec<_>>(), [Duration::ZERO]);
    ledger.received(Some(mark), at(1_010));
    assert_eq!(ledger.tally().early, 1);
    ledger.received(Some(mark), at(11));
    assert_eq!(ledger.tally().early, 2, "copies count, too");
}

#[test]
fn copies_are_counted_wherever_they_come() {
    let mut ledger = Ledger::default();
    let [twice, both, parked] = [0, 1, 2].map(|ms| confirmed(&mut ledger, false, at(ms)));
    for mark in [twice, twice, both] {
        ledger.received(Some(mark), at(2_000));
    }
    for mark in [both, parked, parked] {
        ledger.parked(Some(mark), at(2_000));
    }
    let tally = ledger.tally();
    assert_eq!((tally.received, tally.distinct, tally.duplicates), (3, 2, 3));
    // What a consumer has had is not counted as parked.
    assert_eq!((tally.parked, tally.astray, tally.lost), (1, 0, 0));
}

#[test]
fn a_message_is_parked_rightly_only_where_its_way_was_taken_away_before_it_came() {
    let parked = |stays, before_change: bool| {
        let mut ledger = Ledger::default();
        let mark = ledger.sent(&way(stays), at(0));
        if before_change {
            ledger.confirmed(mark);
        }
        ledger.change_begins();
        ledger.confirmed(mark);
        ledger.parked(Some(mark), at(1));
        (ledger.tally().parked, ledger.tally().astray)
    };
    assert_eq!(parked(false, false), (1, 0));
    assert_eq!(parked(false, true), (1, 1));
    assert_eq!(parked(true, false), (1, 1));
    assert_eq!(parked(true, true), (1, 1));
}

#[test]
fn what_came_before_the_change_does_not_wait_for_it() {
    let mut ledger = Ledger::default();
    let [out, lot, _waits] = [0, 1, 2].map(|ms| confirmed(&mut ledger, true, at(ms)));
    let _unconfirmed = ledger.sent(&way(true), at(3));
    ledger.received(Some(out), at(1_000));
    ledger.parked(Some(lot), at(1_000));
    ledger.change_begins();
    assert_eq!(ledger.tally().waiting, 1);
}

#[test]
fn a_message_that_nobody_published_is_foreign() {
    let mut ledger = Ledger::default();
    let mark = confirmed(&mut ledger, true, at(5));
    let other_time = Mark { sent_us: mark.sent_us + 1, ..mark };
    let other_number = Mark { number: 1, ..mark };
    for foreign in [None, Some(other_time), Some(other_number)] {
        ledger.received(foreign, at(2_000));
        ledger.parked(foreign, at(2_000));
    }
    let tally = ledger.tally();
    assert_eq!((tally.foreign, tally.received, tally.parked, tally.lost), (6, 0, 0, 1));
}

/// What happens to one message: confirmed or not, and when its copies come, received or parked.
type Fate = (bool, Vec<(u64, bool)>);

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let copies = prop::collection::vec((0..2_000_u64, any::<bool>()), 0..4);
    prop::collection::vec((any::<bool>(), copies), 0..30)
}

proptest! {
    #[test]
    fn the_account_adds_up_in_any_order(fates in fates(), seed in any::<u64>()) {
        let mut ledger = Ledger::default();
        let mut marks = Vec::new();
        for (confirmed, _) in &fates {
            let mark = ledger.sent(&way(false), Duration::ZERO);
            if *confirmed {
                ledger.confirmed(mark);
            }
            marks.push(mark);
        }
        let mut copies: Vec<(Mark, u64, bool)> = marks
            .iter()
            .zip(&fates)
            .flat_map(|(mark, (_, copies))| copies.iter().map(|(ms, parked)| (*mark, *ms, *parked)))
            .collect();
        // Any order, told by the seed.
        copies.sort_by_key(|(mark, ms, parked)| {
            (mark.number as u64 * 31 + ms * 7 + u64::from(*parked)).wrapping_mul(seed | 1)
        });
        for (mark, ms, parked) in copies {
            if parked { ledger.parked(Some(mark), at(ms)) } else { ledger.received(Some(mark), at(ms)) }
        }
        let tally = ledger.tally();
        let count = |of: &dyn Fn(&Fate) -> bool| fates.iter().filter(|fate| of(fate)).count();
        let received = |fate: &Fate| fate.1.iter().any(|(_, parked)| !parked);
        prop_assert_eq!(tally.published, count(&|fate| fate.0));
        prop_assert_eq!(tally.lost, count(&|fate| fate.0 && fate.1.is_empty()));
        prop_assert_eq!(tally.distinct, count(&received));
        prop_assert_eq!(tally.parked, count(&|fate| !fate.1.is_empty() && !received(fate)));
        let all: usize = fates.iter().map(|fate| fate.1.len()).sum();
        prop_assert_eq!(tally.duplicates, all - tally.distinct - tally.parked);
        let early = |fate: &Fate| fate.1.iter().filter(|(ms, parked)| !parked && *ms < 1_000).count();
        prop_assert_eq!(tally.early, fates.iter().map(early).sum::<usize>());
        prop_assert_eq!(ledger.lateness().count(), tally.distinct);
        let unconfirmed = count(&|fate| !fate.0 && !fate.1.is_empty());
        prop_assert_eq!(tally.published + unconfirmed, tally.distinct + tally.parked + tally.lost);
    }
}

fn levels(text: &str) -> Levels {
    text.parse().unwrap()
}

#[test]
fn half_of_a_level_is_a_level() {
    for (level, half) in [("1m", "30s"), ("1s", "500ms"), ("3s", "1500ms"), ("24h", "12h")] {
        assert_eq!(levels(level).half.name(), half);
        assert_eq!(levels(level).half.ttl().as_millis() * 2, levels(level).level.ttl().as_millis());
    }
    for text in ["999ms", "25h", "2d"] {
        let range = LevelsError::Range(text.to_owned());
        assert_eq!(text.parse::<Levels>().unwrap_err(), range);
    }
    assert!(matches!("soon".parse::<Levels>(), Err(LevelsError::Level(_))));
}

#[test]
fn each_kind_is_a_change_that_can_be_made_and_its_ways_lead_somewhere() {
    for kind in Kind::ALL {
        let scenario = Scenario::new(kind, "bench", &levels("1m"));
        let Scenario { before, after, .. } = &scenario;
        let plan = diff(after, &Snapshot::of(before), &BTreeSet::new());
        assert!(!plan.is_empty() && plan.refusals.is_empty(), "{kind:?}: {plan}");
        let reaches = |topology: &overdue::topology::Topology, way: &Way| {
            let (level, timeout) = way.routing_key.split_once('.').unwrap();
            topology.level(level).is_some_and(|level| level.ttl() == way.ttl)
                && topology.timeout(timeout).is_some()
        };
        for way in scenario.old.iter().chain([&scenario.waiting]) {
            assert!(reaches(before, way), "{kind:?}: {way:?}");
            assert_eq!(reaches(after, way), way.stays, "{kind:?}: {way:?}");
        }
        for way in &scenario.new {
            assert!(way.stays && reaches(after, way), "{kind:?}: {way:?}");
        }
        if let Some(leaving) = &scenario.leaving {
            assert!(reaches(before, &leaving.way) && !reaches(after, &leaving.way));
            assert!(leaving.way.ttl < scenario.waiting.ttl);
        }
        assert_eq!(scenario.leaving.is_some(), kind == Kind::TimeoutRemoved);
    }
    let combined = Scenario::new(Kind::Combined, "bench", &levels("1m"));
    let (before, after) = (combined.before, combined.after);
    assert_ne!(before.levels, after.levels);
    assert_ne!(before.timeouts[0].after, after.timeouts[0].after);
    assert_eq!((before.queue_type.as_str(), after.queue_type.as_str()), ("classic", "quorum"));
}

fn change() -> Change {
    Change {
        summary: "1 queue to create; no message is lost".to_owned(),
        steps: 3,
        switched: at(123),
        applied: at(12_345),
        gone: at(65_432),
    }
}

/// Two messages that wait, and one that is published when its level is gone.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    let marks = [0, 1].map(|ms| confirmed(&mut ledger, true, at(ms)));
    ledger.change_begins();
    let late = confirmed(&mut ledger, false, at(500));
    ledger.parked(Some(late), at(501));
    ledger.received(Some(marks[0]), at(1_010));
    ledger.received(Some(marks[1]), at(1_031));
    ledger.received(Some(marks[1]), at(1_032));
    ledger
}

fn report(of: &[(Kind, &Ledger, Option<bool>)]) -> Report {
    let size = Size { messages: 2, levels: levels("1s") };
    let mut report = Report::new(&size);
    for (kind, ledger, refused) in of {
        let line = Line::new(*kind, &size, ledger, at(250), &change(), *refused);
        report.lines.push(line);
    }
    report
}

#[test]
fn a_report_without_harm() {
    let report =
        report(&[(Kind::Combined, &ledger(), None), (Kind::TimeoutRemoved, &ledger(), Some(true))]);
    assert!(report.is_right());
    insta::assert_snapshot!(report);
}

#[test]
fn a_report_of_everything_that_can_be_wrong() {
    let mut wrong = ledger();
    let _lost = confirmed(&mut wrong, true, at(0));
    let astray = confirmed(&mut wrong, true, at(0));
    wrong.parked(Some(astray), at(1));
    let early = confirmed(&mut wrong, true, at(0));
    wrong.received(Some(early), at(1));
    wrong.received(None, at(2));
    let mut early_start = Ledger::default();
    early_start.change_begins();
    let report = report(&[
        (Kind::LevelTtl, &wrong, None),
        (Kind::TimeoutRemoved, &early_start, Some(false)),
    ]);
    assert!(!report.is_right());
    insta::assert_snapshot!(report);
}

/// Each of them alone makes the result wrong.
#[test]
fn one_message_is_enough() {
    let wrong: [fn(&mut Ledger); 4] = [
        |ledger| {
            let _lost = confirmed(ledger, true, at(0));
        },
        |ledger| {
            let mark = confirmed(ledger, true, at(0));
            ledger.received(Some(mark), at(999));
        },
        |ledger| {
            let mark = confirmed(ledger, true, at(0));
            ledger.parked(Some(mark), at(0));
        },
        |ledger| ledger.received(None, at(0)),
    ];
    for spoil in wrong {
        let mut ledger = ledger();
        assert!(report(&[(Kind::Combined, &ledger, None)]).is_right());
        spoil(&mut ledger);
        assert!(!report(&[(Kind::Combined, &ledger, None)]).is_right());
    }
    assert!(!report(&[(Kind::TimeoutRemoved, &ledger(), Some(false))]).is_right());
}
