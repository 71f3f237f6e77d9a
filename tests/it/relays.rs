//! Rows of both tables, the outbox and the one of `schedule()`: one worker publishes them at a time, what it has comes back when it
//! dies, and rows that stay hold up no others.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use overdue::internals::timing::Timing;

use crate::support::{Wire, World, until, worker::settings};

const TABLES: [&str; 2] = ["outbox", "scheduled_notices"];

/// A world with a subscriber of its events and one of its notices.
struct Publishing {
    world: World,
    wire: Wire,
    subscribers: [String; 2],
}

/// An event and a notice of each order, which is due after the test.
fn rows(prefix: &str, count: usize) -> String {
    format!(
        "INSERT INTO outbox (event, order_id) SELECT 'order.closed', '{prefix}' || n FROM generate_series(1, {count}) n;
         SELECT schedule('{prefix}' || n, 'unpaid', '40 minutes') FROM generate_series(1, {count}) n"
    )
}

/// The sessions that publish a table.
fn leaders(table: &str) -> String {
    format!(
        "FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = '{table}'::regclass"
    )
}

/// The session that publishes the table loses its connection to the database.
async fn end_leader(world: &World, table: &str) {
    let leader = format!("SELECT coalesce(max(pid), 0)::bigint {}", leaders(table));
    let pid = until("one leads", async || world.number(&leader).await, |pid| *pid > 0).await;
    world.sql(&format!("SELECT pg_terminate_backend({pid})")).await;
    world.until_rows(&format!("pg_stat_activity WHERE pid = {pid}"), 0).await;
}

impl Publishing {
    async fn of(world: World) -> Self {
        world.knows_timeouts().await;
        let wire = world.wire().await;
        let events = wire.listen("orders.events", "#").await;
        let notices = wire.listen("orders.again", "#").await;
        Self { world, wire, subscribers: [events, notices] }
    }

    async fn until_left(&self, count: i64) {
        for table in TABLES {
            self.world.until_rows(table, count).await;
        }
    }

    /// How often each order has come since the last time, in events and in notices.
    async fn copies(&self) -> [BTreeMap<String, usize>; 2] {
        let mut copies = [BTreeMap::new(), BTreeMap::new()];
        for (copies, subscriber) in copies.iter_mut().zip(&self.subscribers) {
            for message in self.wire.take_all(subscriber).await {
                *copies.entry(message.order()).or_default() += 1;
            }
        }
        copies
    }
}

/// The second one waits for no back-off, which would be an hour.
#[apply(world_test)]
async fn of_two_workers_one_publishes_and_the_other_takes_over() {
    let mut world = World::new().await;
    let backoff_longest = Duration::from_hours(1); // data: an interval in which no test ends
    world.services.timing = Timing { backoff_longest, ..Timing::often() }.into();
    let publishing = Publishing::of(world).await;
    let world = &publishing.world;
    let (first, second) = (world.worker(), world.worker());
    for round in 0..3 {
        world.sql(&rows(&format!("o-{round}-"), 500)).await;
        publishing.until_left(0).await;
    }
    for table in TABLES {
        assert_eq!(world.number(&format!("SELECT count(*) {}", leaders(table))).await, 1);
    }
    for copies in publishing.copies().await {
        assert_eq!((copies.len(), copies.values().sum::<usize>()), (1_500, 1_500), "each once");
    }
    first.stop().await;
    world.sql(&rows("next-", 1)).await;
    publishing.until_left(0).await;
    second.stop().await;
}

#[apply(world_test)]
async fn a_worker_that_cannot_publish_lets_another_one_take_over() {
    let world = World::new().await;
    let user = world.user("").await;
    world.permit(&user, [".*", r"^(?!orders\.events$)", ".*"]).await;
    let address = world.address_of(Some(&user));
    let first = world.worker_at(address, &world.services.database_url(None), settings());
    let leads = async || world.number(&format!("SELECT count(*) {}", leaders("outbox"))).await;
    until("it leads", leads, |leaders| *leaders == 1).await;
    let second = world.worker();
    world.sql("INSERT INTO outbox (event, order_id) VALUES ('order.closed', 'o-1')").await;
    world.until_rows("outbox", 0).await;
    first.stop().await;
    second.stop().await;
}

/// Three workers, and each that publishes loses its connection to the database.
#[apply(world_test)]
async fn sessions_that_end_lose_no_row_and_keep_the_order_of_each_orders_events() {
    let publishing = Publishing::of(World::new().await).await;
    let world = &publishing.world;
    let _workers = [world.worker(), world.worker(), world.worker()];
    for round in 0..3 {
        world
            .sql(&format!(
                "INSERT INTO outbox (event, order_id) SELECT 'e', 'o-' || n % 7 FROM generate_series(1, 1000) n;
                 SELECT schedule('o-{round}-' || n, 'unpaid', '40 minutes') FROM generate_series(1, 100) n"
            ))
            .await;
        for table in TABLES {
            end_leader(world, table).await;
        }
    }
    publishing.until_left(0).await;
    let (mut last, mut events): (BTreeMap<String, i64>, _) = (BTreeMap::new(), 0);
    for message in publishing.wire.take_all(&publishing.subscribers[0]).await {
        let id = message.message_id.unwrap();
        let (row, order) = id.split_once('@').unwrap();
        let (row, order) = (row.parse().unwrap(), order.split_once('/').unwrap().1.to_owned());
        let before = last.entry(order).or_default();
        // What was on its way comes twice; an event that another one has overtaken is not counted.
        if row > *before {
            *before = row;
            events += 1;
        }
    }
    assert_eq!(events, 3_000);
    assert_eq!(publishing.copies().await[1].len(), 300);
}

/// As after a failover, which gives ids out again: the new session knows nothing of published rows, and the message ids differ.
#[apply(world_test)]
async fn an_event_with_the_id_of_a_published_one_is_published_as_another() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    world
        .sql(
            "CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'never'; END $$;
             CREATE TRIGGER stay BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION stay();
             INSERT INTO outbox (event, order_id) VALUES ('order.closed', 'o-1')",
        )
        .await;
    let _worker = world.worker();
    let first = wire.take_many(&subscriber, 1).await.remove(0);
    let restored = "ALTER TABLE outbox DISABLE TRIGGER USER; DELETE FROM outbox; \
                    INSERT INTO outbox (id, event, order_id) OVERRIDING SYSTEM VALUE VALUES (1, 'order.closed', 'o-2')";
    let ends = format!("SELECT pg_terminate_backend(pid) {}", leaders("outbox"));
    world.sql(&format!("BEGIN; LOCK TABLE outbox; {ends}; {restored}; COMMIT")).await;
    loop {
        let next = wire.take_many(&subscriber, 1).await.remove(0);
        if next.order() == "o-2" {
            assert_ne!(next.message_id, first.message_id);
            break;
        }
        assert_eq!(next.message_id, first.message_id);
    }
}

/// A row that is committed late has a smaller id than rows that are published; and commits of many clients meet.
#[apply(world_test)]
async fn no_row_is_missed_while_transactions_come_and_go() {
    let publishing = Publishing::of(World::new().await).await;
    let world = &publishing.world;
    let open = world.store.client().await.unwrap();
    open.batch_execute(&format!("BEGIN; {}", rows("open-", 1))).await.unwrap();
    let _worker = world.worker();
    for round in 0..5 {
        let clients = (0..4).map(async |n| {
            let client = world.store.client().await.unwrap();
            for m in 0..10 {
                client.batch_execute(&rows(&format!("o-{round}-{n}-{m}-"), 1)).await.unwrap();
            }
        });
        join_all(clients).await;
        publishing.until_left(0).await;
    }
    open.batch_execute("COMMIT").await.unwrap();
    publishing.until_left(0).await;
    for copies in publishing.copies().await {
        assert_eq!(copies.len(), 201);
    }
}
