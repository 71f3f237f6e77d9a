//! Relays: one publishes at a time, and what it has comes back when it dies.

use std::collections::BTreeMap;

use overdue::internals::store::Connection;
use tokio_postgres::SimpleQueryMessage;

use super::events::{copies, write};
use crate::support::{World, pages::metrics, until};

const BEGIN: &str = include_str!("../../sql/outbox_begin.sql");
const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const HOLD: &str = include_str!("../../sql/outbox_hold.sql");
const FLOOR: &str = include_str!("../../sql/outbox_floor.sql");
const DONE: &str = include_str!("../../sql/outbox_done.sql");

/// Id, order and name of each event that a claim takes.
async fn claim(client: &Connection, limit: i64) -> Vec<(i64, String, String)> {
    client.batch_execute(BEGIN).await.unwrap();
    let rows = client.query(CLAIM, &[&limit, &Vec::<i64>::new(), &0_i64]).await.unwrap();
    client.batch_execute(HOLD).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(2), row.get(1))).collect()
}

async fn finish(client: &Connection, claimed: &[(i64, String, String)]) {
    let ids: Vec<i64> = claimed.iter().map(|(id, ..)| *id).collect();
    client.execute(DONE, &[&ids]).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
}

fn names(claimed: &[(i64, String, String)]) -> Vec<String> {
    claimed.iter().map(|(_, order, event)| format!("{order} {event}")).collect()
}

async fn pid(client: &Connection) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// Until a connection waits for the one that has the outbox.
async fn until_in_line(world: &World, pid: i32) {
    let sql = format!(
        "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted"
    );
    until("in line", async || world.number(&sql).await, |waiting| *waiting == 1).await;
}

/// Two relays on two connections, one step at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_waits_while_another_one_publishes_and_writers_do_not() {
    let world = World::new().await;
    let (one, other) = (world.store.client().await.unwrap(), world.store.client().await.unwrap());
    write(&world, &[("first", "x"), ("second", "x"), ("first", "y")]).await;
    let first = claim(&one, 1).await;
    assert_eq!(names(&first), ["x first"]);
    let waits = pid(&other).await;
    let second = tokio::spawn(async move {
        let claimed = claim(&other, 500).await;
        (claimed, other)
    });
    until_in_line(&world, waits).await;
    write(&world, &[("third", "x")]).await;
    // As long as it publishes it holds back no vacuum.
    let holds = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)",
        pid_of_holder(&world).await
    );
    assert_eq!(world.number(&holds).await, 0);
    finish(&one, &first).await;
    let (second, other) = second.await.unwrap();
    assert_eq!(names(&second), ["x second", "y first", "x third"]);
    finish(&other, &second).await;
    assert_eq!(world.number("SELECT count(*) FROM outbox").await, 0);
}

async fn pid_of_holder(world: &World) -> i64 {
    let holder = "SELECT pid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted \
                  AND objid = 'outbox'::regclass";
    world.number(holder).await
}

/// What it had comes back with its connection, without any waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_dies_or_hangs_gives_everything_back() {
    let world = World::new().await;
    let (dies, hangs) = (world.store.client().await.unwrap(), world.store.client().await.unwrap());
    let other = world.store.client().await.unwrap();
    write(&world, &[("first", "x"), ("second", "x")]).await;
    let taken = claim(&dies, 500).await;
    world.sql(&format!("SELECT pg_terminate_backend({})", pid(&dies).await)).await;
    assert_eq!(claim(&hangs, 500).await, taken);
    // Shorter than in the file, which gives it 20 s.
    hangs.batch_execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'").await.unwrap();
    assert_eq!(claim(&other, 500).await, taken);
    until("the hanging one is ended", async || hangs.is_closed(), |closed| *closed).await;
    finish(&other, &taken).await;
}

/// Five relays that claim, publish and forget at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_beside_each_other_keep_the_order_of_each_orders_events() {
    let world = World::new().await;
    world
        .sql(
            "INSERT INTO outbox (event, order_id)
             SELECT 'e', 'o-' || n % 7 FROM generate_series(1, 3000) n",
        )
        .await;
    let published = std::sync::Mutex::new(Vec::new());
    let relays = (0..5).map(async |_| {
        let client = world.store.client().await.unwrap();
        loop {
            let claimed = claim(&client, 20).await;
            let events = claimed.iter().map(|(id, order, _)| (order.clone(), *id));
            published.lock().unwrap().extend(events);
            finish(&client, &claimed).await;
            if claimed.is_empty() {
                break;
            }
        }
    });
    futures_util::future::join_all(relays).await;
    let published = published.into_inner().unwrap();
    assert_eq!(published.len(), 3_000);
    let mut last = BTreeMap::new();
    for (order, id) in published {
        let before = last.insert(order.clone(), id).unwrap_or_default();
        assert!(before < id, "{order}: {id} after {before}");
    }
}

/// Before, nothing was forgotten, and the same events were published every few seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_locked_or_cannot_be_deleted_hold_up_no_others() {
    let world = World::new().await;
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let orders: Vec<String> = (0..40).map(|n| format!("o-{n}")).collect();
    let events: Vec<_> = orders.iter().map(|order| ("order.closed", order.as_str())).collect();
    write(&world, &events).await;
    let raises = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'never'; END $$; \
                  CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW \
                  WHEN (OLD.event = 'order.closed' AND OLD.order_id = 'o-7') EXECUTE FUNCTION refuse()";
    world.sql(raises).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    let lock = "SELECT FROM outbox WHERE order_id = 'o-20' FOR UPDATE";
    assert_eq!(held.execute(lock, &[]).await.unwrap(), 1);
    let _worker = world.worker();
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("two rows left", left, |left| *left == 2).await;
    write(&world, &[("order.paid", "o-7"), ("order.paid", "o-20"), ("order.paid", "o-41")]).await;
    let mut seen = BTreeMap::new();
    let arrived = async || copies(&wire, &subscriber, &mut seen).await.len();
    until("43 events", arrived, |arrived| *arrived == 43).await;
    held.rollback().await.unwrap();
    until("one row left", left, |left| *left == 1).await;
    // What the broker was slow to confirm may have come twice.
    let seen = copies(&wire, &subscriber, &mut seen).await;
    assert!(seen.values().all(|copies| *copies <= 3), "{seen:?}");
}

/// How many blocks a claim reads.
async fn blocks(client: &Connection, after: i64) -> i64 {
    let claim = CLAIM.replace("$1", "2000").replace("$2", "'{}'").replace("$3", &after.to_string());
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {claim}");
    let said = client.simple_query(&explain).await.unwrap();
    let plan = said.iter().find_map(|said| match said {
        SimpleQueryMessage::Row(row) => serde_json::from_str(row.get(0)?).ok(),
        _ => None,
    });
    let plan: serde_json::Value = plan.unwrap();
    let count = |blocks: &str| plan[0]["Plan"][blocks].as_i64().unwrap();
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}

/// A backup keeps what was deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_an_old_snapshot_a_claim_does_not_read_what_is_gone() {
    const EVENTS: i64 = 10_000;
    let world = World::new().await;
    let client = world.store.client().await.unwrap();
    let old = world.store.client().await.unwrap();
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox").await.unwrap();
    let write = format!(
        "INSERT INTO outbox (event, order_id) SELECT 'e', 'o-' || n FROM generate_series(1, {EVENTS}) n"
    );
    world.sql(&write).await;
    let worker = world.worker();
    let floor = async || worker.worker.passed_over().floor;
    until("all are gone", floor, |floor| *floor == EVENTS).await;
    let (whole, asked) = (blocks(&client, 0).await, blocks(&client, EVENTS).await);
    assert!(whole > 10 * asked, "{asked} of {whole} blocks");
    old.batch_execute("COMMIT").await.unwrap();
}

/// Its row comes before the events that its order gets later, and may have the smaller id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_has_written_an_event_is_known_until_it_ends() {
    let world = World::new().await;
    let (client, writer) =
        (world.store.client().await.unwrap(), world.store.client().await.unwrap());
    let look = async || {
        let row = client.query_one(FLOOR, &[&Vec::<i64>::new()]).await.unwrap();
        (row.get::<_, Option<i64>>("first"), row.get::<_, Vec<String>>("writers").len())
    };
    assert_eq!(look().await, (None, 0));
    let late = "BEGIN; INSERT INTO outbox (event, order_id) VALUES ('first', 'o-1')";
    writer.batch_execute(late).await.unwrap();
    write(&world, &[("second", "o-2")]).await;
    assert_eq!(look().await, (Some(2), 1));
    writer.batch_execute("COMMIT").await.unwrap();
    assert_eq!(look().await, (Some(1), 0));
}

/// Nobody waits for an event that is published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_event_whose_row_cannot_be_deleted_does_not_count_as_waiting() {
    let world = World::new().await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'never'; END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW WHEN (OLD.order_id = 'o-7') EXECUTE FUNCTION refuse();
             INSERT INTO outbox (event, order_id, created_at) SELECT 'e', 'o-' || n, now() - interval '1 h' FROM generate_series(1, 40) n",
        )
        .await;
    let (_worker, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__WATCH_EVERY", "200ms");
        })
        .await;
    let waiting = async || {
        let seen = metrics(address).await;
        let series = ["overdue_outbox_events", "overdue_outbox_oldest_seconds"];
        series.map(|series| seen.get(series).copied())
    };
    until("nothing waits", waiting, |seen| *seen == [Some(0.0), Some(0.0)]).await;
    assert_eq!(world.number("SELECT count(*) FROM outbox").await, 1);
}

/// Otherwise what gets the id of an event that is published, after a failover, would be deleted without being published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_ends_what_is_known_of_published_rows() {
    let world = World::new().await;
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let raises = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'never'; END $$; \
                  CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW \
                  WHEN (OLD.order_id = 'o-1') EXECUTE FUNCTION refuse()";
    world.sql(raises).await;
    write(&world, &[("order.closed", "o-1")]).await;
    let worker = world.worker();
    let undeleted = async || worker.worker.passed_over().undeleted;
    until("published and not deleted", undeleted, |rows| *rows == [1]).await;
    let other = world.store.client().await.unwrap();
    other.batch_execute(BEGIN).await.unwrap();
    write(&world, &[("order.closed", "o-2")]).await;
    let in_line =
        "FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 'outbox'::regclass";
    let ended = async || {
        world.number(&format!("SELECT count(pg_terminate_backend(pid)) {in_line}")).await;
        undeleted().await
    };
    until("the connection is lost", ended, Vec::is_empty).await;
    let restore = "ALTER TABLE outbox DISABLE TRIGGER USER; DELETE FROM outbox; \
                   INSERT INTO outbox (id, event, order_id) OVERRIDING SYSTEM VALUE VALUES (1, 'order.closed', 'o-3')";
    other.batch_execute(restore).await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    let mut seen = BTreeMap::new();
    let event = ("order.closed".to_owned(), "o-3".to_owned());
    let arrived = async || copies(&wire, &subscriber, &mut seen).await;
    until("the event", arrived, |seen| seen.contains_key(&event)).await;
}
