//! Rows of the outbox that are published and stay, or are refused and stay: they hold up no others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use overdue::internals::{store::Connection, timing::Timing};
use tokio_postgres::SimpleQueryMessage;

use super::events::{copies, write};
use crate::support::{World, pages::metrics, statements::found, until, worker::settings};

const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const WRITERS: &str = include_str!("../../sql/outgoing_writers.sql");
/// The sessions that publish the outbox.
const LEADERS: &str =
    "FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 'outbox'::regclass";

async fn until_published(world: &World) {
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("the outbox empty", left, |rows| *rows == 0).await;
}

/// Before, nothing was forgotten, and the same events were published every few seconds.
#[apply(world_test)]
async fn rows_that_are_locked_or_cannot_be_deleted_hold_up_no_others() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let orders: Vec<String> = (0..40).map(|n| format!("o-{n}")).collect();
    let events: Vec<_> = orders.iter().map(|order| ("order.closed", order.as_str())).collect();
    write(&world, &events).await;
    let keeps = "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN IF OLD.order_id = 'o-9' THEN RETURN NULL; END IF; RAISE 'never'; END $$;
                 CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW
                 WHEN (OLD.event = 'order.closed' AND OLD.order_id IN ('o-7', 'o-9')) EXECUTE FUNCTION keep()";
    world.sql(keeps).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    let lock = "SELECT FROM outbox WHERE order_id = 'o-20' FOR UPDATE";
    assert_eq!(held.execute(lock, &[]).await.unwrap(), 1);
    let _worker = world.worker();
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("three rows left", left, |left| *left == 3).await;
    write(&world, &[("order.paid", "o-7"), ("order.paid", "o-20"), ("order.paid", "o-41")]).await;
    let mut seen = BTreeMap::new();
    let arrived = async || copies(&wire, &subscriber, &mut seen).await.len();
    until("43 events", arrived, |arrived| *arrived == 43).await;
    held.rollback().await.unwrap();
    until("two rows left", left, |left| *left == 2).await;
    // What the broker was slow to confirm may have come twice.
    let seen = copies(&wire, &subscriber, &mut seen).await;
    assert!(seen.values().all(|copies| *copies <= 3), "{seen:?}");
}

/// A DELETE that hangs is given up after seconds, and the others are deleted.
#[apply(world_test)]
async fn a_row_whose_deletion_takes_too_long_holds_up_no_others() {
    let world = World::new().await;
    // data: it never ends
    let hangs = "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN PERFORM pg_sleep(3600); RETURN OLD; END $$;
                 CREATE TRIGGER hang BEFORE DELETE ON outbox FOR EACH ROW WHEN (OLD.order_id = 'o-1') EXECUTE FUNCTION hang()";
    world.sql(hangs).await;
    write(&world, &[("order.closed", "o-1"), ("order.closed", "o-2")]).await;
    let worker = world.worker();
    let left = "SELECT count(*) FROM outbox";
    until("one row left", async || world.number(left).await, |left| *left == 1).await;
    write(&world, &[("order.closed", "o-3")]).await;
    let others = "SELECT count(*) FROM outbox WHERE order_id <> 'o-1'";
    until("no others left", async || world.number(others).await, |left| *left == 0).await;
    worker.stop().await;
}

/// How many blocks a claim reads.
async fn blocks(client: &Connection, after: i64) -> i64 {
    let after = after.to_string();
    let claim = found(CLAIM)
        .replace("$1", "2000")
        .replace("$2", "'{}'")
        .replace("$3", &after)
        .replace("$4", "9223372036854775807");
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
#[apply(world_test)]
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
    let floor = async || worker.worker.passed_over().low_watermark;
    until("all are gone", floor, |floor| *floor == EVENTS).await;
    let (whole, asked) = (blocks(&client, 0).await, blocks(&client, EVENTS).await);
    assert!(whole > 10 * asked, "{asked} of {whole} blocks");
    old.batch_execute("COMMIT").await.unwrap();
}

/// Many rows are gone by then.
#[apply(world_test)]
async fn the_floor_rises_before_the_next_look_at_everything() {
    const EVENTS: i64 = 3_000;
    let world = World::new().await;
    let hour = Duration::from_hours(1); // data: it looks at everything once
    let timing = Timing { look_at_everything: hour, ..Timing::often() };
    let address = world.address().with_timing(Arc::new(timing));
    let worker = world.worker_at(address, &world.services.database_url(None), settings());
    write(&world, &[("first", "o-0")]).await;
    until_published(&world).await;
    let write = format!(
        "INSERT INTO outbox (event, order_id) SELECT 'e', 'o-' || n FROM generate_series(1, {EVENTS}) n"
    );
    world.sql(&write).await;
    let floor = async || worker.worker.passed_over().low_watermark;
    until("all are gone", floor, |floor| *floor > EVENTS / 2).await;
    until_published(&world).await;
    worker.stop().await;
}

/// Its row comes before the events that its order gets later, and may have the smaller id.
#[apply(world_test)]
async fn a_transaction_that_has_written_an_event_is_known_until_it_ends() {
    let world = World::of_tables().await;
    let (client, writer) =
        (world.store.client().await.unwrap(), world.store.client().await.unwrap());
    let look = async || client.query(WRITERS, &[&"outbox"]).await.unwrap().len();
    assert_eq!(look().await, 0);
    let late = "BEGIN; INSERT INTO outbox (event, order_id) VALUES ('first', 'o-1')";
    writer.batch_execute(late).await.unwrap();
    write(&world, &[("second", "o-2")]).await;
    assert_eq!(look().await, 1);
    writer.batch_execute("COMMIT").await.unwrap();
    assert_eq!(look().await, 0);
}

/// Nobody waits for an event that is published.
#[apply(world_test)]
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
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("it alone is left", left, |left| *left == 1).await;
}

/// The others of its page are set aside, and what may be published goes out.
#[apply(world_test)]
async fn a_refused_event_that_cannot_be_moved_holds_up_no_others() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.events", r"^order\.").await;
    let raises = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'never'; END $$; \
                  CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW \
                  WHEN (OLD.order_id = 'o-1') EXECUTE FUNCTION refuse()";
    world.sql(raises).await;
    write(&world, &[("secret", "o-1"), ("secret", "o-2"), ("order.closed", "o-3")]).await;
    let address = world.address_of(Some(&user));
    let _worker = world.worker_at(address, &world.services.database_url(None), settings());
    let refused = async || world.number("SELECT count(*) FROM outbox_refused").await;
    until("the other one is set aside", refused, |refused| *refused == 1).await;
    write(&world, &[("order.closed", "o-4")]).await;
    let mut seen = BTreeMap::new();
    let arrived = async || copies(&wire, &subscriber, &mut seen).await.len();
    until("what is permitted", arrived, |arrived| *arrived == 2).await;
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("it alone is left", left, |left| *left == 1).await;
}

/// What is published stays known as long as it cannot be deleted; when that is too much, nothing more is published.
#[apply(world_test)]
async fn rows_that_nothing_deletes_are_published_once() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let keeps =
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
                 CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()";
    world.sql(keeps).await;
    let many = "INSERT INTO outbox (event, order_id) SELECT 'e', 'o-' || n FROM generate_series(1, 13000) n";
    world.sql(many).await;
    let mut worker = world.started(|_| {}).await;
    worker.until_logged("rows of outbox are published and cannot be deleted").await;
    // PostgreSQL ends a session that asks for nothing, and the next one would publish all of them again.
    let leader = world.number(&format!("SELECT pid::bigint {LEADERS}")).await;
    let now: String = world.rows("SELECT clock_timestamp()::text").await[0].get(0);
    let asks = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {leader} AND query LIKE '-- outbox_claim:%' AND query_start > '{now}'"
    );
    until("it asks", async || world.number(&asks).await, |asks| *asks == 1).await;
    let first = wire.ready(&subscriber).await;
    assert!((10_000..13_000).contains(&first), "{first}");
    world.sql("ALTER TABLE outbox DISABLE TRIGGER USER").await;
    let left = async || world.number("SELECT count(*) FROM outbox").await;
    until("all deleted", left, |left| *left == 0).await;
    let all = async || wire.ready(&subscriber).await;
    until("the others", all, |all| *all >= 13_000).await;
}
