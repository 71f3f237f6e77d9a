//! Events: one that cannot be published harms neither the others nor their subscribers.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use lapin::types::AMQPValue;
use overdue::internals::config::{EventsSettings, WorkerSettings};

use crate::support::{
    Parked, Wire, World, text, until,
    worker::{millis, settings},
};

/// Writes events in this order.
pub(super) async fn write(world: &World, events: &[(&str, &str)]) {
    for (event, order) in events {
        let sql = format!("INSERT INTO outbox (event, order_id) VALUES ('{event}', '{order}')");
        world.sql(&sql).await;
    }
}

/// `(event, order)` of a message.
pub(super) fn read(message: &Parked) -> (String, String) {
    (message.key.clone(), message.order())
}

/// How often each event has come.
pub(super) async fn copies(
    wire: &Wire,
    queue: &str,
    seen: &mut BTreeMap<(String, String), usize>,
) -> BTreeMap<(String, String), usize> {
    while let Some(message) = wire.take(queue).await {
        *seen.entry(read(&message)).or_default() += 1;
    }
    seen.clone()
}

/// A subscriber that takes one event and refuses the next until it is taken.
pub(super) async fn subscriber_with_one_place(wire: &Wire, pattern: &str) -> &'static str {
    let arguments =
        [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    wire.queue("full", &arguments).await;
    wire.bind("full", "orders.events", pattern).await;
    "full"
}

/// The same, which has its event already.
async fn full_subscriber(wire: &Wire, pattern: &str) -> &'static str {
    let full = subscriber_with_one_place(wire, pattern).await;
    wire.publish_all("", full, &[r#"{"order_id": "first"}"#.to_owned()]).await;
    full
}

pub(super) async fn refused(world: &World) -> i64 {
    world.rows_of("outbox_refused").await
}

#[apply(world_test)]
async fn an_event_name_that_is_no_routing_key_is_refused_at_insert() {
    let world = World::of_tables().await;
    let client = world.store.client().await.unwrap();
    for (event, order, fits) in [
        ("x".repeat(255), "o".to_owned(), true),
        ("x".repeat(256), "o".to_owned(), false),
        (String::new(), "o".to_owned(), false),
        ("é".repeat(150), "o".to_owned(), false),
        ("order.closed".to_owned(), "o".repeat(256), false),
        ("order.closed".to_owned(), String::new(), false),
    ] {
        let sql = "INSERT INTO outbox (event, order_id) VALUES ($1, $2)";
        let inserted = client.execute(sql, &[&event, &order]).await;
        assert_eq!(inserted.is_ok(), fits, "{event} {order}: {inserted:?}");
    }
}

/// Rows of a table that was made by hand.
#[apply(world_test)]
async fn bad_rows_between_good_ones_are_set_aside_with_their_reason() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    world
        .sql(
            "ALTER TABLE outbox DROP CONSTRAINT outbox_event_fits, DROP CONSTRAINT outbox_order_id_fits,
                 ALTER event DROP NOT NULL, ALTER order_id DROP NOT NULL, ALTER created_at DROP NOT NULL;
             INSERT INTO outbox (event, order_id, created_at) VALUES
                 ('order.closed', 'good-1', now()), (repeat('x', 300), 'bad-1', now()), (NULL, 'bad-2', now()),
                 ('', 'bad-3', now()), ('order.closed', NULL, now()), ('order.closed', repeat('o', 1000000), now()),
                 ('order.closed', 'bad-6', 'infinity'), ('order.closed', 'bad-7', NULL),
                 ('order.closed', 'bad-8', '0044-03-15 BC'), (repeat('y', 255), 'good-2', now()),
                 ('order.closed', 'good-3', now())",
        )
        .await;
    let _worker = world.worker();
    // One that the broker was slow to confirm comes twice.
    let mut seen = BTreeMap::new();
    let events = async || copies(&wire, &subscriber, &mut seen).await;
    let events = until("three events", events, |events| events.len() >= 3).await;
    let mut orders: Vec<String> = events.into_keys().map(|(_, order)| order).collect();
    orders.sort();
    assert_eq!(orders, ["good-1", "good-2", "good-3"]);
    world.until_rows("outbox", 0).await;
    let reasons = "SELECT reason FROM outbox_refused WHERE waits_for IS NULL ORDER BY id";
    insta::assert_snapshot!(world.texts(reasons).await.join("\n"));
}

#[apply(world_test)]
async fn a_full_subscriber_makes_few_copies_for_the_others_and_gets_everything_in_the_end() {
    let (world, wire) = World::new().await.wired().await;
    let full = full_subscriber(&wire, "order.closed").await;
    let other = wire.listen("orders.events", "#").await;
    let _worker = world.worker();
    let mut seen = BTreeMap::new();
    for n in 0..10 {
        let event = if n % 2 == 0 { "order.closed" } else { "order.paid" };
        write(&world, &[(event, &format!("o-{n}"))]).await;
    }
    let all = async || copies(&wire, &other, &mut seen).await;
    until("each event", all, |seen| seen.len() == 10).await;
    world.until_rows("outbox", 0).await;
    // What the broker was slow to confirm has come twice by now.
    let before = copies(&wire, &other, &mut seen).await;
    let all: usize = before.values().sum();
    // After a pause, then after twice as long each time.
    let look = async || copies(&wire, &other, &mut seen).await;
    let tried = |now: &BTreeMap<_, usize>| now.values().sum::<usize>() >= all + 2;
    let seen_now = until("tried twice more", look, tried).await;
    assert_eq!(refused(&world).await, 5);
    let again: Vec<_> =
        seen_now.iter().filter(|(event, copies)| **copies > before[*event]).collect();
    assert_eq!(again.len(), 1, "only the oldest is tried: {again:?}");
    assert!(*again[0].1 <= before[again[0].0] + 4, "{again:?}");

    // The subscriber works again.
    let mut taken = BTreeMap::new();
    let rest = async || {
        copies(&wire, full, &mut taken).await;
        refused(&world).await
    };
    until("nothing refused", rest, |refused| *refused == 0).await;
    let seen = copies(&wire, &other, &mut seen).await;
    let taken: Vec<_> = copies(&wire, full, &mut taken).await.into_keys().collect();
    assert_eq!(taken.len(), 1 + 5, "{taken:?}");
    let paid: Vec<_> = seen.iter().filter(|((event, _), _)| event == "order.paid").collect();
    assert!(paid.iter().all(|(event, copies)| **copies == before[*event]), "{paid:?}");
    // One when it was refused, one when it was taken, and what a subscriber with one place refuses between.
    let copies: usize = seen.values().sum();
    assert!(copies <= before.values().sum::<usize>() + 5 + 15, "{seen:?}");
}

#[apply(world_test)]
async fn later_events_of_an_order_wait_for_the_one_that_is_refused() {
    let (world, wire) = World::new().await.wired().await;
    let full = full_subscriber(&wire, "order.closed").await;
    let other = wire.listen("orders.events", "order.shipped").await;
    let _worker = world.worker();
    write(&world, &[("order.closed", "x"), ("order.shipped", "x"), ("order.shipped", "y")]).await;
    write(&world, &[("order.shipped", "x"), ("order.shipped", "z")]).await;
    let events = wire.take_many(&other, 2).await;
    let mut orders: Vec<String> = events.iter().map(Parked::order).collect();
    orders.sort();
    assert_eq!(orders, ["y", "z"]);
    world.until_rows("outbox_refused", 3).await;
    assert_eq!(wire.take_many(full, 1).await.len(), 1);
    let events = wire.take_many(&other, 2).await;
    assert!(events.iter().all(|event| event.order() == "x"), "{events:?}");
    assert_eq!(wire.take_many(full, 1).await[0].order(), "x");
    world.until_rows("outbox_refused", 0).await;
}

/// A session knows nothing of the rows that the last one skipped, and reads them first.
#[apply(world_test)]
async fn a_refused_event_does_not_overtake_an_earlier_one_of_another_page() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "order.#").await;
    world
        .sql(
            "INSERT INTO outbox (event, order_id) SELECT 'e', 'o-' || n FROM generate_series(1, 2500) n;
             INSERT INTO outbox (event, order_id) VALUES ('order.closed', 'x');
             INSERT INTO outbox_refused (id, event, order_id, created_at, waits_for, reason)
                 SELECT max(id) + 1, 'order.shipped', 'x', now(), 'order.closed', 'refused' FROM outbox",
        )
        .await;
    let _worker = world.worker();
    let events = wire.take_many(&subscriber, 2).await;
    let names: Vec<&str> = events.iter().map(|event| event.key.as_str()).collect();
    assert_eq!(names, ["order.closed", "order.shipped"]);
}

/// Each commit of a worker rings its relay; it looks once for the events of many.
#[apply(world_test)]
async fn events_of_many_commits_are_published_together() {
    let world = World::new().await;
    world
        .sql(
            "CREATE TABLE looks (n bigint);
             CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN INSERT INTO looks VALUES (1); RETURN NULL; END';
             CREATE TRIGGER looks AFTER DELETE ON outbox FOR EACH STATEMENT EXECUTE FUNCTION look()",
        )
        .await;
    let orders = world.orders("o", 60, 0).await;
    let settings = WorkerSettings { batch_size: 1, in_flight: 1, ..settings() };
    let events = EventsSettings { publish: true, linger: millis("1s") };
    let began = Instant::now();
    let _worker = world.worker_of_events(settings, events);
    world.publish("100ms", &orders).await;
    world.until_closed(60).await;
    world.until_rows("outbox", 0).await;
    let commits = world.number("SELECT count(DISTINCT xmin::text) FROM closures").await;
    assert_eq!(commits, 60);
    let looks = world.rows_of("looks").await;
    // One a second, however long the commits take.
    let most = 20 + began.elapsed().as_secs();
    assert!(looks.unsigned_abs() <= most, "{looks} deletes for the events of 60 commits");
}

#[apply(world_test)]
async fn a_worker_without_events_closes_and_writes_and_publishes_none() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    // Of somebody else: they are left where they are.
    write(&world, &[("order.paid", "other")]).await;
    let orders = world.orders("o", 20, 0).await;
    let events = EventsSettings { publish: false, ..EventsSettings::default() };
    let worker = world.worker_of_events(settings(), events);
    world.publish("100ms", &orders).await;
    world.until_closed(20).await;
    assert_eq!(worker.stop().await.closed, 20);
    assert_eq!((world.rows_of("closures").await, world.rows_of("outbox").await), (20, 1));
    assert_eq!(wire.take(&subscriber).await.map(|message| message.key), None);
}

/// The broker closes the channel for each, and what is beside it there is in doubt. Its text names the key, which may look like a part
/// of that text, or cannot be compared.
#[apply(world_test)]
async fn an_event_that_the_worker_may_not_publish_does_not_stop_the_others() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    let allow = async |write: &str| world.permit_keys(&user, "orders.events", write).await;
    allow(r"^order\.closed$").await;
    let secret = format!("secret.{}", "s".repeat(240));
    for n in 0..30 {
        let event = match n {
            3 => "secret",
            7 | 9 => &secret,
            12 => "order.closed'' in exchange ''y",
            15 => "é.closed",
            _ => "order.closed",
        };
        write(&world, &[(event, &format!("o-{n}"))]).await;
    }
    let address = world.address_of(Some(&user));
    let _worker = world.worker_at(address, &world.services.database_url(None), settings());
    let mut seen = BTreeMap::new();
    let arrived = async || copies(&wire, &subscriber, &mut seen).await.len();
    until("25 events", arrived, |arrived| *arrived == 25).await;
    world.until_rows("outbox_refused", 5).await;
    // One that comes later does not touch the channel of the others, nor does what comes with it for its order come before it.
    let later = "INSERT INTO outbox (event, order_id)
                 VALUES ('secret', 'o-30'), ('secret', 'o-31'), ('order.closed', 'o-31')";
    world.sql(later).await;
    world.until_rows("outbox_refused", 8).await;
    allow(".*").await;
    // It is accepted again also where new events of that name never cease.
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let more = async {
        for n in 32.. {
            tick.tick().await;
            write(&world, &[("secret", &format!("o-{n}"))]).await;
        }
    };
    tokio::select! {
        () = more => {}
        () = world.until_rows("outbox_refused", 0) => {}
    }
    let missing = async || {
        let arrived = copies(&wire, &subscriber, &mut seen).await.len();
        world.number("SELECT last_value FROM outbox_id_seq").await - i64::try_from(arrived).unwrap()
    };
    until("every event", missing, |missing| *missing == 0).await;
}
