//! Where a notice is published, and what a person reads who asks for what is not there.

use overdue::internals::topology::{
    Topology,
    level::Level,
    route::{Delay, RouteError},
};

fn topology() -> Topology {
    Topology::parse(include_str!("../../topology.toml")).expect("the repository's file is good")
}

fn key(delay: &Delay) -> Result<String, RouteError> {
    let route = topology().route("unpaid", delay)?;
    assert_eq!(route.exchange, "orders.in");
    let level = route.routing_key.strip_suffix(".unpaid").expect("ends with the timeout");
    assert_eq!(route.queues, [format!("orders.delay.{level}")]);
    assert_eq!(Ok(route.holds), level.parse::<Level>().map(|level| level.ttl().as_duration()));
    Ok(route.routing_key)
}

#[test]
fn a_notice_takes_the_level_it_asks_for() {
    assert_eq!(key(&Delay::Usual).as_deref(), Ok("30m.unpaid"));
    assert_eq!(key(&Delay::Category("virtual".to_owned())).as_deref(), Ok("5m.unpaid"));
    assert_eq!(key(&Delay::Level("14d".to_owned())).as_deref(), Ok("14d.unpaid"));
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let refused = |timeout: &str, delay: Delay| {
        topology().route(timeout, &delay).expect_err("not in the topology").to_string()
    };
    insta::assert_snapshot!(
        refused("unpayed", Delay::Usual),
        @"there is no timeout `unpayed` in the topology; it has `unpaid`"
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
