//! When a queue may be deleted: whether its counts are newer than an event, told from its reports alone.

use std::time::Duration;

use overdue::internals::{
    objects::{Argument, mark},
    plan::{CountReport, CountReports, Snapshot, StatisticsInterval, is_needed, parking_lots},
    timing::Timing,
};
use proptest::prelude::*;

use crate::plan_table::file;

/// A broker: when the queue reports, when its reports are collected, and when somebody looks (milliseconds).
#[derive(Debug)]
struct Broker {
    reports_every: u64,
    reports_from: u64,
    collects_every: u64,
    collects_from: u64,
}

impl Broker {
    /// When the report was made that is to be seen at `now`.
    fn seen(&self, now: u64) -> u64 {
        let collected = last(now, self.collects_every, self.collects_from);
        last(collected, self.reports_every, self.reports_from)
    }
}

fn last(now: u64, every: u64, from: u64) -> u64 {
    now.saturating_sub(from) / every * every + from
}

fn broker() -> impl Strategy<Value = Broker> {
    let interval = || 1..20_000_u64;
    (interval(), interval(), interval(), interval()).prop_map(|(reports, from, collects, since)| {
        Broker {
            reports_every: reports,
            reports_from: from % reports,
            collects_every: collects,
            collects_from: since % collects,
        }
    })
}

fn report(leader: &str, reductions: u64) -> CountReport {
    CountReport { leader: leader.to_owned(), reductions }
}

proptest! {
    /// Whatever the intervals are, and however often somebody looks.
    #[test]
    fn counts_that_are_taken_for_newer_are_newer(
        broker in broker(), event in 50_000..100_000_u64, looks in prop::collection::vec(1..5_000_u64, 1..200),
    ) {
        let mut reports = CountReports::default();
        let mut now = event;
        for pause in looks {
            now += pause;
            let made = broker.seen(now);
            reports.seen(report("a", made));
            if reports.are_newer() {
                prop_assert!(made >= event, "made {} for an event at {}", made, event);
            }
        }
    }

    #[test]
    fn they_become_newer_within_three_intervals_of_both(broker in broker(), event in 50_000..100_000_u64) {
        let both = broker.reports_every + broker.collects_every;
        let mut reports = CountReports::default();
        // Looked at often enough to miss no report that is collected.
        for now in (event..=event + 3 * both).step_by(usize::try_from(both / 50).unwrap().max(1)) {
            reports.seen(report("a", broker.seen(now)));
        }
        prop_assert!(reports.are_newer());
    }
}

/// Another process has done another amount of work, and may have counted before the event.
#[test]
fn reports_of_a_new_leader_are_counted_from_the_start() {
    let mut reports = CountReports::default();
    assert!(!reports.any());
    for (leader, reductions) in [("a", 10), ("a", 20), ("b", 5), ("b", 5), ("b", 9)] {
        reports.seen(report(leader, reductions));
        assert!(reports.any() && !reports.are_newer());
    }
    reports.seen(report("b", 12));
    assert!(reports.are_newer());
}

/// A queue says itself what is ready, and nothing of what is not; that none is ready proves nothing.
#[test]
fn a_count_is_corrected_by_what_is_ready_and_only_upwards() {
    for (counted, ready, is) in [
        (None, 0, None),
        (None, 3, Some(3)),
        (Some(2), 3, Some(3)),
        (Some(5), 3, Some(5)),
        (Some(5), 0, Some(5)),
    ] {
        let mut broker = Snapshot::of(&file(""));
        broker.messages.remove("shop.unpaid");
        broker.messages.extend(counted.map(|count| ("shop.unpaid".to_owned(), count)));
        broker.at_least("shop.unpaid", ready);
        assert_eq!(broker.messages_in("shop.unpaid"), is, "{counted:?} {ready}");
    }
}

/// The waits follow from the setting; the default is the interval of every broker that has not been changed.
#[test]
fn the_waits_follow_from_the_interval_of_the_statistics() {
    const SECOND: Duration = Duration::from_secs(1);
    let least = Timing::default().least_statistics_interval;
    for (interval, waits) in
        [(1, [2, 3, 11, 60]), (5, [10, 11, 11, 60]), (60, [120, 121, 121, 720])]
    {
        let it = StatisticsInterval::new(interval * SECOND);
        let surely = it.surely_settle(least);
        let all = [it.oldest_count(), it.counts_settle(), surely, it.uncounted_at_most()];
        assert_eq!(all.map(|wait| wait.as_secs()), waits, "{interval}");
    }
}

/// An exchange of the plugin is deleted only if every node that answers says that it holds nothing.
#[test]
fn what_the_plugin_holds_keeps_its_exchange() {
    let delayed = file("delay.levels = [\"1s\", \"30m\"] → delay.strategy = \"delayed-exchange\"");
    for (held, needed) in [(Some(0), false), (Some(1), true), (None, true)] {
        let mut broker = Snapshot::of(&delayed);
        broker.delayed.clear();
        broker.delayed.extend(held.map(|held| ("shop.delayed".to_owned(), held)));
        assert_eq!(is_needed(&file(""), &broker, "shop.delayed"), needed);
        assert!(!is_needed(&file(""), &broker, "shop.nowhere"));
    }
}

/// Nothing is taken out of a queue of others.
#[test]
fn parking_lots_are_the_one_in_use_and_those_that_it_has_replaced() {
    let mut broker = Snapshot::of(&file(""));
    let lot = broker.objects.queues["shop.parked"].clone();
    for (name, limit, is_marked) in
        [("shop.parked.2", 7, true), ("shop.parked.3", 7, false), ("shop.parked.4", 0, false)]
    {
        let mut queue = lot.clone();
        name.clone_into(&mut queue.name);
        if limit > 0 {
            queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(limit));
        }
        broker.objects.queues.insert(name.to_owned(), queue);
        broker.objects.bindings.extend(mark("shop", name).filter(|_| is_marked));
    }
    let lots = parking_lots(&file(""), &broker.objects);
    assert_eq!(lots, ["shop.parked", "shop.parked.2", "shop.parked.4"]);
}
