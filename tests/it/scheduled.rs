//! Notices that are written in SQL, in the transaction of the order.

mod page;
mod refused;
mod sweep;
mod triggers;

use std::{collections::BTreeSet, time::Duration};

use overdue::internals::topology::route::Delay;
use serde_json::json;

use crate::support::{
    Parked, Proxy, World,
    pages::{metrics, sum},
    until,
    worker::settings,
    world::TOPOLOGY,
};

const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"
ladder = { max = "1h" }

[[timeout]]
name = "unpaid"
after = "2s"

[retry]
after = ["1s", "2s"]
"#;

impl World {
    /// Calls `schedule_at(…)` for each order of the table, in one transaction.
    async fn schedule_all(&self, timeout: &str) {
        self.sql(&format!("SELECT schedule_at(id, '{timeout}', due_at) FROM orders ORDER BY id"))
            .await;
    }

    /// Schedules notices that are not due within a test.
    async fn schedule(&self, orders: &str, timeout: &str) {
        let notices = format!("SELECT schedule({orders}, '{timeout}', '40 minutes')");
        self.sql(&notices).await;
    }

    async fn until_published(&self) {
        self.until_rows("scheduled_notices", 0).await;
    }

    /// Registers the timeouts, like `overdue database init`.
    pub(crate) async fn knows_timeouts(&self) {
        self.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min') ON CONFLICT DO NOTHING").await;
    }

    /// Asserts that each order was closed by its message.
    async fn assert_closed_by_messages(&self, count: i64) {
        self.until_closed(usize::try_from(count).unwrap()).await;
        self.until_published().await;
        let in_time =
            "closures WHERE path IN ('message', 'burst') AND closed_at < due_at + interval '3 min'";
        assert_eq!(self.rows_of(in_time).await, count);
        self.assert_invariants().await;
    }
}

/// Orders are written during an outage of the broker, and closed by their messages afterwards. A late notice waits only for the
/// remaining time; a whole level would take 30 min.
#[apply(world_test)]
async fn orders_are_closed_at_their_deadline_by_messages_that_sql_scheduled() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let proxy = Proxy::to(&world.services.broker_socket()).await;
    let address = world.services.address(&world.vhost, Some(proxy.port()));
    let worker = world.worker_at(address, &world.services.database_url(None), settings());
    world.schedule("'first'", "unpaid").await;
    world.until_published().await;
    proxy.refuse();
    world.orders("o", 100, 2_500).await;
    world.schedule_all("unpaid").await;
    let before = proxy.attempts();
    until("it tries", async || proxy.attempts(), |seen| *seen > before + 1).await;
    assert_eq!(world.rows_of("scheduled_notices").await, 100);
    proxy.pass();
    world.assert_closed_by_messages(100).await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.swept), (0, 0, 0), "{counts:?}");
}

/// The delay is the time that remains at the publish; all notices of a transaction are published, or none.
#[apply(world_test)]
async fn each_committed_notice_takes_the_best_level_for_the_time_it_has_left() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    world
        .sql(
            "BEGIN; SELECT schedule('rolled-back', 'unpaid', '40 minutes'); ROLLBACK;
             BEGIN; SAVEPOINT part; SELECT schedule('part', 'unpaid', '40 minutes'); ROLLBACK TO SAVEPOINT part;
             SELECT schedule('half', 'unpaid', '40 minutes'); COMMIT;
             SELECT schedule('hour', 'unpaid', '1 hour');
             SELECT schedule('over', 'unpaid', '0');
             SELECT schedule_at('past', 'unpaid', now() - interval '1 day');
             SELECT schedule_at('late', 'unpaid', now() + interval '25 minutes')",
        )
        .await;
    let _worker = world.worker();
    let first = wire.take_many(&along, 5).await;
    let of = |order: &str| {
        let found = first.iter().find(|message| message.order() == order);
        found.unwrap_or_else(|| panic!("{order}: {first:?}"))
    };
    let later = world.topology.route("unpaid", &Delay::after("25m").unwrap()).unwrap();
    for (order, key) in [
        ("half", "30m.unpaid"),
        ("hour", "30m.unpaid"),
        // The level 30m would be late.
        ("late", later.routing_key.as_str()),
        ("over", "100ms.unpaid"),
        ("past", "100ms.unpaid"),
    ] {
        assert_eq!(of(order).key, key, "{order}");
    }
    assert_eq!(of("half").delivery_mode, Some(2));
    let body: serde_json::Value = serde_json::from_slice(&of("half").body).unwrap();
    assert_eq!(of("half").message_id, Some(format!("half@{}", body["due_at"].as_str().unwrap())));
    world.until_published().await;
    let others = wire.take_all(&along).await;
    assert!(others.iter().all(|it| ["late", "over", "past"].contains(&&*it.order())), "{others:?}");
}

/// On a ladder the remaining time is the path, to the second.
#[apply(world_test)]
async fn on_a_ladder_each_notice_takes_the_key_of_the_time_it_has_left() {
    let world = World::of(LADDER).await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let route = |ms: u64| {
        world.topology.route("unpaid", &Delay::Exactly(Duration::from_millis(ms))).unwrap()
    };
    let along = wire.listen(&world.topology.again(route(37 * 60_000)).exchange, "#").await;
    let worker = world.worker();
    world.sql("SELECT schedule('x', 'unpaid', '37 min')").await;
    let message = wire.take_many(&along, 1).await.remove(0);
    // The test publishes within a minute.
    let keys: BTreeSet<String> =
        (36 * 600..=37 * 600).map(|tenths| route(tenths * 100).routing_key).collect();
    assert!(keys.contains(&message.key), "{} is not one of {keys:?}", message.key);
    // Two seconds and a half are not a multiple of its units.
    world.orders("o", 50, 2_500).await;
    world.schedule_all("unpaid").await;
    world.assert_closed_by_messages(50).await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.swept), (0, 0, 0), "{counts:?}");
}

/// A worker that must not publish leaves the rows. Without the tables a worker works, and logs this once if it must publish.
#[apply(world_test)]
async fn a_worker_closes_orders_where_it_publishes_no_notices() {
    let world = World::new().await;
    world.knows_timeouts().await;
    world.schedule("'o'", "unpaid").await;
    let started = async |publish: &'static str| {
        world.started(|it| _ = it.env("OVERDUE_SCHEDULE__PUBLISH", publish)).await
    };
    // A worker that has closed an order has read the notices, if it reads them at all.
    let close = async |prefix: &str, all: usize| {
        world.publish_orders("100ms", prefix, 1, 0).await;
        world.until_closed(all).await;
    };
    let mut off = started("off").await;
    close("off", 1).await;
    assert_eq!(world.rows_of("scheduled_notices").await, 1);
    off.kill();

    let drop = "DROP TABLE scheduled_notices, scheduled_notices_refused, schedule_timeouts";
    world.sql(drop).await;
    let (silent, mut said) = (world.started(|_| {}).await, started("on").await);
    said.until_logged("there is no table schedule_timeouts").await;
    close("without", 2).await;
    assert_eq!(silent.logged("schedule"), 0, "{}", silent.log());
    assert_eq!(said.logged("schedule()"), 1, "{}", said.log());
    world.overdue(&["database", "init", "--yes"]).exits(0);
    world.schedule("'late'", "unpaid").await;
    world.until_published().await;
    assert_eq!(said.logged("ERROR"), 0, "{}", said.log());
}

#[apply(world_test)]
async fn what_waits_is_a_metric() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let (_process, address) = world.listening(|_| {}).await;
    world.schedule("generate_series(1, 30)", "unpaid").await;
    world.sql("INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('a b', 'unpaid', now())").await;
    let seen = async || {
        let seen = metrics(address).await;
        [
            "overdue_scheduled_published_total",
            "overdue_scheduled_refused_total",
            "overdue_scheduled_refused_notices",
            "overdue_scheduled_notices",
        ]
        .map(|metric| sum(&seen, metric, &[]))
    };
    let enough = |seen: &[f64; 4]| {
        seen.iter().zip([30.0, 1.0, 1.0, 0.0]).all(|(seen, wanted)| (seen - wanted).abs() < 0.1)
    };
    until("30 published, one set aside", seen, enough).await;
}

/// The older worker skips the unknown timeout.
#[apply(world_test)]
async fn a_notice_for_a_timeout_that_only_a_newer_worker_knows_is_published_beside_the_old_one() {
    let world = World::of(TOPOLOGY).await;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min'), ('unclaimed', '30 min')").await;
    world.schedule("'o'", "unclaimed").await;
    world.schedule("'o'", "unpaid").await;
    let old = world.worker();
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("what it knows is published", level, |ready| *ready == 1).await;
    let newer = format!("{TOPOLOGY}\n[[timeout]]\nname = \"unclaimed\"\nafter = \"30m\"\n");
    std::fs::write(world.topology_file(), newer).unwrap();
    let newer = world.started(|_| {}).await;
    world.until_published().await;
    world.schedule("'p'", "unclaimed").await;
    world.schedule("'p'", "unpaid").await;
    world.until_published().await;
    until("each once", level, |ready| *ready == 4).await;
    // After the older worker's end, the newer one publishes both.
    old.stop().await;
    world.schedule("'q'", "unclaimed").await;
    world.schedule("'q'", "unpaid").await;
    world.until_published().await;
    assert_eq!(world.rows_of("scheduled_notices_refused").await, 0);
    assert_eq!(newer.logged("ERROR"), 0, "{}", newer.log());
}

/// Each publish with the key of one timeout closes the channel.
#[apply(world_test)]
async fn a_timeout_that_may_not_be_published_stops_no_other() {
    let text = format!("{TOPOLOGY}\n[[timeout]]\nname = \"unclaimed\"\nafter = \"30m\"\n");
    let world = World::of(&text).await;
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.again", r"\.unpaid$").await;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min'), ('unclaimed', '30 min')").await;
    for n in 0..10 {
        world.schedule(&format!("'o-{n}'"), "unclaimed").await;
        world.schedule(&format!("'o-{n}'"), "unpaid").await;
    }
    let address = world.address_of(Some(&user));
    let _worker = world.worker_at(address, &world.services.database_url(None), settings());
    world.until_rows("scheduled_notices WHERE timeout = 'unpaid'", 0).await;
    assert_eq!(world.rows_of("scheduled_notices").await, 10);
}

/// A former defect published all notices again each second.
#[apply(world_test)]
async fn notices_that_a_full_level_refuses_are_tried_one_at_a_time() {
    const NOTICES: usize = 300;
    const NOT_TAKEN: &str = "scheduled notices are not taken by the broker";
    let world = World::of(TOPOLOGY).await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    world.policy("policies", "full", r"^orders\.delay\.30m$", json!({ "max-length": 5 })).await;
    world.until_policy("orders.delay.30m", "full").await;
    let mut process = world.started(|_| {}).await;
    world.schedule("generate_series(1, 10)", "unpaid").await;
    // The broker may take all ten before it knows that the queue is full, and may refuse the last ones.
    let answered = async || (world.rows_of("scheduled_notices").await, process.logged(NOT_TAKEN));
    until("ten answers", answered, |(left, refused)| *left == 0 || *refused > 0).await;
    let along = wire.listen("orders.again", "30m.#").await;
    world.schedule(&format!("generate_series(1, {NOTICES})"), "unpaid").await;
    until("a notice that is tried", async || wire.ready(&along).await, |tried| *tried > 0).await;
    process.until_logged(NOT_TAKEN).await;
    for n in 0..5 {
        world.sql(&format!("SELECT schedule('other-{n}', 'unpaid', '0')")).await;
        world.until_rows(&format!("scheduled_notices WHERE order_id = 'other-{n}'"), 0).await;
    }
    let tried = wire.take_all(&along).await.len();
    // The limit of unconfirmed messages at once, and then one at a time.
    assert!((1..NOTICES).contains(&tried), "{tried}");
    world.delete("policies", "full").await;
    world.until_published().await;
}

/// The broker returns the notices: no query reads the levels. A former defect confirmed and parked them.
#[apply(world_test)]
async fn notices_for_a_level_that_is_gone_take_another_one_and_none_is_parked() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let process = world.started(|_| {}).await;
    world.schedule("'first'", "unpaid").await;
    world.until_published().await;
    for exchange in ["orders.in", "orders.again"] {
        world.unbind(exchange, "orders.delay.30m", "30m.*").await;
    }
    let along = wire.listen("orders.dlx", "#.unpaid").await;
    world.orders("o", 5, 2_400_000).await;
    world.schedule_all("unpaid").await;
    world.until_published().await;
    let taken: BTreeSet<String> =
        wire.take_many(&along, 5).await.iter().map(Parked::order).collect();
    assert_eq!(taken.len(), 5);
    assert_eq!(wire.ready("orders.parked").await, 0);
    assert_eq!(process.logged("not taken by the broker"), 0, "{}", process.log());
}
