//! Where a notice is published, and what a person reads who asks for what is not there.

use std::time::Duration;

use overdue::internals::topology::{
    Topology,
    level::{Interval, Lead, Level},
    level_routes::LevelRoutes,
    route::{Delay, RouteError, place},
};
use proptest::prelude::*;

fn topology() -> Topology {
    Topology::parse(include_str!("../../topology.toml")).expect("the repository's file is good")
}

fn key(delay: &Delay) -> Result<String, RouteError> {
    let route = topology().route("unpaid", delay)?;
    assert_eq!(route.exchange, "orders.in");
    let level = route.routing_key.strip_suffix(".unpaid").expect("ends with the timeout");
    assert_eq!(route.queues, [format!("orders.delay.{level}")]);
    assert_eq!(Ok(route.delay()), level.parse::<Level>().map(|level| level.ttl().as_duration()));
    assert_eq!(route.early, Duration::from_secs(2));
    Ok(route.routing_key)
}

#[test]
fn a_notice_takes_the_level_it_asks_for() {
    assert_eq!(key(&Delay::Usual).as_deref(), Ok("30m.unpaid"));
    assert_eq!(key(&Delay::Category("virtual".to_owned())).as_deref(), Ok("5m.unpaid"));
    assert_eq!(key(&Delay::level("14d")).as_deref(), Ok("14d.unpaid"));
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let refused = |timeout: &str, delay: Delay| {
        topology().route(timeout, &delay).expect_err("not in the topology").to_string()
    };
    insta::assert_snapshot!(
        refused("unpayed", Delay::Usual),
        @"there is no timeout `unpayed` in the topology (did you mean `unpaid`?); it has `unpaid`, `unshipped`, `unconfirmed`"
    );
    insta::assert_snapshot!(
        refused("unpaid", Delay::Level("60s".to_owned())),
        @"there is no level `60s` in the topology; it has `1s`, `3s`, `5s`, `10s`, `30s`, `1m`, `5m`, `15m`, `30m`, `1h`, `2h`, `1d`, `14d`, `30d`"
    );
    insta::assert_snapshot!(
        refused("unpaid", Delay::Category("gift".to_owned())),
        @"timeout `unpaid` has no level for category `gift`; it has `physical`, `virtual`"
    );
}

#[test]
fn a_timeout_without_categories_says_so() {
    let text = "name = \"t\"\ndelay.levels = [\"1s\"]\n[[timeout]]\nname = \"u\"\nafter = \"1s\"\n";
    let topology = Topology::parse(text).expect("a good file");
    let refused = topology.route("u", &Delay::Category("gift".to_owned())).expect_err("none");
    insta::assert_snapshot!(refused, @"timeout `u` has no level for category `gift`; it has none");
}

const REST: &str = "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n";

/// The same timeout with each strategy.
fn strategies() -> [Topology; 3] {
    let delays = [
        "name = \"orders\"\n[delay]\nlevels = [\"5s\", \"5m\", \"30m\"]\n",
        "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\n[delay.ladder]\nmax = \"30d\"\n",
        "name = \"orders\"\n[delay]\nstrategy = \"delayed-exchange\"\n",
    ];
    delays.map(|delay| Topology::parse(&format!("{delay}{REST}")).expect("a good file"))
}

#[test]
fn any_delay_has_a_way_with_every_strategy() {
    let delay = Delay::after("37m").expect("a delay");
    let ways = strategies().map(|topology| {
        let route = topology.route("unpaid", &delay).expect("a way");
        (route.exchange, route.routing_key, route.x_delay, route.holds.as_millis())
    });
    let way =
        |exchange: &str, key: &str, x_delay, ms| (exchange.to_owned(), key.to_owned(), x_delay, ms);
    assert_eq!(
        ways,
        [
            way("orders.in", "30m.unpaid", None, 1_798_000),
            // A second less would be two hops more.
            way("orders.ladder.10m", "0.0.7.3.unpaid", None, 2_220_000),
            way("orders.delayed", "unpaid", Some(2_218_000), 2_218_000),
        ]
    );
}

#[test]
fn a_time_becomes_what_is_left_until_then() {
    let at = |text: &str| text.parse::<jiff::Timestamp>().expect("a time");
    let now = at("2026-11-20T10:00:00Z");
    let exactly = |ms| Delay::exactly(Duration::from_millis(ms));
    assert_eq!(Delay::until(at("2026-11-20T10:37:00.25Z"), now), exactly(2_220_250));
    // Over is over: what is due now has to be looked at now.
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

#[test]
fn what_one_publish_cannot_hold_is_refused_where_nobody_sends_it_on() {
    let day = Delay::after("31d").expect("a delay");
    let month = Delay::after("50d").expect("a delay");
    let [levels, ladder, plugin] = strategies();
    let refused = [
        levels.route_rounded_up("unpaid", &day),
        ladder.route_rounded_up("unpaid", &day),
        plugin.route_rounded_up("unpaid", &month),
    ];
    let refused = refused.map(|route| route.expect_err("too long").to_string()).join("\n");
    insta::assert_snapshot!(refused);
    // The worker sends it on.
    assert!(levels.route("unpaid", &day).is_ok() && plugin.route("unpaid", &month).is_ok());
}

#[test]
fn a_ladder_lets_go_early_where_that_is_no_hop_more() {
    let [_, ladder, _] = strategies();
    let way = |ms| {
        let route = ladder.route("unpaid", &Delay::exactly(Duration::from_millis(ms))).unwrap();
        (route.holds.as_millis(), route.queues.len())
    };
    assert_eq!(way(39_000), (38_000, 2));
    assert_eq!(way(39_700), (39_000, 2));
    // One hop stays one hop, and what is published waits.
    assert_eq!(way(40_000), (40_000, 1));
    assert_eq!(way(1_000), (1_000, 1));
}

/// A level holds a notice for a little less than its name says, and rounding up ends there.
#[test]
fn more_than_the_longest_level_holds_is_too_long() {
    let [levels, ..] = strategies();
    let up = |delay| levels.route_rounded_up("unpaid", &Delay::exactly(delay));
    let longest = Duration::from_secs(1_798);
    assert_eq!(up(longest).map(|route| route.holds), Ok(longest));
    assert!(matches!(up(longest + Duration::from_nanos(1)), Err(RouteError::TooLong { .. })));
    // The plugin's exchange takes 32 bits of milliseconds.
    let [.., plugin] = strategies();
    let up = |delay| plugin.route_rounded_up("unpaid", &Delay::exactly(delay));
    let longest = Duration::from_millis(u32::MAX.into());
    assert_eq!(up(longest).map(|route| route.x_delay), Ok(Some(u32::MAX)));
    assert!(matches!(up(longest + Duration::from_nanos(1)), Err(RouteError::TooLong { .. })));
}

#[test]
fn a_notice_waits_in_its_first_queue_or_in_the_exchange_that_holds_it() {
    let delay = Delay::after("37m").expect("a delay");
    let places = strategies()
        .map(|topology| place(&topology.route("unpaid", &delay).expect("a way")).to_owned());
    assert_eq!(places, ["orders.delay.30m", "orders.ladder.delay.30m", "orders.delayed"]);
}

/// Nothing takes what is due from the exchange where workers put back what waits.
#[test]
fn what_is_due_is_put_back_to_where_it_comes_out() {
    for topology in strategies() {
        let due =
            LevelRoutes::default().until_due(&topology, &topology.timeouts[0], Duration::ZERO);
        let due = due.expect("a way");
        assert_eq!((due.exchange.as_str(), due.routing_key.as_str()), ("orders.dlx", "unpaid"));
        assert_eq!(topology.again(due.clone()), due);
    }
}

#[test]
fn a_strategy_is_called_as_in_the_file() {
    let names = strategies().map(|topology| topology.strategy.as_str());
    assert_eq!(names, ["levels", "ladder", "delayed-exchange"]);
}

proptest! {
    /// Down is never late, as far as there is anything so short; up is never early; and each is the closest there is.
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
                    // A level holds a notice for a little less than its name says.
                    let longest = topology.route("unpaid", &Delay::Level("30m".to_owned()));
                    prop_assert!(delay > longest.unwrap().holds);
                }
            }
        }
    }
}
