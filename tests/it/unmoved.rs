//! Refused events whose rows cannot be moved: later events of their orders wait for them, and no others do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use overdue::internals::{store::Connection, timing::Timing};

use super::events::{copies, read, refused, subscriber_with_one_place, write};
use crate::support::{
    Wire, World, until,
    worker::{RunningWorker, settings},
};

/// Sets up that events `order.closed` of the orders `stuck…` are refused, because a queue is full, and cannot be moved.
async fn full_and_stuck(world: &World, wire: &Wire) -> &'static str {
    let full = subscriber_with_one_place(wire, "order.closed").await;
    wire.publish_all("", full, &[r#"{"order_id": "first"}"#.to_owned()]).await;
    let raises = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'never'; END $$; \
                  CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW \
                  WHEN (OLD.event = 'order.closed' AND OLD.order_id LIKE 'stuck%') EXECUTE FUNCTION refuse()";
    world.sql(raises).await;
    full
}

/// Another session has updated `count` of the rows in an open transaction; a worker tries to move them, and others behind them.
async fn locked(
    world: &World,
    wire: &Wire,
    count: usize,
    others: usize,
) -> (Connection, RunningWorker) {
    let full = subscriber_with_one_place(wire, "order.closed").await;
    wire.publish_all("", full, &[r#"{"order_id": "first"}"#.to_owned()]).await;
    let events = format!(
        "INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'locked-' || n FROM generate_series(1, {count}) n;
         INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'o-' || n FROM generate_series(1, {others}) n"
    );
    world.sql(&events).await;
    let holder = world.store.client().await.unwrap();
    let change = "BEGIN; UPDATE outbox SET event = event WHERE order_id LIKE 'locked-%'";
    holder.batch_execute(change).await.unwrap();
    (holder, looking_often(world))
}

/// A worker that scans all rows each second.
fn looking_often(world: &World) -> RunningWorker {
    let timing = Timing { look_at_everything: Duration::from_secs(1), ..Timing::often() };
    let address = world.address().with_timing(Arc::new(timing));
    world.worker_at(address, &world.services.database_url(None), settings())
}

fn event(name: &str, order: &str) -> (String, String) {
    (name.to_owned(), order.to_owned())
}

#[apply(world_test)]
async fn a_later_event_does_not_overtake_a_refused_one_that_cannot_be_moved() {
    let (world, wire) = World::new().await.wired().await;
    let full = full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    let both = "INSERT INTO outbox (event, order_id) \
                VALUES ('order.closed', 'o-1'), ('order.closed', 'stuck'), ('order.shipped', 'stuck')";
    world.sql(both).await;
    let _worker = world.worker();
    let (mut seen, mut taken) = (BTreeMap::new(), BTreeMap::new());
    let look = async || copies(&wire, &other, &mut seen).await;
    // Each attempt with the oldest event includes the events behind it.
    let tried = |seen: &BTreeMap<_, _>| seen.get(&event("order.closed", "o-1")) >= Some(&3);
    let now = until("tried three times", look, tried).await;
    assert!(!now.contains_key(&event("order.shipped", "stuck")), "{now:?}");
    assert_eq!(refused(&world).await, 2);
    let look = async || {
        copies(&wire, full, &mut taken).await;
        copies(&wire, &other, &mut seen).await
    };
    let is_shipped = |seen: &BTreeMap<_, _>| seen.contains_key(&event("order.shipped", "stuck"));
    until("what follows", look, is_shipped).await;
    let taken = copies(&wire, full, &mut taken).await;
    assert!(taken.contains_key(&event("order.closed", "stuck")), "{taken:?}");
}

/// The relay reads above the deleted rows, and not above the remaining ones.
#[apply(world_test)]
async fn an_event_that_is_written_later_does_not_overtake_a_refused_one_that_cannot_be_moved() {
    let (world, wire) = World::new().await.wired().await;
    full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    write(&world, &[("order.closed", "o-1")]).await;
    let orders: Vec<String> = (0..8).map(|n| format!("stuck-{n}")).collect();
    for order in &orders {
        write(&world, &[("order.closed", order)]).await;
    }
    let _worker = looking_often(&world);
    let mut seen = BTreeMap::new();
    // Several full scans see the new rows.
    let look = async || {
        write(&world, &[("order.paid", "any")]).await;
        copies(&wire, &other, &mut seen).await
    };
    let tried = |seen: &BTreeMap<_, _>| seen.get(&event("order.closed", "o-1")) >= Some(&6);
    until("tried six times", look, tried).await;
    for order in &orders {
        let both = format!(
            "INSERT INTO outbox (event, order_id) VALUES ('order.shipped', '{order}'), ('order.paid', '{order}-b')"
        );
        world.sql(&both).await;
        let look = async || copies(&wire, &other, &mut seen).await;
        let paid = event("order.paid", &format!("{order}-b"));
        until("what is beside it", look, |seen| seen.contains_key(&paid)).await;
    }
    assert!(!seen.keys().any(|(name, _)| name == "order.shipped"), "{seen:?}");
}

/// The queue takes events again while a page is published; the last event of the order is in the next page.
#[apply(world_test)]
async fn an_event_of_another_page_does_not_overtake_one_that_waits_for_what_cannot_be_moved() {
    let (world, wire) = World::new().await.wired().await;
    let full = full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    write(&world, &[("order.closed", "stuck-0")]).await;
    let _worker = looking_often(&world);
    let mut seen = BTreeMap::new();
    let mut look = async || copies(&wire, &other, &mut seen).await;
    let first = event("order.closed", "stuck-0");
    until("its first copy", &mut look, |seen| seen.contains_key(&first)).await;
    world
        .sql(
            "INSERT INTO outbox (event, order_id) VALUES ('order.shipped', 'stuck-0');
             INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'stuck-' || n FROM generate_series(1, 2100) n;
             INSERT INTO outbox (event, order_id) VALUES ('order.archived', 'stuck-0')",
        )
        .await;
    let last = event("order.closed", "stuck-2100");
    until("a copy of each", &mut look, |seen| seen.contains_key(&last)).await;
    world.delete("queues", full).await;
    let mut names = Vec::new();
    while names.len() < 2 {
        let message = wire.take_many(&other, 1).await.remove(0);
        names.extend((message.key != "order.closed").then_some(message.key));
    }
    assert_eq!(names, ["order.shipped", "order.archived"]);
}

/// Events of an order wait for different names if the earlier one could not be moved with the later one.
#[apply(world_test)]
async fn a_later_event_waits_for_an_earlier_one_that_waits_for_another_name() {
    let (world, wire) = World::new().await.wired().await;
    let full = full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    world
        .sql(
            "INSERT INTO outbox_refused (id, event, order_id, created_at, waits_for, reason) VALUES
                 (1, 'order.closed', 'x', now(), 'order.closed', 'refused'),
                 (2, 'order.shipped', 'x', now(), 'order.created', 'refused')",
        )
        .await;
    let _worker = looking_often(&world);
    let (mut seen, mut taken) = (BTreeMap::new(), BTreeMap::new());
    let (closed, shipped) = (event("order.closed", "x"), event("order.shipped", "x"));
    let look = async || copies(&wire, &other, &mut seen).await;
    let tried = |seen: &BTreeMap<_, _>| seen.get(&closed) >= Some(&3);
    let now = until("it is tried again and again", look, tried).await;
    assert!(!now.contains_key(&shipped), "{now:?}");
    let look = async || {
        copies(&wire, full, &mut taken).await;
        copies(&wire, &other, &mut seen).await
    };
    until("what follows", look, |seen| seen.contains_key(&shipped)).await;
}

/// The events fill more than a page: otherwise no row behind them would be read.
#[apply(world_test)]
async fn a_page_of_refused_events_that_cannot_be_moved_holds_up_nothing_behind_it() {
    let (world, wire) = World::new().await.wired().await;
    full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "order.paid").await;
    world
        .sql(
            "INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'stuck-' || n FROM generate_series(1, 2100) n;
             INSERT INTO outbox (event, order_id) VALUES ('order.paid', 'x')",
        )
        .await;
    let _worker = world.worker();
    assert_eq!(read(&wire.take_many(&other, 1).await[0]), event("order.paid", "x"));
}

/// The events fill more than a page, with others behind them.
#[apply(world_test)]
async fn refused_events_that_somebody_has_locked_hold_up_nothing_with_another_name() {
    let (world, wire) = World::new().await.wired().await;
    let other = wire.listen("orders.events", "order.paid").await;
    let (holder, _worker) = locked(&world, &wire, 2_100, 0).await;
    for order in ["a", "b", "c"] {
        write(&world, &[("order.paid", order)]).await;
        assert_eq!(read(&wire.take_many(&other, 1).await[0]), event("order.paid", order));
    }
    let locked = "SELECT count(*) FROM outbox_refused WHERE event = 'order.closed'";
    assert_eq!(world.number(locked).await, 0);
    holder.batch_execute("ROLLBACK").await.unwrap();
    until("all are set aside", async || world.number(locked).await, |aside| *aside == 2_100).await;
}

/// The events exceed the number that is tried alone before the relay leaves the others of their page.
#[apply(world_test)]
async fn refused_events_that_somebody_has_locked_keep_no_others_from_being_set_aside() {
    let (world, wire) = World::new().await.wired().await;
    let (_holder, _worker) = locked(&world, &wire, 25, 100).await;
    until("the others are set aside", async || refused(&world).await, |aside| *aside == 100).await;
}

/// Full scans find these events repeatedly, and do not take them for new ones.
#[apply(world_test)]
async fn many_refused_events_that_cannot_be_moved_are_not_all_published_again() {
    let (world, wire) = World::new().await.wired().await;
    full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    write(&world, &[("order.closed", "o-1")]).await;
    world
        .sql("INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'stuck-' || n FROM generate_series(1, 1100) n")
        .await;
    let _worker = looking_often(&world);
    let mut seen = BTreeMap::new();
    let oldest = event("order.closed", "o-1");
    let look = async || {
        write(&world, &[("order.paid", "any")]).await;
        copies(&wire, &other, &mut seen).await
    };
    let tried = |seen: &BTreeMap<_, _>| seen.get(&oldest) >= Some(&7);
    let seen = until("tried seven times", look, tried).await;
    let stuck = seen.iter().filter(|((_, order), _)| order.starts_with("stuck"));
    assert_eq!(stuck.clone().count(), 1_100);
    // Only one event at a time is tried.
    let copies: usize = stuck.map(|(_, copies)| copies).sum();
    assert!(copies < 1_100 + 500, "{copies}");
}

/// An event that waits for an unmovable one is read again after that one is gone.
#[apply(world_test)]
async fn what_waits_for_an_event_that_cannot_be_moved_goes_out_when_somebody_has_deleted_it() {
    let (world, wire) = World::new().await.wired().await;
    full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    write(&world, &[("order.closed", "stuck")]).await;
    let _worker = looking_often(&world);
    let mut seen = BTreeMap::new();
    let mut look = async || copies(&wire, &other, &mut seen).await;
    let closed = event("order.closed", "stuck");
    until("its first copy", &mut look, |seen| seen.contains_key(&closed)).await;
    // The later event of its order stays in the outbox with it, or is moved.
    write(&world, &[("order.done", "stuck"), ("order.paid", "other")]).await;
    let paid = event("order.paid", "other");
    let now = until("what is beside it", &mut look, |seen| seen.contains_key(&paid)).await;
    let done = event("order.done", "stuck");
    assert!(!now.contains_key(&done), "{now:?}");
    world.sql("ALTER TABLE outbox DISABLE TRIGGER USER; DELETE FROM outbox WHERE event = 'order.closed'").await;
    until("what follows", &mut look, |seen| seen.contains_key(&done)).await;
}

/// Each attempt is another copy for the other subscribers.
#[apply(world_test)]
async fn a_refused_event_that_cannot_be_moved_waits_for_its_pause_and_others_do_not() {
    let (world, wire) = World::new().await.wired().await;
    full_and_stuck(&world, &wire).await;
    let other = wire.listen("orders.events", "#").await;
    let hour = Duration::from_hours(1); // data: no further attempt
    let timing =
        Timing { destination_pause_first: hour, destination_silence: hour, ..Timing::often() };
    let address = world.address().with_timing(Arc::new(timing));
    let _worker = world.worker_at(address, &world.services.database_url(None), settings());
    let mut seen = BTreeMap::new();
    for order in ["stuck", "o-1", "o-2", "o-3", "o-4", "o-5"] {
        write(&world, &[("order.closed", order)]).await;
        let arrived = async || copies(&wire, &other, &mut seen).await;
        let closed = event("order.closed", order);
        until("its first copy", arrived, |seen| seen.contains_key(&closed)).await;
    }
    assert!(seen.values().all(|copies| *copies == 1), "{seen:?}");
}

/// The statement that moves the event is cancelled after seconds.
#[apply(world_test)]
async fn a_refused_event_that_takes_too_long_to_move_holds_up_no_others() {
    let (world, wire) = World::new().await.wired().await;
    full_and_stuck(&world, &wire).await;
    // data: it never ends
    let hangs = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN PERFORM pg_sleep(3600); RETURN OLD; END $$";
    world.sql(hangs).await;
    write(&world, &[("order.closed", "stuck"), ("order.closed", "o-1")]).await;
    let worker = world.worker();
    let aside = async || world.number("SELECT count(*) FROM outbox_refused").await;
    until("o-1 set aside", aside, |aside| *aside == 1).await;
    write(&world, &[("order.shipped", "o-2")]).await;
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("one left", left, |left| *left == 1).await;
    worker.stop().await;
}
