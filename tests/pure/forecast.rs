//! Future bursts, and how late they will be closed.

use std::collections::BTreeMap;

use overdue::internals::status::{Burst, ClosingRate, DueSoon, LastHour, Lateness};

fn rate(per_s: f64) -> ClosingRate {
    ClosingRate { per_s, measured: true }
}

fn due(hours: u32, seconds: &[(i64, u64)], per_s: f64) -> DueSoon {
    DueSoon::new(hours, &seconds.iter().copied().collect(), false, rate(per_s))
}

fn shown(burst: &Burst) -> String {
    let Burst { in_s, lasts_s, orders, late_s } = burst;
    format!("in {in_s}s for {lasts_s}s: {orders}, {late_s:.3}s late")
}

#[test]
fn the_last_of_a_burst_waits_until_the_others_are_closed() {
    let soon = due(1, &[(600, 10_000)], 2_000.0);
    assert_eq!(
        soon.bursts.iter().map(shown).collect::<Vec<_>>(),
        ["in 600s for 1s: 10000, 5.000s late"]
    );
    // Orders that are due during the closing wait behind it; later orders do not.
    let soon = due(1, &[(600, 10_000), (603, 2_000), (606, 100), (607, 100)], 2_000.0);
    let bursts: Vec<String> = soon.bursts.iter().map(shown).collect();
    assert_eq!(
        bursts,
        [
            "in 600s for 4s: 12000, 5.000s late",
            "in 606s for 1s: 100, 0.050s late",
            "in 607s for 1s: 100, 0.050s late"
        ]
    );
}

#[test]
fn a_steady_stream_within_the_rate_is_no_burst() {
    let seconds: Vec<(i64, u64)> = (0..600).map(|second| (second, 500)).collect();
    let soon = due(1, &seconds, 1_000.0);
    assert_eq!(soon.bursts.len(), 5);
    assert!(soon.bursts.iter().all(|it| it.orders == 500 && it.late_s <= 0.5), "{:?}", soon.bursts);
    // Above the rate, the stream is one growing burst.
    let soon = due(1, &seconds, 400.0);
    assert_eq!(
        soon.bursts.iter().map(shown).collect::<Vec<_>>(),
        ["in 0s for 600s: 300000, 151.000s late"]
    );
}

/// Overdue orders are closed first.
#[test]
fn what_is_overdue_comes_first() {
    let soon = due(1, &[(-1, 4_000), (1, 1_000), (90, 7), (3_599, 1)], 1_000.0);
    assert_eq!((soon.overdue, soon.bucket_s, soon.buckets.len()), (4_000, 60, 60));
    assert_eq!((soon.buckets[0], soon.buckets[1], soon.buckets[59]), (1_000, 7, 1));
    assert_eq!(shown(&soon.bursts[0]), "in 0s for 2s: 5000, 4.000s late");
    assert_eq!(due(1, &[], 1_000.0).bursts, []);
}

#[test]
fn buckets_cover_the_hours_that_are_asked_for() {
    for (hours, bucket_s, buckets) in
        [(1, 60, 60), (6, 300, 72), (12, 900, 48), (24, 900, 96), (72, 3_600, 72)]
    {
        let soon = due(hours, &[(i64::from(hours) * 3_600, 1)], 1_000.0);
        assert_eq!((soon.bucket_s, soon.buckets.len()), (bucket_s, buckets));
        // The last second belongs to the last bucket, and no order is lost.
        assert_eq!(soon.buckets.last(), Some(&1));
    }
}

#[test]
fn a_rate_is_measured_where_orders_waited_and_assumed_where_few_came() {
    for (late, best, per_s, measured) in [
        (0, 0, 1_000.0, false),
        (0, 3, 1_000.0, false),
        (0, 9_000, 9_000.0, true),
        (700, 700, 700.0, true),
        // A second without a late order may not show the maximum.
        (700, 9_000, 700.0, true),
    ] {
        assert_eq!(ClosingRate::of(late, best), ClosingRate { per_s, measured }, "{late} {best}");
    }
}

#[test]
fn minutes_are_those_of_an_hour_the_oldest_first() {
    let hour =
        LastHour::new(Lateness::default(), BTreeMap::new(), [(0, 5), (59, 1), (60, 2)], rate(1.0));
    assert_eq!((hour.minutes.len(), hour.minutes[59], hour.minutes[0]), (60, 5, 3));
}
