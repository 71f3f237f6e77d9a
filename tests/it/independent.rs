//! A fault in one timeout's queue, effect or table affects no other timeout.

use crate::support::{Wire, WorkerProcess, World, orders::WRITTEN, samples, until};

fn two() -> String {
    let timeouts = [("unpaid", "100ms", "close"), ("unshipped", "500ms", "ship")];
    samples::orders("levels = ['100ms', '500ms']", &timeouts, "['100ms']")
}

/// Writes the second effect, with the text of a statement.
fn effect(world: &World, sql: &str) {
    std::fs::write(world.dir.path().join("ship.sql"), sql).unwrap();
    let settings = "[effects.ship]\nsql = \"ship.sql\"\n";
    std::fs::write(world.dir.path().join("overdue.toml"), settings).unwrap();
}

#[apply(world_test)]
async fn a_queue_that_is_removed_under_a_worker_stops_no_other_timeout() {
    let world = World::of(&two()).await;
    effect(&world, WRITTEN);
    let wire = world.wire().await;
    let mut process = world.started(|_| {}).await;
    world.publish_orders("100ms", "first", 20, 0).await;
    world.until_closed(20).await;

    world.delete("queues", "orders.unshipped").await;
    process.until_logged("this timeout lacks a queue").await;
    world.publish_orders("100ms", "second", 20, 0).await;
    world.until_closed(40).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    assert_eq!(process.logged("this timeout lacks a queue"), 1, "{}", process.log());

    // The queue is declared again, and the worker consumes it without a restart.
    world.apply(&world.topology).await;
    let third = world.orders("third", 20, 0).await;
    wire.publish_all("orders.dlx", "100ms.unshipped", &third).await;
    world.until_closed(60).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    assert_eq!(process.logged("worker ready"), 1, "{}", process.log());
    world.assert_invariants().await;
}

/// PostgreSQL refuses the literal at the prepare of the statement, with an SQLSTATE that looks like a row's fault.
#[apply(world_test)]
async fn an_effect_with_a_literal_that_its_type_no_longer_has_stops_only_its_own_timeouts() {
    let world = World::of(&two()).await;
    world.sql("CREATE TYPE way AS ENUM ('sea')").await;
    let condition = "asked.status = 'unpaid' AND ";
    assert!(WRITTEN.contains(condition));
    let by_land = format!("{condition}'land'::way IS NOT NULL AND ");
    effect(&world, &WRITTEN.replace(condition, &by_land));
    let wire = world.wire().await;
    let mut process = world.started(|_| {}).await;
    assert_eq!(process.logged("this effect cannot be used"), 1, "{}", process.log());
    let wrong = world.orders("wrong", 20, 0).await;
    wire.publish_all("orders.dlx", "100ms.unshipped", &wrong).await;
    process.until_logged("orders cannot be closed").await;
    world.publish_orders("100ms", "good", 20, 0).await;
    let left = async |prefix: &str| {
        let left = "SELECT count(*) FROM orders WHERE status = 'unpaid' AND id LIKE";
        world.number(&format!("{left} '{prefix}-%'")).await
    };
    until("the others closed", async || left("good").await, |left| *left == 0).await;
    world.sql("ALTER TYPE way RENAME VALUE 'sea' TO 'land'").await;
    until("all closed", async || left("wrong").await, |left| *left == 0).await;
    world.parked(0).await;
    assert!(process.is_running());

    // Without a valid effect the worker has no work, and a restart does not help.
    world.sql("ALTER TYPE way RENAME VALUE 'land' TO 'sea'").await;
    let settings = "[effects.ship]\nsql = \"ship.sql\"\n[effects.close]\nsql = \"ship.sql\"\n";
    std::fs::write(world.dir.path().join("overdue.toml"), settings).unwrap();
    world.overdue(&["run"]).exits(78);
}

/// The neighbour has any number of slow statements at the database: they wait for no lock with a time-out.
#[apply(world_test)]
async fn an_effect_whose_statements_take_long_leaves_connections_to_the_others() {
    let world = World::of(&two()).await;
    effect(&world, WRITTEN);
    let wire = world.wire().await;
    let mut client = world.store.client().await.unwrap();
    let stalled = world.stall(&mut client, "slow-0").await;
    world
        .sql(
            "CREATE TRIGGER stall_all BEFORE UPDATE ON orders FOR EACH ROW \
             WHEN (NEW.id LIKE 'slow-%' AND NEW.status = 'closed') EXECUTE FUNCTION stall()",
        )
        .await;
    let url = world.services.database_url(None);
    let more = if url.contains('?') { '&' } else { '?' };
    let without_end = format!("{url}{more}options=-c%20statement_timeout%3D0");
    let _process = world
        .started(|it| {
            it.env("OVERDUE_DATABASE__URL", without_end)
                .env("OVERDUE_DATABASE__CONNECTIONS", "6")
                .env("OVERDUE_WORKER__BATCH_SIZE", "1");
        })
        .await;
    let slow = world.orders_without_stock("slow", 20).await;
    wire.publish_all("orders.dlx", "500ms.unshipped", &slow).await;
    // Two of the three connections that close orders.
    let waiting = async || world.many_wait().await;
    until("all that it may have are at the database", waiting, |waiting| *waiting >= 2).await;
    let other = world.orders_without_stock("other", 1).await;
    world.publish("100ms", &other).await;
    world.until_closed(1).await;
    assert_eq!(world.status("other-0").await, "closed");
    stalled.rollback().await.unwrap();
    world.until_closed(21).await;
    world.assert_invariants().await;
}

/// A worker with this setting that may read and not write, and the grant that it lacks.
async fn read_only(world: &World, setting: &str, value: &str) -> (WorkerProcess, String) {
    let url = world.database_user().await;
    let user = &world.schema;
    let grant = format!(
        "GRANT ALL ON ALL TABLES IN SCHEMA {user} TO {user}; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA {user} TO {user}"
    );
    world.sql(&grant).await;
    let process =
        world.started(|it| _ = it.env("OVERDUE_DATABASE__URL", url).env(setting, value)).await;
    world.sql(&format!("REVOKE UPDATE ON orders FROM {user}")).await;
    (process, grant)
}

/// A worker that may read and not write, 200 messages of which it has some unacked, and the grant that it lacks.
async fn refused_writes(world: &World, wire: &Wire) -> (WorkerProcess, String) {
    let (process, grant) = read_only(world, "OVERDUE_WORKER__BATCH_SIZE", "20").await;
    let orders = world.orders("o", 200, 0).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    let ready = async || wire.ready("orders.unpaid").await;
    let failures = async || {
        assert!(wire.ready("orders.unpaid").await + 100 <= 200, "given back");
        process.logged("orders cannot be closed")
    };
    until("the prefetched ones taken", ready, |ready| *ready <= 100).await;
    until("four attempts", failures, |count| *count >= 4).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    assert_eq!(world.closed().await, 0);
    (process, grant)
}

/// A burst closes the waiting orders when the database accepts writes again, so no batch shows the recovery.
#[apply(world_test)]
async fn after_an_outage_that_a_burst_has_ended_messages_are_received() {
    let (world, wire) = World::new().await.wired().await;
    let (process, grant) = read_only(&world, "OVERDUE_WORKER__SWEEP_EVERY", "1h").await;
    // More than twice the orders that begin a burst.
    let orders = world.orders_without_stock("o", 1_500).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    wire.until_ready("orders.unpaid", 0).await;
    let failures = async || process.logged("orders cannot be closed");
    until("an attempt", failures, |count| *count >= 1).await;
    world.sql(&grant).await;
    world.until_closed(1_500).await;
    let one = world.orders_without_stock("another", 1).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &one).await;
    world.until_closed(1_501).await;
    world.until_empty("orders.unpaid").await;
}

/// No worker requeues messages meanwhile: before RabbitMQ 4.3 each requeue counts towards the delivery limit.
#[apply(world_test)]
async fn while_the_database_refuses_writes_messages_are_kept_and_none_is_parked() {
    let (world, wire) = World::new().await.wired().await;
    let (mut process, grant) = refused_writes(&world, &wire).await;
    world.sql(&grant).await;
    world.until_closed(200).await;
    world.until_empty("orders.unpaid").await;
    process.stops().await;
    assert!(process.log().contains("retried=0 parked=0"), "{}", process.log());
    world.parked(0).await;
    world.assert_invariants().await;
}
