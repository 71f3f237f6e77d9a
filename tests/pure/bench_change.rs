//! `overdue bench change`: the account of every message, the changes, and the text.

use std::{collections::BTreeSet, time::Duration};

use overdue::internals::{
    bench::change::{
        kind::ChangeKind,
        measured::{AppliedChange, MeasuredChange},
        message_log::{MessageCounts, MessageLog, MessageTag},
        report::ChangeReport,
        scenario::{MessageRoute, Scenario},
        size::{ChangeSize, Levels, LevelsError},
    },
    plan::{Snapshot, diff},
    topology::level::Ttl,
};
use proptest::prelude::*;

/// Of the level `1s`.
fn route(stays: bool) -> MessageRoute {
    let ttl = Ttl::from_millis(1_000).unwrap();
    MessageRoute { routing_key: "1s.unpaid".to_owned(), ttl, stays }
}

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn confirmed(log: &mut MessageLog, stays: bool, now: Duration) -> MessageTag {
    let tag = log.sent(&route(stays), now);
    log.confirmed(tag);
    tag
}

#[test]
fn every_message_that_comes_once_and_in_time_is_right() {
    let mut log = MessageLog::default();
    let tags = [0, 1, 2].map(|ms| confirmed(&mut log, true, at(ms)));
    log.change_begins();
    for tag in tags {
        log.received(Some(tag), at(1_002));
    }
    let right = MessageCounts {
        published: 3,
        waiting: 3,
        received: 3,
        distinct: 3,
        ..MessageCounts::default()
    };
    assert_eq!(log.counts(), right);
    assert_eq!(log.lateness().collect::<Vec<_>>(), [at(2), at(1), at(0)]);
    assert_eq!((log.out(), log.published(), log.last_event()), (3, 3, at(1_002)));
}

#[test]
fn a_message_that_does_not_come_is_lost_once_it_was_confirmed() {
    let mut log = MessageLog::default();
    let lost = confirmed(&mut log, true, at(0));
    log.confirmed(lost);
    let unconfirmed = log.sent(&route(true), at(0));
    assert_eq!((log.counts().lost, log.counts().published), (1, 1));
    log.received(Some(unconfirmed), at(1_000));
    assert_eq!((log.counts().lost, log.counts().distinct), (1, 1));
    log.received(Some(lost), at(1_000));
    assert_eq!(log.counts().lost, 0);
}

#[test]
fn a_copy_is_early_until_its_level_is_over() {
    let mut log = MessageLog::default();
    let tag = confirmed(&mut log, true, at(10));
    log.received(Some(tag), Duration::from_micros(1_009_999));
    assert_eq!(log.counts().early, 1);
    assert_eq!(log.lateness().collect::<Vec<_>>(), [Duration::ZERO]);
    log.received(Some(tag), at(1_010));
    assert_eq!(log.counts().early, 1);
    log.received(Some(tag), at(11));
    assert_eq!(log.counts().early, 2, "copies count, too");
}

#[test]
fn copies_are_counted_wherever_they_come() {
    let mut log = MessageLog::default();
    let [twice, both, parked] = [0, 1, 2].map(|ms| confirmed(&mut log, false, at(ms)));
    for tag in [twice, twice, both] {
        log.received(Some(tag), at(2_000));
    }
    for tag in [both, parked, parked] {
        log.parked(Some(tag), at(2_000));
    }
    let counts = log.counts();
    assert_eq!((counts.received, counts.distinct, counts.duplicates), (3, 2, 3));
    // What a consumer has had is not counted as parked.
    assert_eq!((counts.parked, counts.misdirected, counts.lost), (1, 0, 0));
}

#[test]
fn a_message_is_parked_rightly_only_where_its_way_was_taken_away_before_it_came() {
    let parked = |stays, before_change: bool| {
        let mut log = MessageLog::default();
        let tag = log.sent(&route(stays), at(0));
        if before_change {
            log.confirmed(tag);
        }
        log.change_begins();
        log.confirmed(tag);
        log.parked(Some(tag), at(1));
        (log.counts().parked, log.counts().misdirected)
    };
    assert_eq!(parked(false, false), (1, 0));
    assert_eq!(parked(false, true), (1, 1));
    assert_eq!(parked(true, false), (1, 1));
    assert_eq!(parked(true, true), (1, 1));
}

#[test]
fn what_came_before_the_change_does_not_wait_for_it() {
    let mut log = MessageLog::default();
    let [out, lot, _waits] = [0, 1, 2].map(|ms| confirmed(&mut log, true, at(ms)));
    let _unconfirmed = log.sent(&route(true), at(3));
    log.received(Some(out), at(1_000));
    log.parked(Some(lot), at(1_000));
    log.change_begins();
    assert_eq!(log.counts().waiting, 1);
}

#[test]
fn a_message_that_nobody_published_is_foreign() {
    let mut log = MessageLog::default();
    let tag = confirmed(&mut log, true, at(5));
    let other_time = MessageTag { sent_us: tag.sent_us + 1, ..tag };
    let other_number = MessageTag { number: 1, ..tag };
    for foreign in [None, Some(other_time), Some(other_number)] {
        log.received(foreign, at(2_000));
        log.parked(foreign, at(2_000));
    }
    let counts = log.counts();
    assert_eq!((counts.foreign, counts.received, counts.parked, counts.lost), (6, 0, 0, 1));
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
        let mut log = MessageLog::default();
        let mut tags = Vec::new();
        for (confirmed, _) in &fates {
            let tag = log.sent(&route(false), Duration::ZERO);
            if *confirmed {
                log.confirmed(tag);
            }
            tags.push(tag);
        }
        let mut copies: Vec<(MessageTag, u64, bool)> = tags
            .iter()
            .zip(&fates)
            .flat_map(|(tag, (_, copies))| copies.iter().map(|(ms, parked)| (*tag, *ms, *parked)))
            .collect();
        // Any order, told by the seed.
        copies.sort_by_key(|(tag, ms, parked)| {
            (tag.number as u64 * 31 + ms * 7 + u64::from(*parked)).wrapping_mul(seed | 1)
        });
        for (tag, ms, parked) in copies {
            if parked { log.parked(Some(tag), at(ms)) } else { log.received(Some(tag), at(ms)) }
        }
        let counts = log.counts();
        let count = |of: &dyn Fn(&Fate) -> bool| fates.iter().filter(|fate| of(fate)).count();
        let received = |fate: &Fate| fate.1.iter().any(|(_, parked)| !parked);
        prop_assert_eq!(counts.published, count(&|fate| fate.0));
        prop_assert_eq!(counts.lost, count(&|fate| fate.0 && fate.1.is_empty()));
        prop_assert_eq!(counts.distinct, count(&received));
        prop_assert_eq!(counts.parked, count(&|fate| !fate.1.is_empty() && !received(fate)));
        let all: usize = fates.iter().map(|fate| fate.1.len()).sum();
        prop_assert_eq!(counts.duplicates, all - counts.distinct - counts.parked);
        let early = |fate: &Fate| fate.1.iter().filter(|(ms, parked)| !parked && *ms < 1_000).count();
        prop_assert_eq!(counts.early, fates.iter().map(early).sum::<usize>());
        prop_assert_eq!(log.lateness().count(), counts.distinct);
        let unconfirmed = count(&|fate| !fate.0 && !fate.1.is_empty());
        prop_assert_eq!(counts.published + unconfirmed, counts.distinct + counts.parked + counts.lost);
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
    for kind in ChangeKind::ALL {
        let scenario = Scenario::new(kind, "bench", &levels("1m"));
        let Scenario { before, after, .. } = &scenario;
        let plan = diff(after, &Snapshot::of(before), &BTreeSet::new());
        assert!(!plan.is_empty() && plan.refusals.is_empty(), "{kind:?}: {plan}");
        let reaches = |topology: &overdue::internals::topology::Topology, route: &MessageRoute| {
            let (level, timeout) = route.routing_key.split_once('.').unwrap();
            topology.level(level).is_some_and(|level| level.ttl() == route.ttl)
                && topology.timeout(timeout).is_some()
        };
        for route in scenario.old.iter().chain([&scenario.waiting]) {
            assert!(reaches(before, route), "{kind:?}: {route:?}");
            assert_eq!(reaches(after, route), route.stays, "{kind:?}: {route:?}");
        }
        for route in &scenario.new {
            assert!(route.stays && reaches(after, route), "{kind:?}: {route:?}");
        }
        if let Some(removed) = &scenario.removed {
            assert!(reaches(before, &removed.route) && !reaches(after, &removed.route));
            assert!(removed.route.ttl < scenario.waiting.ttl);
        }
        assert_eq!(scenario.removed.is_some(), kind == ChangeKind::TimeoutRemoved);
    }
    let combined = Scenario::new(ChangeKind::Combined, "bench", &levels("1m"));
    let (before, after) = (combined.before, combined.after);
    assert_ne!(before.levels, after.levels);
    assert_ne!(before.timeouts[0].after, after.timeouts[0].after);
    assert_eq!((before.queue_type.as_str(), after.queue_type.as_str()), ("classic", "quorum"));
}

fn change() -> AppliedChange {
    AppliedChange {
        plan: "1 queue to create; no message is lost".to_owned(),
        steps: 3,
        switched_s: 0.12,
        applied_s: 12.35,
        old_queues_gone_s: 65.43,
    }
}

/// Two messages that wait, and one that is published when its level is gone.
fn log() -> MessageLog {
    let mut log = MessageLog::default();
    let tags = [0, 1].map(|ms| confirmed(&mut log, true, at(ms)));
    log.change_begins();
    let late = confirmed(&mut log, false, at(500));
    log.parked(Some(late), at(501));
    log.received(Some(tags[0]), at(1_010));
    log.received(Some(tags[1]), at(1_031));
    log.received(Some(tags[1]), at(1_032));
    log
}

fn report(of: &[(ChangeKind, &MessageLog, Option<bool>)]) -> ChangeReport {
    let size = ChangeSize { messages: 2, levels: levels("1s") };
    let mut report = ChangeReport::new(&size);
    for (kind, log, refused) in of {
        let line = MeasuredChange::new(*kind, &size, log, at(250), change(), *refused);
        report.lines.push(line);
    }
    report
}

#[test]
fn a_report_without_harm() {
    let report = report(&[
        (ChangeKind::Combined, &log(), None),
        (ChangeKind::TimeoutRemoved, &log(), Some(true)),
    ]);
    assert!(report.is_right());
    insta::assert_snapshot!(report);
}

#[test]
fn a_report_of_everything_that_can_be_wrong() {
    let mut wrong = log();
    let _lost = confirmed(&mut wrong, true, at(0));
    let misdirected = confirmed(&mut wrong, true, at(0));
    wrong.parked(Some(misdirected), at(1));
    let early = confirmed(&mut wrong, true, at(0));
    wrong.received(Some(early), at(1));
    wrong.received(None, at(2));
    let mut early_start = MessageLog::default();
    early_start.change_begins();
    let report = report(&[
        (ChangeKind::LevelTtl, &wrong, None),
        (ChangeKind::TimeoutRemoved, &early_start, Some(false)),
    ]);
    assert!(!report.is_right());
    insta::assert_snapshot!(report);
}

/// Each of them alone makes the result wrong.
#[test]
fn one_message_is_enough() {
    let wrong: [fn(&mut MessageLog); 4] = [
        |log| {
            let _lost = confirmed(log, true, at(0));
        },
        |log| {
            let tag = confirmed(log, true, at(0));
            log.received(Some(tag), at(999));
        },
        |log| {
            let tag = confirmed(log, true, at(0));
            log.parked(Some(tag), at(0));
        },
        |log| log.received(None, at(0)),
    ];
    for spoil in wrong {
        let mut log = log();
        assert!(report(&[(ChangeKind::Combined, &log, None)]).is_right());
        spoil(&mut log);
        assert!(!report(&[(ChangeKind::Combined, &log, None)]).is_right());
    }
    assert!(!report(&[(ChangeKind::TimeoutRemoved, &log(), Some(false))]).is_right());
}
