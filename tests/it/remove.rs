//! `overdue remove`, on real services: all objects of a topology, no others, and no waiting message.

use overdue::internals::topology::Topology;
use serde_json::json;

use crate::support::{
    Run, World,
    process::finish,
    samples::{HALF_HOUR, TWO_TIMEOUTS},
    until,
};

/// Creates a neighbour in the same virtual host, whose name begins with ours, with a message in a level.
async fn with_a_neighbour(world: &World) -> Topology {
    let theirs = TWO_TIMEOUTS.replace("\"orders\"", "\"orders.eu\"");
    let theirs = Topology::parse(&theirs).unwrap();
    world.apply(&theirs).await;
    world.publish_to("orders.eu.in", "30m.unpaid", 1).await;
    world.queue("orders.refunds", json!({})).await;
    theirs
}

#[apply(world_test)]
async fn all_of_a_topology_goes_and_its_neighbours_stay() {
    let world = World::empty().await;
    let theirs = with_a_neighbour(&world).await;
    let alone = world.own_objects().await;
    world.apply(&world.topology).await;
    let wire = world.wire().await;
    wire.bind("orders.refunds", "orders.events", "#").await;
    world.until_all_counted().await;
    world.overdue(&["remove"]).exits(64);
    insta::assert_snapshot!(world.shown(&world.overdue(&["remove", "--yes"]).exits(0)));
    assert_eq!(world.own_objects().await, alone);
    assert_eq!(wire.ready(&format!("{}.delay.30m", theirs.name)).await, 1);
    insta::assert_snapshot!("again", world.shown(&world.overdue(&["remove"]).exits(0)));
}

/// Removal is refused while a worker runs, and while there are messages without the consent to lose them.
#[apply(world_test)]
async fn what_is_in_use_or_holds_messages_is_refused() {
    let world = World::new().await;
    world.publish_to("orders.in", "30m.unpaid", 3).await;
    world.until_all_counted().await;
    let mut worker = world.started(|_| {}).await;
    let before = world.own_objects().await;
    let used = world.overdue(&["remove", "--yes", "--discard-waiting"]).exits(1);
    assert!(used.stdout.contains("orders.unpaid is consumed"), "{used}");
    worker.kill();
    let refused = async || world.overdue(&["remove", "--yes"]);
    let refused =
        until("the consumer gone", refused, |it| !it.stdout.contains("is consumed")).await.exits(1);
    insta::assert_snapshot!(world.shown(&refused));
    assert_eq!(world.own_objects().await, before);
    let lost = world.overdue(&["remove", "--yes", "--discard-waiting", "-o", "json"]);
    assert_eq!((lost.code, &lost.json()["left"]), (Some(0), &json!([])), "{lost}");
    assert!(world.own_objects().await.queues.is_empty());
}

/// The user's tables and the functions that they need are not dropped.
#[apply(world_test)]
async fn the_tables_go_on_request_and_the_users_stay() {
    let world = World::new().await;
    let orders = world.orders("o", 1, 0).await;
    let trigger = "CREATE TRIGGER later AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION schedule_row('unpaid', 'id', 'due_at')";
    world
        .sql(&format!(
            "{trigger}; INSERT INTO outbox (event, order_id) VALUES ('order.closed', '{}')",
            orders[0]
        ))
        .await;
    world.until_all_counted().await;
    let remove = ["remove", "--tables", "--yes"];
    insta::assert_snapshot!("tables_with_rows", world.shown(&world.overdue(&remove).exits(1)));
    world.sql("DELETE FROM outbox").await;
    world.overdue(&remove).exits(1).reports("trigger later on table orders depends on");
    assert!(world.own_objects().await.queues.is_empty());
    world.sql("DROP TRIGGER later ON orders").await;
    let removed = world.overdue(&remove).exits(0);
    let left = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'S')
                    AND relname NOT IN ('orders', 'order_items', 'stock')";
    assert_eq!(world.number(left).await, 0, "{removed}");
    let left = "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
                    AND proname <> 'orders_refuse_transition'";
    assert_eq!(world.number(left).await, 0, "{removed}");
    assert_eq!(world.number("SELECT count(*) FROM orders").await, 1);
}

/// The command refuses before it deletes any object.
#[apply(world_test)]
async fn tables_of_another_topology_stay() {
    let world = World::new().await;
    world.store.register_timeouts("orders", &[("unpaid", HALF_HOUR)]).await.unwrap();
    world
        .store
        .register_timeouts("returns", &[("unclaimed", HALF_HOUR), ("unsent", HALF_HOUR)])
        .await
        .unwrap();
    world.until_all_counted().await;
    let before = world.own_objects().await;
    let remove = ["remove", "--tables", "--yes"];
    let shared = world.overdue(&remove).exits(1);
    insta::assert_snapshot!(world.shown(&Run { stdout: String::new(), ..shared }));
    assert_eq!(world.own_objects().await, before);
    // The refusal names this statement.
    world.sql("DELETE FROM schedule_timeouts WHERE topology = 'returns'").await;
    world.overdue(&remove).exits(0);
}

/// A user's table with one of our names.
#[apply(world_test)]
async fn a_table_that_has_only_the_name_is_not_dropped() {
    for theirs in [
        "DROP TABLE outbox; CREATE TABLE outbox (id bigint PRIMARY KEY, payload jsonb NOT NULL)",
        "ALTER TABLE outbox ADD COLUMN shop text",
        "DROP TABLE outbox; CREATE VIEW outbox AS SELECT 1::bigint AS id, '' AS event, '' AS order_id, now() AS created_at",
    ] {
        let world = World::new().await;
        world.sql(theirs).await;
        world.until_all_counted().await;
        let before = world.own_objects().await;
        let refused = world.overdue(&["remove", "--tables", "--yes", "--discard-waiting"]).exits(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                "a_table_that_has_only_the_name",
                world.shown(&Run { stdout: String::new(), ..refused })
            );
        }
        assert_eq!(world.own_objects().await, before);
        assert_eq!(
            world.number("SELECT count(*) FROM pg_class WHERE oid = 'outbox'::regclass").await,
            1
        );
        assert_eq!(world.number("SELECT count(*) FROM closures").await, 0);
    }
}

/// Removes the tables while a transaction that changes the outbox is open.
async fn removed_during(world: &World, change: &str) -> Run {
    let mut client = world.store.client().await.unwrap();
    let writer = client.transaction().await.unwrap();
    writer.batch_execute(change).await.unwrap();
    let remove = world.command(&["remove", "--tables", "--yes", "--discard-waiting"]);
    let removing = std::thread::spawn(|| finish(remove, None));
    world.until_somebody_waits().await;
    writer.commit().await.unwrap();
    removing.join().unwrap()
}

/// The tables are dropped with the rows that were shown, or with none.
#[apply(world_test)]
async fn rows_that_are_written_after_the_question_are_not_lost() {
    let world = World::new().await;
    world.until_all_counted().await;
    let event = "INSERT INTO outbox (event, order_id) VALUES ('order.closed', 'o')";
    insta::assert_snapshot!(world.shown(&removed_during(&world, event).await.exits(1)));
    assert_eq!(world.number("SELECT count(*) FROM outbox").await, 1);
    removed_during(&world, "DELETE FROM outbox").await.exits(0).prints("dropped 10 tables");
}

#[apply(world_test)]
async fn tables_that_a_transaction_uses_stay() {
    let world = World::new().await;
    world.until_all_counted().await;
    let mut client = world.store.client().await.unwrap();
    let reader = client.transaction().await.unwrap();
    reader.query("SELECT FROM outbox", &[]).await.unwrap();
    let used = world.overdue(&["remove", "--tables", "--yes"]).exits(1);
    let said = "a transaction uses one of the tables, and none of them was dropped";
    assert!(used.stderr.contains(said), "{used}");
    reader.rollback().await.unwrap();
    assert_eq!(world.number("SELECT count(*) FROM outbox").await, 0);
}
