//! Rows that stay: they cannot be deleted, or the broker does not take their notices. They are not published again and again, and
//! hold up no others.

use overdue::internals::topology::route::Delay;
use serde_json::json;

use super::{LADDER, order_of, published};
use crate::support::{World, until};

#[apply(world_test)]
async fn rows_that_are_locked_or_cannot_be_deleted_are_published_once_and_hold_up_no_others() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    world
        .sql(
            "INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('a b', 'unpaid', now());
             SELECT schedule('o-' || n, 'unpaid', '40 minutes') FROM generate_series(1, 2500) n;
             CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN IF OLD.order_id = 'o-9' THEN RETURN NULL; END IF; RAISE 'never'; END $$;
             CREATE TRIGGER keep BEFORE DELETE ON scheduled_notices FOR EACH ROW
             WHEN (OLD.order_id IN ('o-7', 'o-9')) EXECUTE FUNCTION keep()",
        )
        .await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    let lock = "SELECT FROM scheduled_notices WHERE order_id IN ('a b', 'o-20') FOR UPDATE";
    assert_eq!(held.execute(lock, &[]).await.unwrap(), 2);
    let worker = world.worker();
    let left = async || world.unpublished().await;
    until("four rows left", left, |left| *left == 4).await;
    for n in 2_501..2_504 {
        world.sql(&format!("SELECT schedule('o-{n}', 'unpaid', '40 minutes')")).await;
        until("four rows left", left, |left| *left == 4).await;
    }
    held.rollback().await.unwrap();
    until("two rows left", left, |left| *left == 2).await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_notices_refused").await, 1);
    worker.stop().await;
    let mut orders: Vec<String> = published(&wire, &along).await.iter().map(order_of).collect();
    assert_eq!(orders.len(), 2_503, "each once");
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 2_503);
}

const NOT_TAKEN: &str = "scheduled notices are not taken by the broker";

/// Before, all of them were published again each second.
#[apply(world_test)]
async fn notices_that_a_full_level_refuses_are_tried_one_at_a_time() {
    const NOTICES: usize = 300;
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    world.policy("policies", "full", r"^orders\.delay\.30m$", json!({ "max-length": 5 })).await;
    world.until_policy("orders.delay.30m", "full").await;
    let mut process = world.started(|_| {}).await;
    let many = |count| {
        format!("SELECT schedule(n, 'unpaid', '40 minutes') FROM generate_series(1, {count}) n")
    };
    world.sql(&many(10)).await;
    // The broker may take all ten before it knows that the queue is full, and may refuse the last ones.
    let answered = async || (world.unpublished().await, process.logged(NOT_TAKEN));
    until("ten answers", answered, |(left, refused)| *left == 0 || *refused > 0).await;
    let along = wire.listen("orders.again", "30m.#").await;
    world.sql(&many(NOTICES)).await;
    until("a notice that is tried", async || wire.ready(&along).await, |tried| *tried > 0).await;
    process.until_logged(NOT_TAKEN).await;
    for n in 0..5 {
        world.sql(&format!("SELECT schedule('other-{n}', 'unpaid', '3 s')")).await;
        let other = format!("SELECT count(*) FROM scheduled_notices WHERE order_id = 'other-{n}'");
        until("the other one published", async || world.number(&other).await, |it| *it == 0).await;
    }
    let tried = published(&wire, &along).await.len();
    // As many as may be without a confirm at once, and then one at a time.
    assert!((1..NOTICES).contains(&tried), "{tried}");
    world.delete("policies", "full").await;
    world.until_published().await;
}

/// The same digit of another place is another queue.
#[apply(world_test)]
async fn a_full_queue_of_a_ladder_holds_up_only_what_enters_there() {
    let world = World::of(LADDER).await;
    world.knows_timeouts().await;
    let delay = Delay::after("35m").unwrap();
    let full = world.topology.route("unpaid", &delay).unwrap().queues.remove(0);
    let pattern = format!("^{}$", full.replace('.', r"\."));
    world.policy("policies", "full", &pattern, json!({ "max-length": 5 })).await;
    world.until_policy(&full, "full").await;
    let mut process = world.started(|_| {}).await;
    world.sql("SELECT schedule(n, 'unpaid', '35 min') FROM generate_series(1, 300) n").await;
    process.until_logged(NOT_TAKEN).await;
    for n in 0..5 {
        world.sql(&format!("SELECT schedule('other-{n}', 'unpaid', '3 min 30 s')")).await;
        let other = format!("SELECT count(*) FROM scheduled_notices WHERE order_id = 'other-{n}'");
        until("the other one published", async || world.number(&other).await, |it| *it == 0).await;
    }
    assert!(world.unpublished().await > 0);
}

/// RabbitMQ says so: nothing looks at the levels. Before, they were confirmed, and parked.
#[apply(world_test)]
async fn notices_for_a_level_that_is_gone_take_another_one_and_none_is_parked() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "2s.unpaid").await;
    let process = world.started(|_| {}).await;
    world.sql("SELECT schedule('first', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    for exchange in ["orders.in", "orders.again"] {
        world.unbind(exchange, "orders.delay.30m", "30m.*").await;
    }
    world.orders("o", 5, 2_400_000).await;
    world.schedule_all("unpaid").await;
    world.until_published().await;
    let mut orders: Vec<String> = wire.take_many(&along, 5).await.iter().map(order_of).collect();
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 5);
    assert_eq!(wire.ready("orders.parked").await, 0);
    assert_eq!(process.logged("not taken by the broker"), 0, "{}", process.log());
}
