//! When the counts of a queue are newer than an event, told from its reports alone.

use overdue::internals::plan::{CountReport, CountReports};
use proptest::prelude::*;

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
