//! When an alert speaks.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use overdue::internals::alerting::{Condition, Facts, Kind, Lot, Notice, Rule, Sender, Watcher};
use proptest::prelude::*;

pub(super) const SENDER: Sender<'_> =
    Sender { alert: "on-call", topology: "orders", host: "shop-1", runbooks: "docs/runbooks.md" };

fn rule() -> Rule {
    Rule {
        kinds: Kind::ALL.into(),
        late_after: Duration::from_secs(10),
        not_ready_for: Duration::from_mins(1),
        over_after: Duration::from_mins(5),
        at_most_every: Duration::from_mins(1),
        again_after: Duration::from_hours(1),
    }
}

/// A clock that the tests set.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn at(&self, s: u64) -> Instant {
        self.0 + Duration::from_secs(s)
    }
}

fn parked(messages: u64) -> Facts {
    let key = ("unpaid".to_owned(), "failed".to_owned());
    Facts { parked: BTreeMap::from([(key, messages)]), ..Facts::default() }
}

fn texts(notice: &Notice) -> Vec<String> {
    notice.lines(&SENDER)
}

#[test]
fn what_is_parked_is_said_once_then_that_it_is_over_and_how_much_it_was() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    watcher.observe(clock.at(0), &parked(0));
    assert_eq!(watcher.due(clock.at(0)), None);
    watcher.observe(clock.at(5), &parked(3));
    let notice = watcher.due(clock.at(7)).expect("a message");
    assert_eq!(
        texts(&notice),
        [
            "parked: 3 messages put into the parking lot (unpaid, failed: 3); since 2 s; docs/runbooks.md#overdueparked"
        ]
    );
    watcher.sent(clock.at(8), &notice);
    // More of the same is no news.
    watcher.observe(clock.at(100), &parked(5));
    assert_eq!(watcher.due(clock.at(200)), None);
    watcher.observe(clock.at(399), &parked(5));
    assert_eq!(watcher.due(clock.at(399)), None);
    watcher.observe(clock.at(400), &parked(5));
    let notice = watcher.due(clock.at(400)).expect("that it is over");
    assert_eq!(notice.condition(), Condition::Over);
    assert_eq!(
        texts(&notice),
        [
            "over: parked: 5 messages put into the parking lot (unpaid, failed: 5); it began 6 min 35 s ago"
        ]
    );
    watcher.sent(clock.at(401), &notice);
    watcher.observe(clock.at(9_000), &parked(5));
    assert_eq!(watcher.due(clock.at(9_000)), None);
}

/// One is an accident, thousands are not: the message that said 1 is not the last one.
#[test]
fn ten_times_what_was_said_is_news() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    watcher.observe(clock.at(0), &parked(1));
    let notice = watcher.due(clock.at(0)).expect("a message");
    watcher.sent(clock.at(0), &notice);
    watcher.observe(clock.at(70), &parked(9));
    assert_eq!(watcher.due(clock.at(70)), None);
    watcher.observe(clock.at(80), &parked(10));
    assert_eq!(watcher.due(clock.at(80)).expect("a message").items[0].count, 10);
}

#[test]
fn what_happens_soon_after_a_message_is_grouped_in_the_next_one() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    watcher.observe(clock.at(0), &parked(1));
    let notice = watcher.due(clock.at(0)).expect("a message");
    watcher.sent(clock.at(0), &notice);
    let late = Facts { latest: Duration::from_secs(45), ..parked(1) };
    watcher.observe(clock.at(5), &late);
    let swept = BTreeMap::from([("unpaid".to_owned(), 12)]);
    watcher.observe(clock.at(10), &Facts { drift: 2, swept, ..parked(1) });
    assert_eq!(watcher.due(clock.at(59)), None);
    let notice = watcher.due(clock.at(60)).expect("all of it");
    assert_eq!(notice.headline(&SENDER), "[overdue orders] late, parked, sweep, drift (shop-1)");
    insta::assert_snapshot!(texts(&notice).join("\n"));
}

#[test]
fn not_ready_is_said_after_a_while_and_not_of_a_moment() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    let reason = ("broker".to_owned(), "not connected: refused".to_owned());
    let not_ready = Facts { not_ready: vec![reason], ..Facts::default() };
    watcher.observe(clock.at(0), &not_ready);
    watcher.observe(clock.at(59), &not_ready);
    watcher.observe(clock.at(61), &Facts::default());
    assert_eq!(watcher.due(clock.at(61)), None);
    watcher.observe(clock.at(70), &not_ready);
    watcher.observe(clock.at(130), &not_ready);
    let notice = watcher.due(clock.at(130)).expect("a message");
    assert_eq!(
        texts(&notice),
        [
            "not-ready: broker: not connected: refused; since 1 min 0 s; docs/runbooks.md#overdueworkernotready"
        ]
    );
}

#[test]
fn what_stays_wrong_is_said_again() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    let drift = Facts { drift: 1, ..Facts::default() };
    watcher.observe(clock.at(0), &drift);
    let notice = watcher.due(clock.at(0)).expect("a message");
    watcher.sent(clock.at(0), &notice);
    watcher.observe(clock.at(3_599), &drift);
    assert_eq!(watcher.due(clock.at(3_599)), None);
    watcher.observe(clock.at(3_600), &drift);
    assert!(watcher.due(clock.at(3_600)).is_some());
}

/// An order that nobody closes is late although none was closed late.
#[test]
fn an_order_that_is_overdue_and_not_closed_is_late() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    let overdue = |s| BTreeMap::from([("close".to_owned(), Duration::from_secs(s))]);
    watcher.observe(clock.at(0), &Facts { overdue: overdue(10), ..Facts::default() });
    assert_eq!(watcher.due(clock.at(0)), None);
    let latest = Duration::from_secs(70);
    watcher.observe(clock.at(5), &Facts { latest, overdue: overdue(11), ..Facts::default() });
    let notice = watcher.due(clock.at(5)).expect("a message");
    assert_eq!(
        notice.items[0].text,
        "an order of effect close has been overdue for 11 s and is not closed; orders were closed up to 70.0 s after their \
         deadline (late_after is 10 s)"
    );
}

/// What the worker knows at one look, and whether the other side takes a message then.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be so or not")]
struct Look {
    parked: u64,
    swept: u64,
    late: bool,
    drift: bool,
    not_ready: bool,
    taken: bool,
    pause_s: u64,
}

fn look() -> impl Strategy<Value = Look> {
    let few = || prop_oneof![5 => Just(0), 1 => 1_u64..50];
    let rarely = || prop::bool::weighted(0.1);
    (few(), few(), rarely(), rarely(), prop::bool::weighted(0.3), prop::bool::ANY, 1_u64..200)
        .prop_map(|(parked, swept, late, drift, not_ready, taken, pause_s)| Look {
            parked,
            swept,
            late,
            drift,
            not_ready,
            taken,
            pause_s,
        })
}

const QUIET: Look = Look {
    parked: 0,
    swept: 0,
    late: false,
    drift: false,
    not_ready: false,
    taken: true,
    pause_s: 61,
};

proptest! {
    /// Whatever happens, and however often messages are not taken: they keep their distance, everything that was seen is
    /// said in the end, with how often it was seen, and nothing is said to be wrong for ever.
    #[test]
    fn everything_is_said_in_the_end_and_nothing_too_often(looks in prop::collection::vec(look(), 1..60)) {
        let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
        let (mut now, mut last) = (0, None::<u64>);
        let (mut totals, mut said) = ((0, 0), (0, 0));
        let mut open: BTreeMap<Kind, bool> = BTreeMap::new();
        let after = std::iter::repeat_n(QUIET, 12);
        for look in looks.into_iter().chain(after) {
            now += look.pause_s;
            totals = (totals.0 + look.parked, totals.1 + look.swept);
            let facts = Facts {
                latest: if look.late { Duration::from_secs(30) } else { Duration::ZERO },
                swept: BTreeMap::from([("unpaid".to_owned(), totals.1)]),
                drift: u64::from(look.drift),
                not_ready: look.not_ready.then(|| ("broker".to_owned(), "x".to_owned())).into_iter().collect(),
                ..parked(totals.0)
            };
            let is_drift = look.drift;
            watcher.observe(clock.at(now), &facts);
            let mut seen: Vec<Kind> = Vec::new();
            seen.extend((look.parked > 0).then_some(Kind::Parked));
            seen.extend((look.swept > 0).then_some(Kind::Sweep));
            seen.extend(look.late.then_some(Kind::Late));
            seen.extend(is_drift.then_some(Kind::Drift));
            for kind in seen {
                open.insert(kind, true);
            }
            let Some(notice) = watcher.due(clock.at(now)) else { continue };
            prop_assert!(last.is_none_or(|last| now - last >= 60), "{now} after {last:?}");
            prop_assert!(!notice.items.is_empty());
            if !look.taken {
                continue;
            }
            last = Some(now);
            for item in notice.items.iter().filter(|item| item.over) {
                open.insert(item.kind, false);
                match item.kind {
                    Kind::Parked => said.0 += item.count,
                    Kind::Sweep => said.1 += item.count,
                    _ => {}
                }
            }
            watcher.sent(clock.at(now), &notice);
        }
        prop_assert_eq!(said, totals);
        prop_assert!(open.values().all(|open| !open), "{:?}", open);
        prop_assert_eq!(watcher.due(clock.at(now + 100_000)), None);
    }
}

/// What the broker parks is said like what workers park, and what a worker has parked is said once.
#[test]
fn what_others_park_is_told_from_what_was_parked_here() {
    let (clock, mut watcher) = (Clock::new(), Watcher::new(rule()));
    let facts = |lot, own| Facts { lot: Some(lot), ..parked(own) };
    watcher.observe(clock.at(0), &facts(40, 0));
    // Parked here; the broker's counts show it later.
    watcher.observe(clock.at(5), &facts(40, 3));
    watcher.observe(clock.at(10), &facts(43, 3));
    watcher.observe(clock.at(15), &facts(43, 3));
    let notice = watcher.due(clock.at(15)).expect("a message");
    assert_eq!(notice.items[0].count, 3);
    watcher.observe(clock.at(20), &facts(45, 3));
    watcher.observe(clock.at(25), &facts(45, 3));
    assert_eq!(
        watcher.due(clock.at(25)).expect("a message").items[0].text,
        "5 messages put into the parking lot (by the broker or another worker: 2; unpaid, failed: 3)"
    );
    // After a restart the broker does not know them for a moment.
    let readings = [(30, Some(0)), (35, None), (40, Some(45)), (45, Some(45)), (50, Some(45))];
    for (s, lot) in readings {
        watcher.observe(clock.at(s), &Facts { lot, ..parked(3) });
    }
    assert_eq!(watcher.due(clock.at(50)).expect("a message").items[0].count, 5);
}

/// An alert that a reload has brought: what was parked before is not new, also where the broker counts it only now.
#[test]
fn a_later_alert_begins_with_what_is_so_then() {
    let clock = Clock::new();
    let facts = |lot, own| Facts { lot, ..parked(own) };
    let mut watcher = Watcher::beginning(rule(), clock.at(0), &facts(None, 2));
    for (s, lot) in [(5, 0), (10, 2), (15, 2)] {
        watcher.observe(clock.at(s), &facts(Some(lot), 2));
    }
    assert_eq!(watcher.due(clock.at(15)), None);
    watcher.observe(clock.at(20), &facts(Some(3), 3));
    watcher.observe(clock.at(25), &facts(Some(3), 3));
    assert_eq!(watcher.due(clock.at(25)).expect("a message").items[0].count, 1);
}

proptest! {
    /// However late the broker's counts are, which may show a message before or after it is counted here: what others have
    /// put there is counted once.
    #[test]
    fn what_others_park_is_counted_once(
        looks in prop::collection::vec((0_u64..3, 0_u64..3, 0_usize..4, any::<bool>()), 1..80),
    ) {
        let (clock, mut lot) = (Clock::new(), Lot::default());
        let (mut own, mut others, mut found) = (0, 0, 0);
        let mut truth = vec![0];
        let mut shown = 0;
        prop_assert_eq!(lot.observe(clock.at(0), Some(0), 0), 0);
        let quiet = std::iter::repeat_n((0, 0, 0, false), 12);
        for (look, (here, there, late, early)) in (1..).zip(looks.into_iter().chain(quiet)) {
            others += there;
            truth.push(own + here + others);
            shown = shown.max(truth.len().saturating_sub(1 + late));
            let counted_here = if early { own } else { own + here };
            found += lot.observe(clock.at(5 * look), Some(truth[shown]), counted_here);
            own += here;
        }
        prop_assert_eq!(found, others);
    }

    /// Messages that are taken out, and counts that the broker has lost for a moment, make none.
    #[test]
    fn what_was_there_before_is_not_new(
        looks in prop::collection::vec((0_u64..3, 0_u64..3, any::<bool>()), 1..80),
    ) {
        let (clock, mut lot) = (Clock::new(), Lot::default());
        let (mut own, mut there) = (0, 50);
        lot.observe(clock.at(0), Some(there), 0);
        for (look, (here, taken, lost)) in (1_u64..).zip(looks) {
            own += here;
            there = (there + here).saturating_sub(taken);
            // For less than a minute.
            let shown = if lost && look % 4 > 0 { 0 } else { there };
            prop_assert_eq!(lot.observe(clock.at(5 * look), Some(shown), own), 0);
        }
    }
}
