//! What the log says beside failures: that they are over, what was done, and which orders fail before they are parked.

use crate::support::World;

#[apply(world_test)]
async fn a_failure_that_is_over_is_said() {
    let world = World::new().await;
    let mut process = world.started(|_| {}).await;
    world.sql("ALTER TABLE outbox RENAME TO elsewhere").await;
    process.until_logged("the relay failed").await;
    world.sql("ALTER TABLE elsewhere RENAME TO outbox").await;
    process.until_logged("the relay works again").await;
    world.sql("ALTER TABLE scheduled_notices RENAME COLUMN due_at TO at").await;
    process.until_logged("scheduled notices cannot be published").await;
    world.sql("ALTER TABLE scheduled_notices RENAME COLUMN at TO due_at").await;
    process.until_logged("scheduled notices are published again").await;
}

/// One line for them all, and one a minute for what was done.
#[apply(world_test)]
async fn what_fails_is_named_before_it_is_parked_and_what_was_done_is_counted() {
    let world = World::new().await;
    let orders = world.orders("o", 20, 0).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'not this one'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.id IN ('o-3', 'o-7')) EXECUTE FUNCTION refuse()",
        )
        .await;
    let mut process = world.started(|_| {}).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    world.until_closed(18).await;
    process.until_logged("orders cannot be closed, each for a reason of its own").await;
    process.until_logged("not this one").await;
    process.until_logged("worked ").await;
    world.parked(2).await;
    process.signal("TERM");
    process.until_logged("worker stopped").await;
    let log = process.log();
    let failing = log.lines().position(|line| line.contains("each for a reason of its own"));
    let parked = log.lines().position(|line| line.contains("parked timeout=\"unpaid\""));
    assert!(failing.is_some() && parked.is_none_or(|parked| failing < Some(parked)), "{log}");
    assert!(log.contains(" parked=2 "), "{log}");
}
