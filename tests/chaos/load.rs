//! Orders that come due second by second, and what has to be true of them in the end.

use futures_util::future::join_all;
use overdue::internals::broker::{PublishError, Publisher};
use tokio::sync::watch;

use crate::support::{World, ids, until};

/// Messages on their way at once.
const WINDOW: usize = 5;

/// Fifty orders in each of eight seconds: some come due before an outage, some in it, some after it.
pub const EIGHT_SECONDS: [Wave; 8] = [
    Wave::of(1, 50),
    Wave::of(2, 50),
    Wave::of(3, 50),
    Wave::of(4, 50),
    Wave::of(5, 50),
    Wave::of(6, 50),
    Wave::of(7, 50),
    Wave::of(8, 50),
];

/// Orders that come due together.
#[derive(Clone, Copy)]
pub struct Wave {
    seconds: usize,
    orders: usize,
}

impl Wave {
    /// `orders` that are due in `seconds`, which is also their level.
    pub const fn of(seconds: usize, orders: usize) -> Self {
        Self { seconds, orders }
    }

    /// Their ids.
    pub fn ids(self) -> Vec<String> {
        ids(&format!("due-{}s", self.seconds), self.orders)
    }
}

/// Orders that come due wave by wave.
pub struct Load(Vec<Wave>);

impl Load {
    /// Creates the orders: every second one has items of hot SKUs, the others of their own.
    pub async fn create(world: &World, waves: &[Wave]) -> Self {
        let row = |wave: &Wave| format!("({}, {})", wave.seconds, wave.orders);
        let rows: Vec<String> = waves.iter().map(row).collect();
        world.sql(&SCRIPT.replace("$waves", &rows.join(", "))).await;
        Self(waves.to_vec())
    }

    /// Publishes a message per order; all of them are confirmed.
    pub async fn publish(&self, world: &World) {
        for wave in &self.0 {
            publish(world, *wave).await;
        }
    }

    /// How many orders there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|wave| wave.orders).sum()
    }

    /// Waits until every order is closed and no message is left anywhere: each was closed once, its stock is
    /// back, and nothing was parked.
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

/// Publishes a message per order of a wave; all of them are confirmed.
pub async fn publish(world: &World, wave: Wave) {
    world.publish(&format!("{}s", wave.seconds), &wave.ids()).await;
}

/// Waits until every level and business queue is empty; the parking lot has to be, too.
pub async fn assert_nothing_left(world: &World) {
    let topology = &world.topology;
    for level in &topology.levels {
        world.until_empty(&topology.delay_queue(level)).await;
    }
    for timeout in &topology.timeouts {
        world.until_empty(&topology.business_queue(timeout)).await;
    }
    assert_nothing_parked(world).await;
}

/// The parking lot is empty.
pub async fn assert_nothing_parked(world: &World) {
    let parked = world.wire().await.take(&world.topology.parked_queue()).await;
    assert_eq!(parked, None, "something was parked");
}

/// An order service that goes on publishing through an outage.
pub struct Producer<'a> {
    world: &'a World,
    level: String,
    ids: Vec<String>,
    confirmed: watch::Sender<usize>,
}

impl<'a> Producer<'a> {
    /// Publishes a message per order of the wave.
    pub fn new(world: &'a World, wave: Wave) -> Self {
        let level = format!("{}s", wave.seconds);
        Self { world, level, ids: wave.ids(), confirmed: watch::Sender::new(0) }
    }

    /// Waits until `count` messages are confirmed.
    pub async fn until_confirmed(&self, count: usize) {
        let mut confirmed = self.confirmed.subscribe();
        confirmed.wait_for(|seen| *seen >= count).await.unwrap();
    }

    /// Publishes until an outage comes and does not let it stop there; when the broker is back, publishes again
    /// what was not confirmed, and nothing else. Everything that was said instead of a confirm.
    pub async fn run(&self) -> Vec<PublishError> {
        let publisher = self.world.publisher().await;
        let mut missing: Vec<String> = Vec::new();
        let mut errors = Vec::new();
        let mut note = |failed: Vec<(String, PublishError)>| {
            let (ids, new): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
            errors.extend(new);
            ids
        };
        let mut reached = 0;
        // Round and round, should the outage be late: a message that comes twice does no harm. But the last
        // ones are left for the outage itself.
        let last = self.ids.len() - WINDOW;
        for chunk in self.ids[..last].chunks(WINDOW).cycle() {
            reached = last.min(reached + chunk.len());
            missing.extend(note(self.publish(&publisher, chunk).await));
            if !missing.is_empty() {
                break;
            }
        }
        missing.extend(note(self.publish(&publisher, &self.ids[reached..]).await));
        let heal = async || {
            // Fails until the broker is there again.
            if let Ok(publisher) = Publisher::connect(&self.world.address(), "test: again").await {
                missing = note(self.publish(&publisher, &missing).await);
            }
            missing.len()
        };
        until("every message confirmed", heal, |missing| *missing == 0).await;
        errors
    }

    async fn publish(&self, publisher: &Publisher, ids: &[String]) -> Vec<(String, PublishError)> {
        let sent = ids.iter().map(async |id| {
            let result = publisher.publish(self.world.notice(&self.level, id)).await;
            result.map_err(|error| (id.clone(), error))
        });
        let results = join_all(sent).await;
        let confirmed = results.iter().filter(|result| result.is_ok()).count();
        self.confirmed.send_modify(|seen| *seen += confirmed);
        results.into_iter().filter_map(Result::err).collect()
    }
}

/// An outage is told as what it is: never as a refusal, and never as a confirm.
pub fn assert_outage(errors: &[PublishError]) {
    assert!(!errors.is_empty(), "nothing was published during the outage");
    for error in errors {
        let outage =
            matches!(error, PublishError::Unknown { .. } | PublishError::Disconnected { .. });
        assert!(outage, "{error}");
    }
}
