//! A worker whose database is behind `PgBouncer` in transaction mode, set as docs/settings.md says.

use std::collections::BTreeMap;

use crate::support::{Run, WorkerProcess, World, pooler::Pooler, until};

use super::events::{copies, write};

/// The locks of those who publish: each has one for each part of a table.
const LOCKS: &str =
    "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted
    AND classid IN ('outbox'::regclass, 'scheduled_notices'::regclass)";

impl World {
    async fn behind(&self, pooler: &Pooler) -> WorkerProcess {
        self.started(|command| {
            command.env("OVERDUE_DATABASE__URL", pooler.url());
            // The sweep takes what no message has come for in an hour.
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1h");
            command.env("OVERDUE_WORKER__KEEP_HISTORY", "1d");
            // Batches are closed when they are full, as long as the database has something to do.
            command.env("OVERDUE_WORKER__BATCH_AGE", "1m");
        })
        .await
    }

    fn asked(&self, pooler: &Pooler, arguments: &[&str]) -> Run {
        self.overdue_with(arguments, &[("OVERDUE_DATABASE__URL", &pooler.url())]).exits(0)
    }

    async fn until_none_waits(&self) {
        let waiting =
            "FROM (SELECT id FROM outbox UNION ALL SELECT id FROM outbox_refused) waiting";
        self.until_none("every event is published", waiting).await;
    }

    async fn until_none(&self, what: &str, sql: &str) {
        let sql = format!("SELECT count(*) {sql}");
        until(what, async || self.number(&sql).await, |count| *count == 0).await;
    }
}

async fn closed_by(world: &World, path: &str) -> i64 {
    world.number(&format!("SELECT count(*) FROM closures WHERE path = '{path}'")).await
}

#[apply(world_test)]
async fn all_work_is_done_behind_a_pooler_also_when_it_is_restarted() {
    let world = World::new().await;
    let Some(mut pooler) = Pooler::of(&world).await else { return };
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    world
        .sql(
            "INSERT INTO closures (order_id, effect, path, due_at, closed_at)
             VALUES ('old', 'close', 'message', now() - interval '1 y', now() - interval '1 y')",
        )
        .await;
    let run =
        world.overdue_with(&["doctor", "-o", "json"], &[("OVERDUE_DATABASE__URL", &pooler.url())]);
    let has_all = format!("drops the options of connections; user {} has them", world.schema);
    assert!(run.json()["checks"].to_string().contains(&has_all), "{run}");
    // One statement is stalled as long as the burst takes. The server's sessions have what their user had when they were opened.
    world.sql(&format!("ALTER ROLE {} SET statement_timeout = 0", world.schema)).await;
    pooler.restart(&world).await;
    let first = world.behind(&pooler).await;
    // While one statement is stalled, the others make full batches; most orders of the burst have no message.
    let stalled = world.orders("first", 1, 0).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, &stalled[0]).await;
    world.publish("100ms", &stalled).await;
    world.until_stalled().await;
    let burst = world.orders_without_stock("burst", 3_000).await;
    world.publish("100ms", &burst[..1_500]).await;
    let in_burst = async || closed_by(&world, "burst").await;
    until("a burst", in_burst, |closed| *closed >= 1_500).await;
    held.commit().await.unwrap();
    world.until_closed(3_001).await;
    world.until_empty("orders.unpaid").await;

    let second = world.behind(&pooler).await;
    world.orders("lost", 3, -7_200_000).await;
    world.publish_orders("500ms", "message", 100, 500).await;
    pooler.restart(&world).await;
    world.orders("scheduled", 100, 1_000).await;
    world
        .sql("SELECT schedule_at(id, 'unpaid', due_at) FROM orders WHERE id LIKE 'scheduled-%'")
        .await;
    world.until_closed(3_204).await;

    let pause = ["pause", "unpaid", "--for", "1h", "--why", "the payment provider is down"];
    world.asked(&pooler, &pause);
    world.publish_orders("100ms", "held", 20, 0).await;
    let refused = async || first.logged("paused") + second.logged("paused");
    until("a worker has refused", refused, |refused| *refused > 0).await;
    assert_eq!(world.closed().await, 3_204);
    world.asked(&pooler, &["explain", "--order", "held-0"]);
    world.asked(&pooler, &["resume", "unpaid"]);
    // Their notices wait in levels; what is due is found by the sweep, whose grace is too long here.
    world.sql("UPDATE orders SET due_at = now() - interval '2 h' WHERE status = 'unpaid'").await;
    world.until_closed(3_224).await;

    world.until_none_waits().await;
    world.until_none("old rows are deleted", "FROM closures WHERE order_id = 'old'").await;
    let mut seen = BTreeMap::new();
    until(
        "each event",
        async || copies(&wire, &subscriber, &mut seen).await.len(),
        |n| *n == 3_224,
    )
    .await;
    assert!(closed_by(&world, "message").await > 0);
    assert!(closed_by(&world, "sweep").await >= 3);
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 3_224, "each once");
    world.asked(&pooler, &["status"]);
    world.assert_invariants().await;
    first.stopped().await;
}

/// A lock of a session would stay with a connection that the pooler keeps.
#[apply(world_test)]
async fn behind_a_pooler_one_worker_publishes_by_the_lock_of_an_open_transaction() {
    let world = World::new().await;
    let Some(pooler) = Pooler::of(&world).await else { return };
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let mut workers = [world.behind(&pooler).await, world.behind(&pooler).await];
    // Two transactions for both workers, and one that has got no lock and is over.
    let sessions = format!(
        "SELECT count(*) FILTER (WHERE state LIKE 'idle in transaction%'), count(*) FILTER (WHERE state = 'idle' AND query = 'ROLLBACK')
         FROM pg_stat_activity WHERE usename = '{}'",
        world.schema
    );
    let held = "SELECT count(*) FILTER (WHERE state = 'idle in transaction' AND backend_xmin IS NULL AND backend_xid IS NULL), \
                count(*)";
    let locks = async || {
        let row = &world.rows(&format!("{held} {LOCKS}")).await[0];
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    until("both tables are led, and nothing is held back", locks, |seen| *seen == (2, 2)).await;
    let transactions = async || {
        let row = &world.rows(&sessions).await[0];
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    let none_waits = |(open, ended): &(i64, i64)| *open == 2 && *ended > 0;
    until("who leads nothing keeps no connection", transactions, none_waits).await;
    for round in 0..3 {
        let many = format!(
            "INSERT INTO outbox (event, order_id) SELECT 'e', 'o-{round}-' || n FROM generate_series(1, 500) n"
        );
        world.sql(&many).await;
        world.until_none_waits().await;
    }
    let mut seen = BTreeMap::new();
    let come = async || copies(&wire, &subscriber, &mut seen).await;
    let come = until("each event", come, |seen| seen.len() == 1_500).await;
    // What was not confirmed, or whose session has ended, may have come twice.
    let disturbed = ["the relay failed", "an event is refused or not confirmed"];
    let is_disturbed = workers.iter().any(|it| disturbed.iter().any(|text| it.logged(text) > 0));
    assert!(is_disturbed || come.values().all(|times| *times == 1), "each once");
    // The one that leads loses its transaction, and whoever leads then goes on.
    let outbox = format!("{LOCKS} AND classid = 'outbox'::regclass");
    let leader = format!("SELECT coalesce(max(pid), 0)::bigint {outbox}");
    for order in ["first", "second"] {
        let pid = until("one leads", async || world.number(&leader).await, |pid| *pid > 0).await;
        world.sql(&format!("SELECT pg_terminate_backend({pid})")).await;
        world.until_none("it has ended", &format!("FROM pg_stat_activity WHERE pid = {pid}")).await;
        write(&world, &[("e", order)]).await;
        world.until_none_waits().await;
    }
    for worker in &mut workers {
        worker.kill();
    }
    world.until_none("no lock is left with the pooler", LOCKS).await;
}

#[apply(world_test)]
async fn doctor_says_what_the_user_lacks_behind_a_pooler_in_either_mode() {
    let world = World::new().await;
    let Some(mut pooler) = Pooler::without_settings(&world).await else { return };
    let checks = |pooler: &Pooler| {
        let url = pooler.url();
        let run = world.overdue_with(&["doctor", "-o", "json"], &[("OVERDUE_DATABASE__URL", &url)]);
        let report = run.json();
        let of = |rule: &str| {
            let all = report["checks"].as_array().unwrap();
            let check = all.iter().find(|check| check["rule"] == rule).unwrap();
            format!("{} {} | {}", check["severity"], check["message"], check["fix"])
        };
        let shown = [of("pooler"), of("lock-timeout")].join("\n");
        shown.replace(&world.schema, "<user>")
    };
    insta::assert_snapshot!("lacks_all", checks(&pooler));
    world.sql(&pooler.settings(&world)).await;
    // Sessions of the server have what their user had when they were opened.
    pooler.restart(&world).await;
    insta::assert_snapshot!("lacks_nothing", checks(&pooler));
    pooler.in_session_mode(&world).await;
    insta::assert_snapshot!("lacks_nothing", checks(&pooler));
    let worker = world.behind(&pooler).await;
    write(&world, &[("e", "o")]).await;
    world.until_none_waits().await;
    worker.stopped().await;
}

/// As before `PgBouncer` 1.21: the first worker would work as long as it is alone with a session.
#[apply(world_test)]
async fn a_pooler_without_prepared_statements_is_refused_and_said_to_be_that() {
    let world = World::new().await;
    let Some(mut pooler) = Pooler::of(&world).await else { return };
    pooler.without_statements(&world).await;
    let url = pooler.url();
    let asked =
        |arguments: &[&str]| world.overdue_with(arguments, &[("OVERDUE_DATABASE__URL", &url)]);
    let says = "a pooler in transaction mode at ";
    asked(&["run"]).exits(78).reports(says);
    let doctor = asked(&["doctor"]).exits(2);
    let (_, login) = doctor.stdout.split_once("error    login").unwrap();
    // The finding and its fix.
    let said: Vec<&str> = login.lines().take(2).collect();
    assert!(said[0].contains(says) && !said.concat().contains("password"), "{doctor}");
}
