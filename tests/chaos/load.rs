//! Orders that are due second by second, and what must be true of them in the end.

use crate::support::{World, ids, until};

/// Orders that are due together.
#[derive(Clone, Copy)]
pub struct Wave {
    seconds: usize,
    orders: usize,
}

impl Wave {
    /// `orders` that are due in `seconds`; their level has the same delay.
    pub const fn of(seconds: usize, orders: usize) -> Self {
        Self { seconds, orders }
    }

    pub fn ids(self) -> Vec<String> {
        ids(&format!("due-{}s", self.seconds), self.orders)
    }
}

/// Orders that are due wave by wave.
pub struct Load(Vec<Wave>);

impl Load {
    /// Creates the orders: every second one has items of hot SKUs, the others of their own.
    pub async fn create(world: &World, waves: &[Wave]) -> Self {
        let row = |wave: &Wave| format!("({}, {})", wave.seconds, wave.orders);
        let rows: Vec<String> = waves.iter().map(row).collect();
        world.sql(&SCRIPT.replace("$waves", &rows.join(", "))).await;
        Self(waves.to_vec())
    }

    /// Publishes a confirmed message per order.
    pub async fn publish(&self, world: &World) {
        for wave in &self.0 {
            publish(world, *wave).await;
        }
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|wave| wave.orders).sum()
    }

    /// Waits until every order is closed, then checks that no message is left anywhere: each order was closed once,
    /// its stock was given back, and no message was parked.
    pub async fn until_done(&self, world: &World) {
        let count = i64::try_from(self.len()).unwrap();
        let what = format!("{count} orders closed");
        until(&what, async || world.closed().await, |closed| *closed == count).await;
        world.assert_invariants().await;
        let closures = "SELECT count(DISTINCT order_id) FROM closures";
        assert_eq!(world.number(closures).await, count, "orders with a closure");
        assert_eq!(world.number("SELECT sum(reserved)::bigint FROM stock").await, 0, "reserved");
        assert_nothing_left(world).await;
    }
}

const SCRIPT: &str = "
    INSERT INTO orders (id, due_at)
    SELECT 'due-' || seconds || 's-' || n, now() + seconds * interval '1 second'
    FROM (VALUES $waves) AS waves (seconds, orders), generate_series(0, orders - 1) n;

    CREATE TEMPORARY TABLE items ON COMMIT DROP AS
    SELECT id AS order_id, k + 1 AS qty,
           CASE WHEN number % 2 = 0 THEN 'hot-' || (number + k) % 5 ELSE id || '/' || k END AS sku
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM orders) numbered,
         generate_series(0, 1) k;

    INSERT INTO stock (sku, available, reserved)
    SELECT sku, 1000000 - sum(qty), sum(qty) FROM items GROUP BY sku;

    INSERT INTO order_items (order_id, sku, qty) SELECT order_id, sku, qty FROM items;
";

/// Publishes a confirmed message per order of a wave.
pub async fn publish(world: &World, wave: Wave) {
    world.publish(&format!("{}s", wave.seconds), &wave.ids()).await;
}

/// Waits until every level and business queue is empty; the parking lot must be empty as well.
async fn assert_nothing_left(world: &World) {
    let topology = &world.topology;
    for level in &topology.levels {
        world.until_empty(&topology.delay_queue(level)).await;
    }
    for timeout in &topology.timeouts {
        world.until_empty(&topology.business_queue(timeout)).await;
    }
    assert_nothing_parked(world).await;
}

async fn assert_nothing_parked(world: &World) {
    let parked = world.wire().await.take(&world.topology.parked_queue()).await;
    assert_eq!(parked, None, "something was parked");
}
