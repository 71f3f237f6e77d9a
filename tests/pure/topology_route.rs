//! Where a notice is published, and the errors for missing names.

use std::{fmt::Write, time::Duration};

use overdue::internals::topology::{
    Topology,
    level::{Interval, Lead},
    level_routes::LevelRoutes,
    route::{Delay, Route, RouteError, place},
};
use proptest::prelude::*;

/// A timeout with each strategy.
fn strategies() -> [Topology; 3] {
    let levels = "levels = [\"5s\", \"5m\", \"30m\"]";
    let ladder = "strategy = \"ladder\"\nladder = { max = \"30d\" }";
    [levels, ladder, "strategy = \"delayed-exchange\""].map(|delay| {
        let timeout =
            "name = \"unpaid\"\nafter = \"30m\"\nafter_by_category = { virtual = \"5m\" }";
        let text = format!("name = \"orders\"\n[delay]\n{delay}\n[[timeout]]\n{timeout}\n");
        Topology::parse(&text).expect("a good file")
    })
}

/// Each delay with each strategy: rounded as by a worker, which delays a long one again, and as by a publisher.
#[test]
fn where_a_notice_goes() {
    let ms = |ms| Delay::exactly(Duration::from_millis(ms));
    let nanosecond_more = Duration::from_secs(1_798) + Duration::from_nanos(1);
    let delays = [
        ("usual", Delay::Usual),
        ("category virtual", Delay::Category("virtual".to_owned())),
        ("category gift", Delay::Category("gift".to_owned())),
        ("level 5s", Delay::level("5s")),
        ("level 60s", Delay::Level("60s".to_owned())),
        ("0", ms(0)),
        ("1s", ms(1_000)),
        // A path of one hop stays; a second less may take two more hops.
        ("39s", ms(39_000)),
        ("39.7s", ms(39_700)),
        ("40s", ms(40_000)),
        // A level's messages expire shortly before its delay, and rounding up ends there.
        ("1798s", ms(1_798_000)),
        ("1798s and a nanosecond", Delay::exactly(nanosecond_more)),
        ("37m", Delay::after("37m").expect("a delay")),
        ("31d", Delay::after("31d").expect("a delay")),
        // The plugin's exchange takes 32 bits of milliseconds.
        ("4294967295ms", ms(u32::MAX.into())),
        ("4294967296ms", ms(u64::from(u32::MAX) + 1)),
    ];
    let mut table = String::new();
    for topology in strategies() {
        writeln!(table, "# {}", topology.strategy.as_str()).unwrap();
        for (name, delay) in &delays {
            let route = topology.route("unpaid", delay);
            let up = topology.route_rounded_up("unpaid", delay);
            let differs = (route != up).then_some((", up", &up));
            for (rounded, route) in std::iter::once(("", &route)).chain(differs) {
                match route {
                    Ok(Route { exchange, routing_key, x_delay, holds, queues, .. }) => writeln!(
                        table,
                        "{name}{rounded}: {exchange} {routing_key} {x_delay:?}, {holds:?} through {}",
                        queues.join(", ")
                    )
                    .unwrap(),
                    Err(error) => writeln!(table, "{name}{rounded}: {error}").unwrap(),
                }
            }
        }
        let unknown = topology.route("unpayed", &Delay::Usual).expect_err("no timeout");
        writeln!(table, "timeout unpayed: {unknown}").unwrap();
        let route = topology.route("unpaid", &Delay::Usual).expect("a way");
        writeln!(table, "waits in {}", place(&route)).unwrap();
        // No level takes due messages from the exchange for requeued notices.
        let due =
            LevelRoutes::default().until_due(&topology, &topology.timeouts[0], Duration::ZERO);
        let due = due.expect("a way");
        assert_eq!(topology.again(due.clone()), due);
        writeln!(table, "due: {} {}", due.exchange, due.routing_key).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_time_becomes_what_is_left_until_then() {
    let at = |text: &str| text.parse::<jiff::Timestamp>().expect("a time");
    let now = at("2026-11-20T10:00:00Z");
    let exactly = |ms| Delay::exactly(Duration::from_millis(ms));
    assert_eq!(Delay::until(at("2026-11-20T10:37:00.25Z"), now), exactly(2_220_250));
    // A deadline in the past means zero: a due order must be closed now.
    assert_eq!(Delay::until(at("2026-11-20T09:00:00Z"), now), exactly(0));
    assert_eq!(Delay::until(now, now), exactly(0));
    let ages = Delay::until(jiff::Timestamp::MAX, jiff::Timestamp::MIN);
    let [levels, ladder, plugin] = strategies();
    assert_eq!(levels.route("unpaid", &ages).map(|route| route.routing_key).unwrap(), "30m.unpaid");
    assert!(matches!(ladder.route("unpaid", &ages), Err(RouteError::Ladder(_))));
    assert_eq!(plugin.route("unpaid", &ages).map(|route| route.x_delay), Ok(Some(u32::MAX)));
}

#[test]
fn texts_that_are_no_delay() {
    let read = |text: &str| text.parse::<Interval>().map(|after| after.as_duration().as_millis());
    assert_eq!(read("37m"), Ok(2_220_000));
    assert_eq!((read("0s"), read("0ms")), (Ok(0), Ok(0)));
    let refused = ["-5m", "soon", "", "1.5h", "1h30m", "3651d", "99999999999999999999d", "-"];
    let refused = refused.map(|text| read(text).expect_err(text).to_string()).join("\n");
    insta::assert_snapshot!(refused);
}

proptest! {
    /// Rounding down is never late, if a level is short enough; rounding up is never early; both are the closest possible.
    #[test]
    fn rounding_is_to_the_side_that_was_asked_for(nanos in 0_u64..2 * 1_800_000_000_000) {
        let delay = Duration::from_nanos(nanos);
        for topology in strategies() {
            let shortest = topology.route("unpaid", &Delay::exactly(Duration::ZERO)).unwrap().holds;
            let down = topology.route("unpaid", &Delay::exactly(delay)).unwrap();
            prop_assert!(down.holds <= delay.max(shortest));
            match topology.route_rounded_up("unpaid", &Delay::exactly(delay)) {
                Ok(up) => {
                    prop_assert!(up.holds >= delay);
                    let without = Topology { lead: Lead::NONE, ..topology.clone() };
                    let up = without.route_rounded_up("unpaid", &Delay::exactly(delay)).unwrap();
                    prop_assert_eq!(&without.route("unpaid", &Delay::exactly(up.holds)).unwrap(), &up);
                }
                Err(error) => {
                    let too_long = matches!(error, RouteError::TooLong { .. });
                    prop_assert!(too_long);
                    // A level's messages expire shortly before its delay.
                    let longest = topology.route("unpaid", &Delay::Level("30m".to_owned()));
                    prop_assert!(delay > longest.unwrap().holds);
                }
            }
        }
    }
}
