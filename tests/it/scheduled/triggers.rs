//! A timeout is removed while triggers schedule notices for it.

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

/// A former defect made each later payment fail.
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

/// Includes triggers of a partitioned table; a timeout of another topology continues.
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

/// A user without the right to drop them gets an error before any change.
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

/// A column without a time zone: the trigger uses the zone of the session, or the zone that it names.
#[apply(world_test)]
async fn a_deadline_without_a_time_zone_is_read_in_the_zone_of_its_trigger() {
    let world = World::of_tables().await;
    init(&world, ALL, &INIT).exits(0);
    world
        .sql(
            "CREATE TABLE purchase (no bigint, \"Pay until\" timestamp);
             CREATE TRIGGER made AFTER INSERT ON purchase FOR EACH ROW
             EXECUTE FUNCTION schedule_row('unpaid', 'no', 'Pay until')",
        )
        .await;
    let zones = [
        ("Asia/Tokyo", "9h early if the column has UTC"),
        ("America/New_York", " late if the column has UTC"),
    ];
    let written = async |zone: &str| {
        // Winter, and a time that does not exist in New York: the clock leaps from 2 to 3.
        let insert = format!(
            "SET LOCAL TimeZone = '{zone}';
             INSERT INTO purchase VALUES (1, '2027-01-15 17:00'), (2, '2027-03-14 02:30'), (3, NULL), (4, 'infinity')"
        );
        world.sql(&format!("BEGIN; {insert}; COMMIT")).await;
        let due = "SELECT order_id || ' ' || to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') FROM scheduled_notices ORDER BY id";
        let due = world.texts(due).await;
        world.sql("DELETE FROM scheduled_notices").await;
        due
    };
    assert_eq!(written("Asia/Tokyo").await, ["1 2027-01-15 08:00", "2 2027-03-13 17:30"]);
    assert_eq!(written("America/New_York").await, ["1 2027-01-15 22:00", "2 2027-03-14 07:30"]);

    for (zone, off) in zones {
        let url = world.services.database_url(None);
        let more = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{more}options=-c%20TimeZone%3D{zone}");
        let database = [("OVERDUE_DATABASE__URL", url.as_str())];
        let said = world.overdue_with(&["doctor"], &database).stdout;
        let finding = format!(
            "the trigger made on purchase reads \"Pay until\" (timestamp without time zone) in the time zone of the session that \
             writes the row: {zone} here, "
        );
        assert!(said.contains(&finding), "{said}");
        assert!(said.contains(off), "{said}");
        let run = world.overdue_with(&INIT, &database).exits(0);
        assert!(
            run.stdout
                .contains("leaves a trigger without a time zone: the trigger made on purchase"),
            "{run}"
        );
    }

    let run = world.overdue(&INIT).exits(0);
    let (_, write) = run.stdout.split_once("for UTC: ").unwrap();
    let write = write.lines().next().unwrap();
    assert!(write.starts_with("CREATE OR REPLACE TRIGGER made AFTER INSERT ON "), "{write}");
    world.sql(write).await;
    for zone in ["Asia/Tokyo", "America/New_York", "UTC"] {
        assert_eq!(written(zone).await, ["1 2027-01-15 17:00", "2 2027-03-14 02:30"], "{zone}");
    }
    assert!(!world.overdue(&INIT).stdout.contains("without a time zone"));
    // If the column has a zone, the argument has no effect.
    world.sql("ALTER TABLE purchase ALTER \"Pay until\" TYPE timestamptz USING \"Pay until\" AT TIME ZONE 'UTC'").await;
    assert_eq!(written("Asia/Tokyo").await, ["1 2027-01-15 08:00", "2 2027-03-13 17:30"]);
}
