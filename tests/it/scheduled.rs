//! Notices that are written in SQL, in the transaction of the order.

mod faults;
mod leading;
mod left;
mod page;
mod refused;
mod rights;
mod triggers;

use std::{collections::BTreeSet, time::Duration};

use overdue::internals::{config::WorkerSettings, topology::route::Delay};
use serde_json::Value;

use crate::support::{
    Parked, Wire, World, until,
    worker::{millis, settings},
};

pub(crate) const LADDER: &str = r#"
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
    /// `schedule_at(…)` for each order of the table, in one transaction.
    pub(crate) async fn schedule_all(&self, timeout: &str) {
        self.sql(&format!("SELECT schedule_at(id, '{timeout}', due_at) FROM orders ORDER BY id"))
            .await;
    }

    /// Rows that wait to be published.
    async fn unpublished(&self) -> i64 {
        self.number("SELECT count(*) FROM scheduled_notices").await
    }

    async fn until_published(&self) {
        until("nothing waits", async || self.unpublished().await, |rows| *rows == 0).await;
    }

    /// The timeouts are known, as after `overdue database init`.
    async fn knows_timeouts(&self) {
        self.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min') ON CONFLICT DO NOTHING").await;
    }
}

fn order_of(message: &Parked) -> String {
    let body: Value = serde_json::from_slice(&message.body).unwrap();
    body["order_id"].as_str().unwrap().to_owned()
}

/// Everything that was published.
async fn published(wire: &Wire, along: &str) -> Vec<Parked> {
    wire.take_all(along).await
}

#[apply(world_test)]
async fn orders_are_closed_at_their_deadline_by_messages_that_sql_scheduled() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let worker = world.worker();
    world.orders("o", 200, 1_500).await;
    world.schedule_all("unpaid").await;
    world.until_closed(200).await;
    world.until_published().await;
    let messages = "SELECT count(*) FROM closures WHERE path IN ('message', 'burst')";
    assert_eq!(world.number(messages).await, 200);
    world.assert_invariants().await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.swept), (0, 0, 0), "{counts:?}");
}

/// The delay is what is left when it is published, whenever that is.
#[apply(world_test)]
async fn each_notice_takes_the_best_level_for_the_time_it_has_left() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    world
        .sql(
            "SELECT schedule('half', 'unpaid', '40 minutes');
             SELECT schedule('hour', 'unpaid', '1 hour');
             SELECT schedule('over', 'unpaid', '0');
             SELECT schedule_at('past', 'unpaid', now() - interval '1 day');
             SELECT schedule_at('late', 'unpaid', now() + interval '25 minutes')",
        )
        .await;
    let _worker = world.worker();
    let first = wire.take_many(&along, 5).await;
    let key = |order: &str| {
        let found = first.iter().find(|message| order_of(message) == order);
        found.unwrap_or_else(|| panic!("{order}: {first:?}")).key.clone()
    };
    assert_eq!(key("half"), "30m.unpaid");
    assert_eq!(key("hour"), "30m.unpaid");
    assert_eq!(key("late"), "2s.unpaid", "30m would be late");
    assert_eq!(key("over"), "100ms.unpaid");
    assert_eq!(key("past"), "100ms.unpaid");
    let half = first.iter().find(|message| order_of(message) == "half").unwrap();
    assert_eq!(half.delivery_mode, Some(2));
    let body: Value = serde_json::from_slice(&half.body).unwrap();
    assert_eq!(half.message_id, Some(format!("half@{}", body["due_at"].as_str().unwrap())));
    world.until_published().await;
}

/// On a ladder the time that is left is the way, to the second.
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
    assert_eq!(order_of(&message), "x");
    // Published within a minute.
    let keys: BTreeSet<String> =
        (36 * 600..=37 * 600).map(|tenths| route(tenths * 100).routing_key).collect();
    assert!(keys.contains(&message.key), "{} is not one of {keys:?}", message.key);
    // Two seconds and a half are none of its units.
    world.orders("o", 50, 2_500).await;
    world.schedule_all("unpaid").await;
    world.until_closed(50).await;
    world.until_published().await;
    let messages = "SELECT count(*) FROM closures WHERE path IN ('message', 'burst')";
    assert_eq!(world.number(messages).await, 50);
    world.assert_invariants().await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.swept), (0, 0, 0), "{counts:?}");
}

/// Of each transaction everything, or nothing.
#[apply(world_test)]
async fn what_was_rolled_back_is_not_published() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    let _worker = world.worker();
    let mut client = world.store.client().await.unwrap();
    for n in 0..40 {
        let transaction = client.transaction().await.unwrap();
        let sql = format!("SELECT schedule('o-{n}', 'unpaid', '40 minutes')");
        transaction.batch_execute(&sql).await.unwrap();
        // A part that was given up, as frameworks do.
        transaction
            .batch_execute(&format!(
                "SAVEPOINT part; SELECT schedule('part-{n}', 'unpaid', '40 minutes'); ROLLBACK TO SAVEPOINT part"
            ))
            .await
            .unwrap();
        if n % 2 == 0 {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
    // The last one, behind all of the others.
    world.sql("SELECT schedule('last', 'unpaid', '40 minutes')").await;
    let messages = wire.take_many(&along, 21).await;
    world.until_published().await;
    let mut orders: Vec<String> = messages.iter().map(order_of).collect();
    orders.sort();
    let mut expected: Vec<String> = (0..40).step_by(2).map(|n| format!("o-{n}")).collect();
    expected.push("last".to_owned());
    expected.sort();
    assert_eq!(orders, expected);
    assert_eq!(wire.take(&along).await, None);
}

/// A bounded run that counts: every row becomes one message that is confirmed, and goes.
#[apply(world_test)]
async fn twenty_thousand_rows_become_as_many_messages() {
    let world = World::new().await;
    world.knows_timeouts().await;
    world.sql("SELECT schedule(n, 'unpaid', '40 minutes') FROM generate_series(1, 20000) n").await;
    let _worker = world.worker();
    world.until_published().await;
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("each message in its level", level, |ready| *ready == 20_000).await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_notices_refused").await, 0);
}

#[apply(world_test)]
async fn a_worker_that_is_not_to_publish_leaves_the_rows() {
    let world = World::new().await;
    world.knows_timeouts().await;
    world.sql("SELECT schedule('o', 'unpaid', '40 minutes')").await;
    let mut process = world
        .started(|command| {
            command.env("OVERDUE_SCHEDULE__PUBLISH", "off");
        })
        .await;
    // It closes orders, and has looked at nothing of ours when it has closed one.
    let orders = world.orders("o", 1, 0).await;
    world.publish("100ms", &orders).await;
    world.until_closed(1).await;
    assert_eq!(world.unpublished().await, 1);
    process.kill();
    let _next = world.started(|_| {}).await;
    world.until_published().await;
}

/// The tables come later; the worker has gone on without them.
#[apply(world_test)]
async fn a_worker_without_the_tables_goes_on_with_one_line_where_it_is_to_publish() {
    let world = World::new().await;
    let drop = "DROP TABLE scheduled_notices, scheduled_notices_refused, schedule_timeouts";
    world.sql(drop).await;
    let (process, said) = (
        world.started(|_| {}).await,
        world
            .started(|command| {
                command.env("OVERDUE_SCHEDULE__PUBLISH", "on");
            })
            .await,
    );
    let orders = world.orders("o", 5, 0).await;
    world.publish("100ms", &orders).await;
    world.until_closed(5).await;
    assert_eq!(process.logged("schedule"), 0, "{}", process.log());
    assert_eq!(said.logged("schedule()"), 1, "{}", said.log());
    assert!(said.log().contains("there is no table schedule_timeouts"), "{}", said.log());

    let run = world.overdue(&["database", "init", "--yes"]);
    assert_eq!(run.code, Some(0), "{run}");
    world.sql("SELECT schedule('late', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    assert_eq!(said.logged("ERROR"), 0, "{}", said.log());
}

#[apply(world_test)]
async fn what_waits_is_a_metric() {
    use crate::support::pages::{metrics, sum};
    let world = World::new().await;
    world.knows_timeouts().await;
    let (_process, address) = world.listening(|_| {}).await;
    world.sql("SELECT schedule(n, 'unpaid', '40 minutes') FROM generate_series(1, 30) n").await;
    world.sql("INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('a b', 'unpaid', now())").await;
    let seen = async || {
        let seen = metrics(address).await;
        let sum = |metric: &str| sum(&seen, metric, &[]);
        [
            sum("overdue_scheduled_published_total"),
            sum("overdue_scheduled_refused_total"),
            sum("overdue_scheduled_refused_notices"),
            sum("overdue_scheduled_notices"),
        ]
    };
    let enough = |seen: &[f64; 4]| {
        seen.iter().zip([30.0, 1.0, 1.0, 0.0]).all(|(seen, wanted)| (seen - wanted).abs() < 0.1)
    };
    until("30 published, one set aside", seen, enough).await;
}

/// Closed by message, in a burst, by the sweep, or not yet: together the orders that came due and were not paid.
#[apply(world_test)]
async fn the_orders_that_came_due_are_accounted_for() {
    use crate::support::pages::{metrics, sum};
    let world = World::new().await;
    world.knows_timeouts().await;
    // Due, and nobody can close it: locked before anybody looks.
    world.orders("held", 1, 500).await;
    let mut client = world.store.client().await.unwrap();
    let held = crate::support::hold(&mut client, "held-0").await;
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "200ms");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
        })
        .await;
    world.orders("scheduled", 60, 1_000).await;
    world.schedule_all("unpaid").await;
    world.orders("lost", 20, 500).await;
    world.orders("paid", 5, 3_600_000).await;
    for n in 0..5 {
        assert!(world.pay(&format!("paid-{n}")).await);
    }
    world.until_closed(80).await;
    let unpaid =
        "SELECT count(*) FROM orders WHERE status IN ('unpaid', 'closed') AND due_at <= now()";
    assert_eq!(world.number(unpaid).await, 81);
    let accounting = async || {
        let seen = metrics(address).await;
        let paths = ["message", "burst", "sweep", "nobody"];
        paths.map(|path| {
            sum(
                &seen,
                "overdue_due_orders",
                &["effect=\"close\"", &format!("closed_by=\"{path}\"")],
            )
        })
    };
    let all = |seen: &[f64; 4]| {
        (seen.iter().sum::<f64>() - 81.0).abs() < 0.1 && (seen[3] - 1.0).abs() < 0.1
    };
    let seen = until("81 orders", accounting, all).await;
    assert!(seen[2] > 19.0, "{seen:?}");
    for (path, seen) in ["message", "burst", "sweep"].iter().zip(seen) {
        let rows =
            world.number(&format!("SELECT count(*) FROM closures WHERE path = '{path}'")).await;
        #[expect(clippy::cast_precision_loss, reason = "a count of this test")]
        let rows = rows as f64;
        assert!((rows - seen).abs() < 0.1, "{path}: {rows} {seen}");
    }
    held.rollback().await.unwrap();
    world.until_closed(81).await;
}

/// The defaults, with a sweep that looks so often.
fn sweeping(every: &str) -> WorkerSettings {
    WorkerSettings { sweep_every: millis(every), ..settings() }
}
