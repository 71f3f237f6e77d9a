//! What is in the database and on the broker in the end.

use std::collections::{BTreeMap, BTreeSet};

use lapin::types::AMQPValue;
use overdue::internals::store::Store;
use tokio_postgres::Row;

use super::judge::{Expected, Order, Parked, Shelf};
use crate::support::{World, messages};

/// Where a subscriber collects the events.
pub const SUBSCRIBER: &str = "subscriber";
/// Units of each SKU before the first order.
pub const STOCK: i64 = 10_000_000;

/// Every change of an order's status is noted by the database itself, whatever the program says.
pub const AUDIT: &str = "
    CREATE TABLE changes (
        n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text NOT NULL,
        new text NOT NULL, due_at timestamptz NOT NULL, at timestamptz NOT NULL
    );
    CREATE INDEX changes_order_id ON changes (order_id);
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = $schema AS $$
        BEGIN
            INSERT INTO changes (order_id, new, due_at, at)
            VALUES (NEW.id, NEW.status, NEW.due_at, clock_timestamp());
            RETURN NULL;
        END $$;
    CREATE TRIGGER note_change AFTER UPDATE ON orders FOR EACH ROW
        WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION note_change();";

const ORDERS: &str = "
    SELECT id, status, (extract(epoch FROM closed_at - due_at) * 1000000)::bigint,
           ARRAY(SELECT (extract(epoch FROM coalesce(pg_xact_commit_timestamp(closures.xmin), closures.closed_at)
                                             - orders.due_at) * 1000000)::bigint
                 FROM closures WHERE order_id = orders.id ORDER BY closures.id),
           ARRAY(SELECT path FROM closures WHERE order_id = orders.id ORDER BY closures.id),
           ARRAY(SELECT new FROM changes WHERE order_id = orders.id ORDER BY n),
           ARRAY(SELECT (extract(epoch FROM at - changes.due_at) * 1000000)::bigint
                 FROM changes WHERE order_id = orders.id ORDER BY n)
    FROM orders";

const SHELVES: &str = "
    SELECT stock.sku, available, reserved, sold,
           coalesce(sum(qty) FILTER (WHERE status = 'unpaid'), 0)::bigint,
           coalesce(sum(qty) FILTER (WHERE status = 'paid'), 0)::bigint
    FROM stock LEFT JOIN order_items USING (sku) LEFT JOIN orders ON orders.id = order_id
    GROUP BY stock.sku ORDER BY stock.sku";

/// When an order was closed and when it was to be, in seconds of the database's clock.
pub struct Closing {
    pub id: String,
    pub due: f64,
    pub committed: f64,
}

/// The database's clock, in seconds.
pub async fn clock(store: &Store) -> f64 {
    rows(store, "SELECT extract(epoch FROM clock_timestamp())::float8").await[0].get(0)
}

/// Every closing.
pub async fn closings(store: &Store) -> Vec<Closing> {
    let sql = "SELECT order_id, extract(epoch FROM due_at)::float8,
                      extract(epoch FROM coalesce(pg_xact_commit_timestamp(xmin), closed_at))::float8
               FROM closures";
    let closing = |row: &Row| Closing { id: row.get(0), due: row.get(1), committed: row.get(2) };
    rows(store, sql).await.iter().map(closing).collect()
}

/// Every order with its history.
pub async fn orders(store: &Store) -> Vec<Order> {
    rows(store, ORDERS).await.iter().map(order).collect()
}

fn order(row: &Row) -> Order {
    let (committed, paths): (Vec<i64>, Vec<String>) = (row.get(3), row.get(4));
    let (changed_to, changed_at): (Vec<String>, Vec<i64>) = (row.get(5), row.get(6));
    Order {
        id: row.get(0),
        status: row.get(1),
        closed_at_us: row.get(2),
        closures: committed.into_iter().zip(paths).collect(),
        changes: changed_to.into_iter().zip(changed_at).collect(),
    }
}

/// Every shelf, beside what the orders say.
pub async fn shelves(store: &Store) -> Vec<Shelf> {
    let shelf = |row: &Row| Shelf {
        sku: row.get(0),
        initial: STOCK,
        available: row.get(1),
        reserved: row.get(2),
        sold: row.get(3),
        in_unpaid: row.get(4),
        in_paid: row.get(5),
    };
    rows(store, SHELVES).await.iter().map(shelf).collect()
}

/// Events that wait to be published.
pub async fn outbox(store: &Store) -> i64 {
    const SQL: &str =
        "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_refused)";
    rows(store, SQL).await[0].get(0)
}

/// How much there is still to do: unpaid orders, events, messages in queues or with a worker, and garbage that is
/// not parked. Nothing where the broker has not counted.
pub async fn unfinished(
    store: &Store,
    world: &World,
    trash: &BTreeMap<String, Expected>,
) -> Option<u64> {
    let unpaid: i64 =
        rows(store, "SELECT count(*) FROM orders WHERE status = 'unpaid'").await[0].get(0);
    let rows = (unpaid + outbox(store).await).unsigned_abs();
    let parked = world.wire().await.ready(&world.topology.parked_queue()).await;
    let to_park = trash.len().saturating_sub(usize::try_from(parked).unwrap());
    Some(rows + in_work(world).await? + u64::try_from(to_park).unwrap())
}

/// Takes everything out of the parking lot.
pub async fn take_parked(world: &World) -> Vec<Parked> {
    let messages = world.wire().await.take_all(&world.topology.parked_queue()).await;
    messages.iter().map(parked).collect()
}

fn parked(message: &messages::Parked) -> Parked {
    let header = |name: &str| match message.headers.get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        _ => String::new(),
    };
    let begin: String = message.text().chars().take(60).collect();
    let died = [header("x-first-death-reason"), header("x-last-death-reason")];
    Parked {
        message_id: message.message_id.clone().unwrap_or_default(),
        reason: header("x-park-reason"),
        about: format!(
            "key {}, deaths {died:?}, attempt {:?}, `{begin}`",
            message.key,
            message.attempt()
        ),
    }
}

/// Takes every event; the orders that they are about.
pub async fn take_events(world: &World) -> BTreeSet<String> {
    let events = world.wire().await.take_all(SUBSCRIBER).await;
    let order = |event: &messages::Parked| {
        let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
        body["order_id"].as_str().unwrap().to_owned()
    };
    events.iter().map(order).collect()
}

/// Messages that are ready in levels and business queues.
pub async fn left(world: &World) -> BTreeMap<String, u32> {
    let wire = world.wire().await;
    let mut left = BTreeMap::new();
    for queue in queues(world) {
        left.insert(queue.clone(), wire.ready(&queue).await);
    }
    left
}

/// Messages that are in levels and business queues or with a worker, as the broker counted them a moment ago;
/// nothing where it has not counted.
async fn in_work(world: &World) -> Option<u64> {
    let all = world.services.api().list_queues_in(&world.vhost).await.ok()?;
    let ours = queues(world);
    let counted = all.iter().filter(|queue| ours.contains(&queue.name));
    Some(counted.map(|queue| queue.message_count).sum())
}

fn queues(world: &World) -> Vec<String> {
    let topology = &world.topology;
    let levels = topology.levels.iter().map(|level| topology.delay_queue(level));
    let business = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
    levels.chain(business).collect()
}

async fn rows(store: &Store, sql: &str) -> Vec<Row> {
    store.client().await.unwrap().query(sql, &[]).await.unwrap()
}
