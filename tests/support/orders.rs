//! Orders in the reference schema: creating, paying, counting, and their invariants.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use deadpool_postgres::Transaction;
use overdue::internals::{
    effect::EffectKeys,
    store::{Connection, orders::Effect},
};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Row};

use super::{World, statements::found, until};

pub const INVARIANTS: &str = include_str!("../../sql/invariants.sql");
/// Units of each SKU before the first order.
pub const STOCK: i64 = 1_000_000;
/// SKUs that orders share, so that batches meet on their rows.
const SKUS: i64 = 5;

/// A statement that closes orders as a team might write it by hand: it locks and closes at once.
pub const WRITTEN: &str = include_str!("../written/close.sql");
/// The statement that finds overdue orders.
pub const WRITTEN_OVERDUE: &str = include_str!("../written/close_overdue.sql");

/// The effect `close` with this statement instead of a description.
pub fn written(sql: &str) -> Effect {
    Effect::written("close", sql, Some(WRITTEN_OVERDUE))
}

/// An effect from the keys of its description, or from a file of keys.
pub fn described(name: &str, text: &str) -> Effect {
    let mut keys: toml::Table = toml::from_str(text).unwrap();
    if let Some(effects) = keys.remove("effects") {
        keys = effects[name].as_table().unwrap().clone();
    }
    let keys: EffectKeys = keys.try_into().unwrap();
    Effect::described(keys.description(name).unwrap().unwrap())
}

/// `prefix-0`, `prefix-1`, …
pub fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

/// Orders to create.
pub struct Orders<'a> {
    pub ids: &'a [String],
    /// Deadline, in ms from now by the database's clock; negative values are in the past.
    pub due_in_ms: i64,
    pub category: &'a str,
}

/// Locks the row of an order until the transaction ends.
pub async fn hold<'a>(client: &'a mut Connection, id: &str) -> Transaction<'a> {
    let transaction = client.transaction().await.unwrap();
    let sql = "SELECT id FROM orders WHERE id = $1 FOR UPDATE";
    assert!(transaction.query_opt(sql, &[&id]).await.unwrap().is_some());
    transaction
}

impl World {
    /// Creates unpaid orders in one transaction, each with two items whose stock is reserved.
    pub async fn create(&self, orders: Orders<'_>) {
        const SQL: &str = "
            WITH shelves AS (
                INSERT INTO stock (sku, available)
                SELECT 'sku-' || n, $4 FROM generate_series(0, $5 - 1) n ON CONFLICT DO NOTHING
            )
            SELECT 1";
        const ORDERS: &str = "
            WITH wanted AS MATERIALIZED (
                SELECT id, n FROM unnest($1::text[]) WITH ORDINALITY AS t (id, n)
            ), made AS (
                INSERT INTO orders (id, category, due_at)
                SELECT id, $3, now() + $2 * interval '1 millisecond' FROM wanted
            ), items AS (
                INSERT INTO order_items (order_id, sku, qty)
                SELECT id, 'sku-' || (n + k) % $4, k + 1 FROM wanted, generate_series(0, 1) k
                RETURNING sku, qty
            ), sums AS MATERIALIZED (
                SELECT sku, sum(qty)::bigint AS qty FROM items GROUP BY sku
            ), shelves AS MATERIALIZED (
                SELECT stock.sku, sums.qty FROM stock JOIN sums USING (sku)
                ORDER BY stock.sku FOR NO KEY UPDATE OF stock
            )
            UPDATE stock SET available = available - shelves.qty, reserved = reserved + shelves.qty
            FROM shelves WHERE stock.sku = shelves.sku";
        let mut client = self.store.client().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let sql = SQL.replace("$4", &STOCK.to_string()).replace("$5", &SKUS.to_string());
        transaction.batch_execute(&sql).await.unwrap();
        let Orders { ids, due_in_ms, category } = orders;
        #[expect(clippy::cast_precision_loss, reason = "a test's deadline is small")]
        let due_in_ms = due_in_ms as f64;
        transaction.execute(ORDERS, &[&ids, &due_in_ms, &category, &SKUS]).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// Creates `prefix-0`, … due in `due_in_ms`.
    pub async fn orders(&self, prefix: &str, count: usize, due_in_ms: i64) -> Vec<String> {
        let ids = ids(prefix, count);
        self.create(Orders { ids: &ids, due_in_ms, category: "physical" }).await;
        ids
    }

    /// Creates `prefix-0`, … that are due and have no items: closing them waits for no stock row.
    pub async fn orders_without_stock(&self, prefix: &str, count: usize) -> Vec<String> {
        const SQL: &str =
            "INSERT INTO orders (id, due_at) SELECT id, now() FROM unnest($1::text[]) AS t (id)";
        let ids = ids(prefix, count);
        self.store.client().await.unwrap().execute(SQL, &[&ids]).await.unwrap();
        ids
    }

    /// Creates orders that are due in a second, and publishes their notices, until the flag is set; the task returns their number.
    pub async fn streaming(&self) -> (Arc<AtomicBool>, JoinHandle<usize>) {
        const ORDER: &str = "INSERT INTO orders (id, category, due_at) \
                             VALUES ($1, 'physical', now() + interval '1 second')";
        let (publisher, store) = (self.publisher().await, self.store.clone());
        let publishing = Arc::new(AtomicBool::new(true));
        let (notice, go_on) = (self.notice("1s", "template"), Arc::clone(&publishing));
        let stream = tokio::spawn(async move {
            let client = store.client().await.unwrap();
            let mut count = 0_usize;
            while go_on.load(Ordering::Relaxed) {
                let id = format!("streamed-{count}");
                client.execute(ORDER, &[&id]).await.unwrap();
                let body = serde_json::json!({ "order_id": id }).to_string().into_bytes();
                let message =
                    overdue::internals::wire::Message { message_id: id, body, ..notice.clone() };
                publisher.publish(message).await.unwrap();
                count += 1;
            }
            count
        });
        (publishing, stream)
    }

    /// Pays like the reference order service; returns whether it took the payment.
    pub async fn pay(&self, id: &str) -> bool {
        const SQL: &str = include_str!("../../sql/pay.sql");
        let client = self.store.client().await.unwrap();
        client.query_opt(SQL, &[&id]).await.unwrap().is_some()
    }

    /// Ships like the reference order service; returns whether the order could be shipped.
    pub async fn ship(&self, id: &str) -> bool {
        const SQL: &str = include_str!("../../sql/ship.sql");
        let client = self.store.client().await.unwrap();
        client.query_opt(SQL, &[&id]).await.unwrap().is_some()
    }

    /// Confirms like the reference order service; returns whether the order could be confirmed.
    pub async fn confirm(&self, id: &str) -> bool {
        const SQL: &str = include_str!("../../sql/confirm.sql");
        let client = self.store.client().await.unwrap();
        client.query_opt(SQL, &[&id]).await.unwrap().is_some()
    }

    /// Brings an unpaid order to a state, through the allowed steps.
    pub async fn bring_to(&self, id: &str, state: &str) {
        let ends = format!("UPDATE orders SET status = '{state}' WHERE id = '{id}'");
        match state {
            "unpaid" => {}
            "closed" => self.sql(&ends).await,
            _ => assert!(self.pay(id).await, "{id}"),
        }
        match state {
            "cancelled" => self.sql(&ends).await,
            "shipped" | "completed" => assert!(self.ship(id).await, "{id}"),
            _ => {}
        }
        assert!(state != "completed" || self.confirm(id).await, "{id}");
        assert_eq!(self.status(id).await, state);
    }

    /// Sets the deadline of every unpaid order to now.
    pub async fn due_now(&self) {
        self.sql("UPDATE orders SET due_at = now() WHERE status = 'unpaid'").await;
    }

    /// Runs statements in the test's schema.
    pub async fn sql(&self, script: &str) {
        self.store.client().await.unwrap().batch_execute(script).await.unwrap();
    }

    /// Reads a number from the database.
    pub async fn number(&self, sql: &str) -> i64 {
        self.rows(sql).await[0].get(0)
    }

    /// Reads rows from the database.
    pub async fn rows(&self, sql: &str) -> Vec<Row> {
        self.store.client().await.unwrap().query(sql, &[]).await.unwrap()
    }

    /// Reads the first column of each row.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        self.rows(sql).await.iter().map(|row| row.get(0)).collect()
    }

    /// Counts the rows of a table: `outbox`, or `outbox WHERE order_id = 'o-1'`.
    pub async fn rows_of(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {table}")).await
    }

    /// Waits until a table has `count` rows.
    pub async fn until_rows(&self, table: &str, count: i64) {
        let what = format!("{count} rows of {table}");
        until(&what, async || self.rows_of(table).await, |rows| *rows == count).await;
    }

    pub async fn statuses(&self) -> BTreeMap<String, i64> {
        let rows = self.rows("SELECT status, count(*) FROM orders GROUP BY status").await;
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    pub async fn status(&self, id: &str) -> String {
        let client = self.store.client().await.unwrap();
        let row = client.query_one("SELECT status FROM orders WHERE id = $1", &[&id]).await;
        row.unwrap().get(0)
    }

    /// The number of closed orders.
    pub async fn closed(&self) -> i64 {
        self.statuses().await.get("closed").copied().unwrap_or(0)
    }

    /// Waits until `count` orders are closed.
    pub async fn until_closed(&self, count: usize) {
        let count = i64::try_from(count).unwrap();
        let what = format!("{count} orders closed");
        until(
            &what,
            async || self.statuses().await,
            |seen| seen.get("closed").copied().unwrap_or(0) >= count,
        )
        .await;
    }

    /// Stops every statement that closes the order in its middle, until the transaction ends. It waits for no lock: a
    /// lock would be skipped.
    pub async fn stall<'a>(&self, client: &'a mut Connection, id: &str) -> Transaction<'a> {
        let key = format!("hashtext('{}')", self.schema);
        self.sql(&format!(
            "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 WHILE NOT pg_try_advisory_xact_lock_shared({key}) LOOP PERFORM pg_sleep(0.01); END LOOP;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER stall BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.id = '{id}' AND NEW.status = 'closed') EXECUTE FUNCTION stall()"
        ))
        .await;
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({key})")).await.unwrap();
        transaction
    }

    /// Waits until [`Self::stall`] has stopped a statement; a statement that waits for a lock may be another.
    pub async fn until_stalled(&self) {
        let stalled =
            format!("SELECT count(*) FROM ({}) stalled", self.found("wait_event = 'PgSleep'"));
        until("stalled", async || self.number(&stalled).await, |stalled| *stalled > 0).await;
    }

    /// The start of the oldest statement of other sessions on the world's tables, if one runs.
    pub async fn running_since(&self) -> Option<String> {
        let running = self.found("state = 'active'");
        let since = "SELECT min(query_start)::text FROM pg_stat_activity WHERE pid IN";
        self.rows(&format!("{since} ({running})")).await[0].get(0)
    }

    /// Waits until a statement of another session waits for a lock on the world's tables, or is stalled.
    pub async fn until_somebody_waits(&self) {
        until("somebody waits for a lock", async || self.somebody_waits().await, |waits| *waits)
            .await;
    }

    /// Whether a statement of another session waits for a lock on the world's tables, or is stalled.
    pub async fn somebody_waits(&self) -> bool {
        self.many_wait().await > 0
    }

    /// The number of waiting or stalled statements of other sessions.
    pub async fn many_wait(&self) -> i64 {
        self.number(&format!("SELECT count(*) FROM ({}) waiting", self.waiting())).await
    }

    /// Ends the connections whose statements wait for a lock on the world's tables.
    pub async fn terminate_waiting(&self) -> i64 {
        let waiting = self.waiting();
        self.number(&format!("SELECT count(pg_terminate_backend(pid)) FROM ({waiting}) waiting"))
            .await
    }

    /// Cancels the statements that wait for a lock on the world's tables, or are stalled; returns their number.
    pub async fn cancel_waiting(&self) -> i64 {
        let waiting = self.waiting();
        self.number(&format!("SELECT count(pg_cancel_backend(pid)) FROM ({waiting}) waiting")).await
    }

    fn waiting(&self) -> String {
        self.found("(wait_event_type = 'Lock' OR wait_event = 'PgSleep')")
    }

    fn found(&self, which: &str) -> String {
        format!(
            "SELECT pid FROM pg_stat_activity a WHERE {which} AND EXISTS (
                 SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
                 WHERE l.pid = a.pid AND c.relnamespace = '{}'::regnamespace)",
            self.schema
        )
    }

    /// Asserts the invariants of `sql/invariants.sql`, which must be true at every moment and after every fault.
    ///
    /// # Panics
    /// Lists every violation.
    pub async fn assert_invariants(&self) {
        let client = self.store.client().await.unwrap();
        let broken = broken(&client, "", (false, &[])).await;
        assert!(broken.is_empty(), "invariants broken:\n{}", broken.join("\n"));
    }
}

/// Returns the violations of the orders and SKUs of a prefix, each with an example. `finished` and the pairs of order and
/// answer are as in `sql/invariants.sql`.
pub async fn broken(
    client: &Client,
    prefix: &str,
    (finished, answers): (bool, &[(&str, &str)]),
) -> Vec<String> {
    let (ids, answers): (Vec<&str>, Vec<&str>) = answers.iter().copied().unzip();
    let rows = client
        .query(&found(INVARIANTS), &[&prefix, &STOCK, &finished, &ids, &answers])
        .await
        .unwrap();
    broken_rows(&rows)
}

/// Returns the rows of [`INVARIANTS`] that report a violation.
pub fn broken_rows(rows: &[Row]) -> Vec<String> {
    let broken = rows.iter().filter(|row| row.get::<_, i64>("broken") > 0);
    let text = |row: &Row| {
        let (what, example): (&str, Option<&str>) = (row.get("what"), row.get("example"));
        format!("{what}: {}", example.unwrap_or_default())
    };
    broken.map(text).collect()
}
