//! History is bounded: the worker deletes old rows of `closures`, `dropped_messages` and `actions`, and no order waits for that.

use overdue::internals::config::WorkerSettings;

use crate::support::{
    World,
    statements::found,
    until,
    worker::{millis, settings},
};

fn keeping(keep: &str) -> WorkerSettings {
    WorkerSettings { keep_history: millis(keep), sweep_every: millis("50ms"), ..settings() }
}

/// Inserts rows that are 100 days old, of `old` orders each, between young ones.
async fn furnished(world: &World, old: u32, young: u32) {
    world
        .sql(&format!(
            "INSERT INTO closures (order_id, effect, path, due_at, closed_at)
             SELECT 'c-' || n, 'close', 'message', now() - age, now() - age
             FROM generate_series(1, {old} + {young}) n,
                  LATERAL (SELECT CASE WHEN n <= {old} THEN interval '100 days' ELSE interval '80 days' END AS age) AS aged
             ORDER BY n % 7, n;
             INSERT INTO dropped_messages (because, queue, routing_key, parked_because, body_bytes, dropped_at)
             SELECT 'test', 'orders.parked', 'k', 'test', 0, now() - CASE WHEN n % 2 = 0 THEN interval '100 days' ELSE interval '80 days' END
             FROM generate_series(1, 100) n;
             INSERT INTO actions (via, action, what, at)
             SELECT 'cli', 'test', 'test', now() - CASE WHEN n % 2 = 0 THEN interval '100 days' ELSE interval '80 days' END
             FROM generate_series(1, 100) n"
        ))
        .await;
}

/// Counts old rows of `closures`, and young ones; then the old rows of the other two tables.
async fn rows(world: &World) -> [i64; 4] {
    let count = |table: &'static str, column: &'static str, age: &'static str| {
        format!("SELECT count(*) FROM {table} WHERE {column} {age} now() - interval '90 days'")
    };
    [
        world.number(&count("closures", "closed_at", "<")).await,
        world.number(&count("closures", "closed_at", ">=")).await,
        world.number(&count("dropped_messages", "dropped_at", "<")).await
            + world.number(&count("actions", "at", "<")).await,
        world.number(&count("dropped_messages", "dropped_at", ">=")).await
            + world.number(&count("actions", "at", ">=")).await,
    ]
}

async fn until_rows(world: &World, expected: [i64; 4]) {
    until("old rows are gone", async || rows(world).await, |seen| *seen == expected).await;
}

/// More rows than a statement deletes, and two workers that both delete.
#[apply(world_test)]
async fn rows_that_are_older_than_they_are_kept_go_and_the_others_stay() {
    let world = World::new().await;
    furnished(&world, 12_000, 3_000).await;
    let workers = [world.worker_with(keeping("90d")), world.worker_with(keeping("90d"))];
    until_rows(&world, [0, 3_000, 0, 100]).await;
    // The worker also deletes rows that become old later.
    furnished(&world, 500, 10).await;
    until_rows(&world, [0, 3_010, 0, 200]).await;
    for worker in workers {
        assert!(worker.is_running());
        worker.stop().await;
    }
}

/// The worker has swept several times before the check.
#[apply(world_test)]
async fn with_zero_everything_stays() {
    let world = World::new().await;
    furnished(&world, 50, 50).await;
    let sweeping = WorkerSettings { sweep_grace: millis("1ms"), ..keeping("0s") };
    let worker = world.worker_with(sweeping);
    for round in 1..=3_usize {
        world.orders(&format!("lost{round}"), 1, -1_000).await;
        world.until_closed(round).await;
    }
    assert_eq!(rows(&world).await, [50, 53, 100, 100]);
    worker.stop().await;
}

/// The clock is wrong from the start, as after a failover to another machine: the worker has seen no leap.
#[apply(world_test)]
async fn what_is_old_by_a_clock_that_was_wrong_from_the_start_stays() {
    let world = World::clocked().await;
    world.clock().advance("91 days 1 h").await;
    furnished(&world, 300, 20).await;
    // These rows are old by any clock.
    world
        .sql(
            "UPDATE closures SET closed_at = now() - interval '200 days' WHERE order_id = 'c-1';
             UPDATE dropped_messages SET dropped_at = now() - interval '200 days' WHERE id = (SELECT min(id) FROM dropped_messages);
             UPDATE actions SET at = now() - interval '200 days' WHERE id = (SELECT min(id) FROM actions)",
        )
        .await;
    let worker = world.worker_with(keeping("90d"));
    let old = "SELECT (SELECT count(*) FROM closures WHERE closed_at < now() - interval '150 days')
                    + (SELECT count(*) FROM dropped_messages WHERE dropped_at < now() - interval '150 days')
                    + (SELECT count(*) FROM actions WHERE at < now() - interval '150 days')";
    until("old rows are gone", async || world.number(old).await, |rows| *rows == 0).await;
    let left = rows(&world).await;
    assert_eq!((left[0], left[1], left[2] + left[3]), (299, 20, 198));
    worker.stop().await;
}

/// Another session locks every row: orders are closed anyway, and the rows are deleted when they are free.
#[apply(world_test)]
async fn rows_that_somebody_holds_hold_up_nothing() {
    let world = World::new().await;
    furnished(&world, 300, 20).await;
    let mut holding = world.store.client().await.unwrap();
    let transaction = holding.transaction().await.unwrap();
    transaction.execute("SELECT FROM closures FOR UPDATE", &[]).await.unwrap();
    let mut worker = world.started(|it| _ = it.env("OVERDUE_WORKER__SWEEP_EVERY", "50ms")).await;
    worker.until_logged("old rows cannot be deleted").await;
    world.publish_orders("200ms", "o", 50, 200).await;
    world.until_closed(50).await;
    until_rows(&world, [300, 70, 0, 100]).await;
    transaction.rollback().await.unwrap();
    until_rows(&world, [0, 70, 0, 100]).await;
    // A repeated reason is logged once.
    let log = worker.log();
    let lines = log.lines().filter_map(|line| line.split_once("old rows cannot be deleted"));
    let reasons: Vec<&str> = lines.map(|(_, reason)| reason).collect();
    assert!(reasons.windows(2).all(|pair| pair[0] != pair[1]), "{log}");
    world.assert_invariants().await;
}

/// The user may only insert into `closures`.
#[apply(world_test)]
async fn without_the_right_to_delete_orders_are_closed_and_doctor_says_what_to_grant() {
    let world = World::new().await;
    furnished(&world, 50, 50).await;
    let url = world.database_user().await;
    let schema = &world.schema;
    world
        .sql(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema};
             REVOKE DELETE ON closures FROM {schema}"
        ))
        .await;
    let mut worker = world
        .started(|it| {
            _ = it.env("OVERDUE_DATABASE__URL", &url).env("OVERDUE_WORKER__SWEEP_EVERY", "50ms");
        })
        .await;
    worker.until_logged("old rows cannot be deleted").await;
    world.publish_orders("200ms", "o", 20, 200).await;
    world.until_closed(20).await;
    let log = worker.log();
    assert!(log.contains("permission denied for table closures"), "{log}");
    let doctor = world.overdue_with(&["doctor"], &[("OVERDUE_DATABASE__URL", url.as_str())]);
    assert!(doctor.stdout.contains("lacks DELETE on closures"), "{doctor}");
    assert!(doctor.stdout.contains("GRANT DELETE ON closures"), "{doctor}");
    world.sql(&format!("GRANT DELETE ON closures TO {schema}")).await;
    let old = async || rows(&world).await[0];
    until("old rows are gone", old, |old| *old == 0).await;
}

#[apply(world_test)]
async fn the_index_by_time_finds_old_rows() {
    let world = World::of_tables().await;
    furnished(&world, 100, 5_000).await;
    let client = world.store.client().await.unwrap();
    let sql = found(include_str!("../../sql/history_closures.sql"));
    client
        .batch_execute("ANALYZE closures; SET plan_cache_mode = force_generic_plan")
        .await
        .unwrap();
    client.batch_execute(&format!("PREPARE history AS {sql}")).await.unwrap();
    let explain = "EXPLAIN EXECUTE history (now(), 7776000000, 10000)";
    let rows = client.query(explain, &[]).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(
        plan.iter().any(|line| line.contains("Index Scan using closures_by_time")),
        "{plan:#?}"
    );
    assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{plan:#?}");
}
