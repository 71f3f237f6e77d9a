//! A timeout that is removed while triggers schedule for it.

use std::fs;

use crate::support::{World, process::Run, samples::HALF_HOUR, world::TOPOLOGY};

/// The timeouts `unpaid`, `unshipped` and `unconfirmed`.
const ALL: &str = include_str!("../../../topology.toml");
const INIT: [&str; 3] = ["database", "init", "--yes"];
const INIT_WITH_TRIGGERS: [&str; 4] = ["database", "init", "--yes", "--trigger"];

fn init(world: &World, topology: &str, command: &[&str]) -> Run {
    fs::write(world.topology_file(), topology).unwrap();
    world.overdue(command)
}

async fn known(world: &World) -> i64 {
    world.rows_of("schedule_timeouts WHERE removed_at IS NULL").await
}

/// Before, each payment failed from then on.
#[apply(world_test)]
async fn the_triggers_of_the_reference_tables_go_with_their_timeouts() {
    let world = World::of_tables().await;
    let run = init(&world, ALL, &INIT_WITH_TRIGGERS);
    assert_eq!((run.code, known(&world).await), (Some(0), 3), "{run}");
    world.orders("o", 1, 60_000).await;
    let run = init(&world, TOPOLOGY, &INIT);
    assert_eq!((run.code, known(&world).await), (Some(0), 1), "{run}");
    for dropped in ["new_paid", "changed_paid", "new_shipped", "changed_shipped"] {
        let said = format!("drops the trigger schedule_{dropped} on orders");
        assert!(run.stdout.contains(&said), "{run}");
    }
    assert_eq!(run.stdout.matches("drops the trigger").count(), 4, "{run}");
    assert!(world.pay("o-0").await);
    world.orders("next", 1, 60_000).await;
    let rows = world.texts("SELECT order_id || ' ' || timeout FROM scheduled_notices ORDER BY 1");
    assert_eq!(rows.await, ["next-0 unpaid", "o-0 unpaid"]);
}

#[apply(world_test)]
async fn the_triggers_of_the_reference_tables_get_the_new_name_of_their_timeout() {
    let world = World::of_tables().await;
    init(&world, TOPOLOGY, &INIT_WITH_TRIGGERS).exits(0);
    let renamed = TOPOLOGY.replace("\"unpaid\"", "\"unbought\"");
    let run = init(&world, &renamed, &INIT_WITH_TRIGGERS);
    assert_eq!((run.code, known(&world).await), (Some(0), 1), "{run}");
    assert!(!run.stdout.contains("drops the trigger"), "{run}");
    world.orders("o", 1, 60_000).await;
    assert_eq!(world.rows_of("scheduled_notices WHERE timeout = 'unbought'").await, 1);

    let run = init(&world, TOPOLOGY, &INIT);
    assert_eq!((run.code, known(&world).await), (Some(0), 1), "{run}");
    for dropped in ["new_unpaid", "changed_unpaid"] {
        let said = format!(
            "drops the trigger schedule_{dropped} on orders, which would fail; with --trigger it gets the timeout `unpaid`"
        );
        assert!(run.stdout.contains(&said), "{run}");
    }
}

/// Of a partitioned table, too; where another topology has the timeout, it goes on.
#[apply(world_test)]
async fn a_timeout_that_a_trigger_of_others_calls_is_not_removed() {
    let world = World::of_tables().await;
    init(&world, ALL, &INIT).exits(0);
    world
        .sql(
            "CREATE TABLE \"Purchase\" (no bigint, pay_until timestamptz) PARTITION BY RANGE (no);
             CREATE TABLE purchase_1 PARTITION OF \"Purchase\" FOR VALUES FROM (0) TO (1000);
             CREATE TRIGGER made AFTER INSERT ON \"Purchase\" FOR EACH ROW
             EXECUTE FUNCTION schedule_row('unshipped', 'no', 'pay_until')",
        )
        .await;
    let purchase = "INSERT INTO \"Purchase\" VALUES (1, now())";
    let run = init(&world, TOPOLOGY, &INIT);
    assert_eq!((run.code, known(&world).await), (Some(78), 3), "{run}");
    assert!(run.stderr.contains("DROP TRIGGER made ON \"Purchase\";  -- `unshipped`"), "{run}");
    assert_eq!(run.stderr.matches("DROP TRIGGER").count(), 1, "{run}");
    world.sql(purchase).await;

    world.store.register_timeouts("returns", &[("unshipped", HALF_HOUR)]).await.unwrap();
    let run = init(&world, TOPOLOGY, &INIT);
    assert_eq!((run.code, known(&world).await), (Some(0), 2), "{run}");
    world.sql(purchase).await;

    world.sql("UPDATE schedule_timeouts SET removed_at = now() WHERE topology = 'returns'").await;
    let run = init(&world, TOPOLOGY, &INIT);
    assert_eq!((run.code, known(&world).await), (Some(0), 1), "it was removed before: {run}");
    assert!(run.stdout.contains("leaves a trigger that fails"), "{run}");
    world.sql("ALTER TABLE \"Purchase\" DISABLE TRIGGER made").await;
    let run = init(&world, TOPOLOGY, &INIT);
    assert_eq!((run.code, known(&world).await), (Some(0), 1), "{run}");
    assert!(!run.stdout.contains("leaves"), "{run}");
}

/// Who may not drop them is told so before anything is changed.
#[apply(world_test)]
async fn triggers_on_a_table_of_another_role_are_not_dropped() {
    let world = World::of_tables().await;
    init(&world, ALL, &INIT_WITH_TRIGGERS).exits(0);
    let (url, schema) = (world.database_user().await, &world.schema);
    world.sql(&format!("GRANT SELECT ON schedule_timeouts TO {schema}")).await;
    fs::write(world.topology_file(), TOPOLOGY).unwrap();
    let run = world.overdue_with(&INIT, &[("OVERDUE_DATABASE__URL", url.as_str())]);
    assert_eq!((run.code, known(&world).await), (Some(78), 3), "{run}");
    let drop = "DROP TRIGGER schedule_changed_paid ON orders;  -- `unshipped`";
    assert!(run.stderr.contains(drop), "{run}");
}
