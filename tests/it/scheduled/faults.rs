//! Workers and brokers that die in the middle.

use std::collections::BTreeSet;

use overdue::internals::config::WorkerSettings;

use super::{order_of, published, sweeping};
use crate::support::{Proxy, World, until, worker::millis};

/// The messages are there, and the worker has not heard of it: they are published again, and each order is closed once.
#[apply(world_test)]
async fn killed_between_publish_and_confirm() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    let proxy = Proxy::to(&world.services.broker_socket()).await;
    let mut process = world
        .started(|command| {
            let broker = world.services.broker_url(&world.vhost, Some(proxy.port()));
            command.env("OVERDUE_BROKER__URL", broker);
        })
        .await;
    // The channel that publishes is there.
    world.orders("first", 1, 50).await;
    world.schedule_all("unpaid").await;
    world.until_closed(1).await;
    world.until_published().await;
    proxy.freeze_to_program();
    world.orders("o", 120, 50).await;
    world.sql("SELECT schedule_at(id, 'unpaid', due_at) FROM orders WHERE id LIKE 'o-%'").await;
    let sent = async || wire.ready(&along).await;
    until("all sent", sent, |ready| *ready >= 121).await;
    // What it would try again does not arrive.
    proxy.freeze_to_service();
    assert_eq!(world.unpublished().await, 120);
    process.kill();
    proxy.cut();
    let worker = world.worker();
    world.until_published().await;
    let messages = published(&wire, &along).await;
    let orders: BTreeSet<String> = messages.iter().map(order_of).collect();
    assert_eq!(orders.len(), 121);
    assert_eq!(messages.len(), 241, "each once more");
    let ids = |message: &crate::support::Parked| message.message_id.clone();
    assert_eq!(messages.iter().map(ids).collect::<BTreeSet<_>>().len(), 121);
    world.until_closed(121).await;
    world.assert_invariants().await;
    world.until_empty("orders.unpaid").await;
    assert_eq!(worker.stop().await.parked, 0);
}

/// Orders are written while there is no broker, and closed by their messages when it is back.
#[apply(world_test)]
async fn the_broker_is_unavailable_while_orders_are_written() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let proxy = Proxy::to(&world.services.broker_socket()).await;
    let address = world.services.address(&world.vhost, Some(proxy.port()));
    let worker = world.worker_at(address, &world.services.database_url(None), sweeping("1h"));
    world.sql("SELECT schedule('first', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    proxy.refuse();
    world.orders("o", 100, 6_000).await;
    world.schedule_all("unpaid").await;
    let before = proxy.attempts();
    until("it tries", async || proxy.attempts(), |seen| *seen > before + 1).await;
    assert_eq!(world.unpublished().await, 100);
    proxy.pass();
    world.until_closed(100).await;
    world.until_published().await;
    // What is published late waits for the time that is left, and no longer: a whole level would be 30 min.
    let in_time = "SELECT count(*) FROM closures WHERE path IN ('message', 'burst')
                   AND closed_at BETWEEN due_at AND due_at + interval '3 min'";
    assert_eq!(world.number(in_time).await, 100);
    world.assert_invariants().await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.swept), (0, 0, 0), "{counts:?}");
}

/// One publishes; where it ends, the other does. Nothing is published twice as long as nobody dies.
#[apply(world_test)]
async fn of_two_workers_one_publishes_and_the_other_takes_over() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    let (first, second) = (world.worker(), world.worker());
    for round in 0..5 {
        let many = format!(
            "SELECT schedule('o-{round}-' || n, 'unpaid', '40 minutes') FROM generate_series(1, 500) n"
        );
        world.sql(&many).await;
        world.until_published().await;
    }
    let messages = wire.take_many(&along, 2_500).await;
    let orders: BTreeSet<String> = messages.iter().map(order_of).collect();
    assert_eq!(orders.len(), 2_500, "each once");
    assert_eq!(wire.take(&along).await, None);
    first.stop().await;
    world.sql("SELECT schedule('next', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    second.stop().await;
    let third = world.worker();
    world.sql("SELECT schedule('last', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    assert_eq!(wire.take_many(&along, 2).await.len(), 2);
    third.stop().await;
}

/// Its connection to the database is cut while it publishes and waits.
#[apply(world_test)]
async fn a_session_that_ends_is_followed_by_another() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let _worker = world.worker();
    for n in 0..3 {
        world.sql(&format!("SELECT schedule('o-{n}', 'unpaid', '40 minutes')")).await;
        world.until_published().await;
        let ended = world
            .number(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'
                     AND classid = 'scheduled_notices'::regclass AND granted",
            )
            .await;
        assert_eq!(ended, 1);
    }
    world.sql("SELECT schedule('last', 'unpaid', '40 minutes')").await;
    world.until_published().await;
}

/// Publishing with the key of one timeout closes the channel, each time.
#[apply(world_test)]
async fn a_timeout_that_may_not_be_published_stops_no_other() {
    let text = format!(
        "{}\n[[timeout]]\nname = \"unclaimed\"\nafter = \"30m\"\n",
        crate::support::world::TOPOLOGY
    );
    let world = World::of(&text).await;
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.again", r"\.unpaid$").await;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min'), ('unclaimed', '30 min')").await;
    for n in 0..20 {
        let timeout = if n % 2 == 0 { "unclaimed" } else { "unpaid" };
        world.sql(&format!("SELECT schedule('o-{n}', '{timeout}', '40 minutes')")).await;
    }
    let address = world.address_of(Some(&user));
    let _worker = world.worker_at(address, &world.services.database_url(None), sweeping("1h"));
    let good = async || {
        world.number("SELECT count(*) FROM scheduled_notices WHERE timeout = 'unpaid'").await
    };
    until("the permitted ones published", good, |rows| *rows == 0).await;
    assert_eq!(world.unpublished().await, 10);
}

/// It is known that no message is on its way for them; for all others the grace period is waited for.
#[apply(world_test)]
async fn the_sweep_looks_first_at_notices_that_were_never_confirmed() {
    let world = World::new().await;
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.again", "^$").await;
    world.knows_timeouts().await;
    world.orders("never-confirmed", 700, -10_000).await;
    world.orders("paid", 3, 60_000).await;
    for n in 0..3 {
        assert!(world.pay(&format!("paid-{n}")).await);
    }
    world.sql("UPDATE orders SET due_at = now() - interval '10 s' WHERE status = 'paid'").await;
    world.schedule_all("unpaid").await;
    // Nobody has scheduled these; their messages may come.
    world.orders("others", 5, -10_000).await;
    // Neither over for long enough, nor known to the database.
    world.sql("SELECT schedule('soon', 'unpaid', '1 hour'), schedule_at('unknown', 'unpaid', now() - interval '10 s')").await;
    let settings = WorkerSettings { sweep_grace: millis("1h"), ..sweeping("100ms") };
    let address = world.address_of(Some(&user));
    let worker = world.worker_at(address, &world.services.database_url(None), settings);
    world.until_closed(700).await;
    let rows = async || world.number("SELECT count(*) FROM scheduled_notices").await;
    until("what is final is forgotten", rows, |rows| *rows == 2).await;
    assert_eq!(world.closed().await, 700);
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.swept, 700);
}

/// After a failover ids are given out again.
#[apply(world_test)]
async fn the_sweep_forgets_no_notice_that_has_the_number_of_one_it_has_read() {
    let world = World::new().await;
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.again", "^$").await;
    world.knows_timeouts().await;
    let read = world.orders("read", 2, -10_000).await;
    world.schedule_all("unpaid").await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, &read[0]).await;
    let settings = WorkerSettings { sweep_grace: millis("1h"), ..sweeping("100ms") };
    let address = world.address_of(Some(&user));
    let worker = world.worker_at(address, &world.services.database_url(None), settings);
    world.until_stalled().await;
    let notice =
        |order: &str| format!("SELECT count(*) FROM scheduled_notices WHERE order_id = '{order}'");
    assert_eq!(world.number(&notice(&read[0])).await, 1);
    world
        .sql(&format!(
            "UPDATE scheduled_notices SET order_id = 'another', due_at = now() + interval '1 h' WHERE order_id = '{}'",
            read[0]
        ))
        .await;
    held.commit().await.unwrap();
    let beside = async || world.number(&notice(&read[1])).await;
    until("what is final is forgotten", beside, |rows| *rows == 0).await;
    assert_eq!(world.number(&notice("another")).await, 1);
    worker.stop().await;
}

/// As `VACUUM FULL` does, or a change of the table: it is not the table that overdue orders are found in.
#[apply(world_test)]
async fn a_lock_on_the_notices_stops_neither_the_sweep_nor_readiness() {
    use crate::support::pages::{get, metrics, sum};
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let locked = client.transaction().await.unwrap();
    locked.batch_execute("LOCK TABLE scheduled_notices IN ACCESS EXCLUSIVE MODE").await.unwrap();
    world.orders("lost", 5, -10_000).await;
    let (process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
        })
        .await;
    world.until_closed(5).await;
    assert_eq!(process.logged("scheduled_notices cannot be read"), 1, "{}", process.log());
    let failed =
        async || sum(&metrics(address).await, "overdue_look_failures_total", &["at=\"database\""]);
    until("the notices could not be counted", failed, |failed| *failed > 0.5).await;
    until("ready", async || get(address, "/readyz").await, |page| page.status == 200).await;
    locked.rollback().await.unwrap();
}

/// Bytes that are no text, as a database without an encoding has them.
#[apply(world_test)]
async fn an_order_id_that_cannot_be_read_stops_no_sweep() {
    let world = World::new().await;
    world
        .sql(
            "ALTER TABLE scheduled_notices ALTER order_id TYPE bytea USING convert_to(order_id, 'UTF8');
             INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('\\xff', 'unpaid', now() - interval '1 minute')",
        )
        .await;
    world.orders("lost", 5, -10_000).await;
    let settings = WorkerSettings { sweep_grace: millis("1s"), ..sweeping("1h") };
    let worker = world.worker_with(settings);
    world.until_closed(5).await;
    until("counted", async || worker.counts().swept, |swept| *swept == 5).await;
    assert_eq!(worker.stop().await.swept, 5);
}
