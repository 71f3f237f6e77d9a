//! The table `actions` records what people do; an action is carried out even if its record fails.

use crate::support::{World, ids, until, world::CLASSIC};

use super::parked::{all_back, furnished, ready};

/// Returns all records in order, without time and user.
async fn actions(world: &World) -> Vec<String> {
    let sql = "SELECT concat_ws(' | ', via, action, what, count, why, array_to_string(ARRAY(SELECT unnest(orders) ORDER BY 1), ' ')) FROM actions
               WHERE by = session_user ORDER BY id";
    world.rows(sql).await.iter().map(|row| row.get(0)).collect()
}

#[apply(world_test)]
async fn what_leaves_the_parking_lot_is_recorded_with_its_orders() {
    let world = furnished().await;
    // These commands change nothing.
    for arguments in [
        &["parked", "list"][..],
        &["parked", "replay"],
        &["parked", "replay", "--yes", "--order", "o-none"],
        &["parked", "drop", "--yes", "--order", "o-none", "--because", "test"],
    ] {
        world.overdue(arguments);
    }
    assert_eq!(actions(&world).await, [""; 0]);
    all_back(&world, 7).await;
    world.overdue(&["parked", "replay", "--yes", "--timeout", "unpaid"]).exits(0);
    let because = "typo of the\nshop";
    let drop = ["parked", "drop", "--yes", "--all", "--because", because];
    world.overdue(&drop).exits(0);
    insta::assert_snapshot!(actions(&world).await.join("\n"));
}

#[apply(world_test)]
async fn changes_of_the_topology_and_a_rebuild_are_recorded() {
    let world = World::bare(crate::support::Services::main(), CLASSIC).await;
    // Without the tables no record is expected.
    let run = world.overdue(&["apply", "--yes"]);
    assert_eq!((run.code, run.stderr.contains("not recorded")), (Some(0), false), "{run}");
    world.store.init(&world.schema, true).await.unwrap();
    // An apply without steps is not an action.
    world.overdue(&["apply", "--yes"]).exits(0);
    world.until_all_counted().await;
    world.overdue(&["remove", "--yes"]).exits(0);
    world.overdue(&["apply", "--yes"]).exits(0);
    world.orders("o", 3, 3_600_000).await;
    world.overdue(&["rebuild", "--yes"]).exits(0);
    let done = actions(&world).await;
    assert_eq!(done.len(), 3, "{done:?}");
    assert!(done[0].starts_with("cli | remove | topology orders at "), "{done:?}");
    assert!(done[1].starts_with("cli | apply | topology orders at "), "{done:?}");
    assert_eq!(done[2], "cli | rebuild | timeout unpaid | 3 | ");
}

/// The action is done even without its record.
#[apply(world_test)]
async fn what_cannot_be_recorded_is_done_and_the_log_says_why() {
    let world = World::new().await;
    world.sql("ALTER TABLE actions RENAME TO elsewhere").await;
    world.wire().await.publish_all("orders.park", "1s.unpaid", &ids("o", 2)).await;
    until("parked", async || ready(&world).await, |n| *n == 2).await;
    let run = world.overdue(&["parked", "drop", "--all", "--yes", "--because", "test"]);
    assert_eq!((run.code, ready(&world).await), (Some(0), 0), "{run}");
    assert!(run.stderr.contains("not recorded in the table actions"), "{run}");
    assert!(run.stderr.contains("run `overdue database init`"), "{run}");
    let gone = [("OVERDUE_DATABASE__URL", "postgres://postgres@127.0.0.1:1/postgres")];
    world.until_all_counted().await;
    let run = world.overdue_with(&["remove", "--yes", "--discard-waiting"], &gone).exits(0);
    assert!(run.stderr.contains("not recorded in the table actions"), "{run}");
    assert!(run.stderr.contains("127.0.0.1:1"), "{run}");
    // No database is configured.
    let run = world.overdue_with(
        &["apply", "--yes"],
        &[("OVERDUE_DATABASE__URL", "postgres://postgres@127.0.0.1:5432/postgres")],
    );
    assert_eq!((run.code, run.stderr.contains("not recorded")), (Some(0), false), "{run}");
}
