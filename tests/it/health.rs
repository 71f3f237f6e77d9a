//! `/readyz`, `/livez` and `overdue health`: a worker's reports about itself.

use std::net::SocketAddr;

use crate::{
    bad_rows::refuse,
    support::{
        Proxy, World,
        pages::{Page, get, metrics, sum},
        until,
    },
};

pub(super) async fn until_ready(address: SocketAddr) -> Page {
    until("ready", async || get(address, "/readyz").await, |page| page.status == 200).await
}

pub(super) async fn until_not_ready(address: SocketAddr, because: &str) -> Page {
    let what = format!("not ready: {because}");
    let page = until(
        &what,
        async || get(address, "/readyz").await,
        |page| page.status == 503 && page.first().starts_with(&what),
    );
    page.await
}

#[apply(world_test)]
async fn a_worker_that_works_is_ready_and_live() {
    let world = World::new().await;
    let (mut process, address) = world.listening(|_| {}).await;
    let page = until_ready(address).await;
    assert_eq!(
        page.body,
        "ready\ndatabase   ok\nbroker     ok\nconsuming  ok\nclosing    ok\nlevels     ok\n"
    );
    assert_eq!(get(address, "/livez").await.body, "live\n");
    let listen = address.to_string();
    let asked = world.overdue_with(&["health"], &[("OVERDUE_WORKER__LISTEN", &listen)]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), "ready\n"), "{asked}");
    let asked = world.overdue(&["health", "--live", "--listen", &listen]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), "live\n"), "{asked}");
    process.kill();
    let asked = world.overdue(&["health", "--listen", &listen, "-o", "json"]);
    assert_eq!((asked.code, &asked.json()["ok"]), (Some(1), &false.into()), "{asked}");
    let nobody = format!("error: no worker answers at {listen}: ");
    assert!(asked.stderr.starts_with(&nobody), "{asked}");
    world.overdue(&["health"]).exits(78).reports("worker.listen is empty");
}

/// All connections work, and no order is closed: no message arrived, and the sweep is off.
#[apply(world_test)]
async fn a_worker_that_closes_nothing_while_orders_are_overdue_is_not_ready() {
    let world = World::new().await;
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
        })
        .await;
    until_ready(address).await;
    let lost = world.orders("lost", 1, -500).await;
    let page =
        until_not_ready(address, "closing: effect close: an order has been overdue for ").await;
    assert!(page.body.contains("\nbroker     ok\n"), "{}", page.body);
    let asked = world.overdue(&["health", "--listen", &address.to_string()]).exits(1);
    assert!(asked.stderr.starts_with("error: not ready: closing: "), "{asked}");
    // Another order is closed in time: a single overdue order does not prove that the worker is stuck.
    world.publish_orders("100ms", "o", 1, 100).await;
    world.until_closed(1).await;
    until_ready(address).await;
    // Afterwards no order is closed.
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH STATEMENT EXECUTE FUNCTION refuse()",
        )
        .await;
    let later = world.publish_orders("100ms", "later", 3, 100).await;
    until_not_ready(address, "closing: ").await;
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.publish("100ms", &[lost, later].concat()).await;
    until_ready(address).await;
}

/// The number of closed orders is a separate figure, whose query waits for the lock.
#[apply(world_test)]
async fn a_worker_that_closes_nothing_since_closures_is_locked_is_not_ready() {
    let world = World::new().await;
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "24h");
        })
        .await;
    until_ready(address).await;
    let mut client = world.store.client().await.unwrap();
    let lock = client.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE closures IN ACCESS EXCLUSIVE MODE").await.unwrap();
    world.orders("lost", 1, -500).await;
    until_not_ready(address, "closing: effect close: an order has been overdue for ").await;
    lock.rollback().await.unwrap();
}

/// Otherwise a roll-out would stop for as long as the order stays, in hours in which no other order is due.
#[apply(world_test)]
async fn an_order_that_cannot_be_closed_makes_no_worker_unready() {
    let world = World::new().await;
    world.orders("o", 1, -60_000).await;
    refuse(&world, &["23514"]).await;
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "24h");
        })
        .await;
    until_ready(address).await;
    let overdue = async || sum(&metrics(address).await, "overdue_oldest_overdue_seconds", &[]);
    // Each poll of the database shows a later time; the next poll ends it with its own time.
    for _ in 0..3 {
        let before = overdue().await;
        until("another look", overdue, |now| *now > before.max(63.0)).await;
    }
    let page = get(address, "/readyz").await;
    assert_eq!(page.status, 200, "{}", page.body);
}

/// A trial may take seconds, and proves nothing about whether the database answers.
#[apply(world_test)]
async fn a_database_that_answers_is_ready_while_an_effect_is_tried() {
    let world = World::new().await;
    world.orders("o", 1, -60_000).await;
    let mut client = world.store.client().await.unwrap();
    let stalled = world.stall(&mut client, "o-0").await;
    let grace = |command: &mut std::process::Command| {
        command.env("OVERDUE_WORKER__SWEEP_GRACE", "24h");
    };
    let (_process, address) = world.listening(grace).await;
    until_ready(address).await;
    let page = async || {
        let trial = world.running_since().await;
        let page = get(address, "/readyz").await;
        (trial.is_some() && trial == world.running_since().await).then_some(page)
    };
    let page = until("a page during a trial", page, Option::is_some).await.unwrap();
    assert!(page.body.contains("\ndatabase   ok\n"), "{}", page.body);
    stalled.rollback().await.unwrap();
}

/// A worker that has just started had no time to close an order.
#[apply(world_test)]
async fn what_was_overdue_before_a_worker_began_counts_from_its_start() {
    let world = World::new().await;
    world.orders("lost", 1, -7_200_000).await;
    let after = async |stuck_after: &str| {
        let change = |command: &mut std::process::Command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", stuck_after);
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "24h");
        };
        world.listening(change).await
    };
    let (process, address) = after("1h").await;
    until_ready(address).await;
    drop(process);
    let (_process, address) = after("1s").await;
    until_not_ready(address, "closing: ").await;
}

#[apply(world_test)]
async fn a_worker_without_its_database_or_its_broker_is_not_ready() {
    let world = World::new().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    let database = Proxy::to(&world.services.database_socket()).await;
    let broker_url = world.services.broker_url(&world.vhost, Some(broker.port()));
    let database_url = world.services.database_url(Some(database.port()));
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_BROKER__URL", broker_url);
            command.env("OVERDUE_DATABASE__URL", database_url);
        })
        .await;
    until_ready(address).await;
    database.refuse();
    database.cut();
    until_not_ready(address, "database: it has not answered for ").await;
    database.pass();
    until_ready(address).await;
    broker.refuse();
    broker.cut();
    let page = until_not_ready(address, "broker: not connected (since ").await;
    assert!(page.body.contains("\nconsuming  nothing is consumed\n"), "{}", page.body);
    broker.pass();
    until_ready(address).await;
    assert_eq!(get(address, "/livez").await.status, 200);
}

#[apply(world_test)]
async fn a_worker_without_the_queue_of_a_timeout_is_not_ready() {
    let world = World::new().await;
    let (_process, address) = world.listening(|_| {}).await;
    until_ready(address).await;
    world.delete("queues", "orders.unpaid").await;
    until_not_ready(address, "consuming: nothing is consumed for timeout unpaid").await;
    world.apply(&world.topology).await;
    until_ready(address).await;
}

/// A draining worker takes no further orders.
#[apply(world_test)]
async fn a_worker_that_stops_is_not_ready() {
    let world = World::new().await;
    let (mut process, address) = world.listening(|_| {}).await;
    let order = world.orders("o", 1, 0).await;
    let mut client = world.store.client().await.unwrap();
    let stall = world.stall(&mut client, &order[0]).await;
    world.publish("100ms", &order).await;
    world.until_stalled().await;
    process.signal("TERM");
    until_not_ready(address, "broker: the worker is stopping").await;
    stall.rollback().await.unwrap();
    let status = process.ended().await;
    assert_eq!(status.code(), Some(0), "{}", process.log());
}
