//! A large shop: 10,000 SKUs by Zipf, two items per order; its tables, its notices, and the result of its orders.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use deadpool_postgres::Transaction;
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use overdue::{DueNotice, Message, OrderId, Publisher, Route, Store};
use rand::{RngExt, SeedableRng, distr::weighted::WeightedIndex, rngs::StdRng};

use super::{Result, report::Number, stage::Stage};

const SKUS: u32 = 10_000;
const ITEMS: usize = 2;
/// Gives the same orders each time.
const SEED: u64 = 9;
/// Pieces of each SKU, reserved or not.
const STOCK: i64 = 1_000_000;
/// Orders inserted by one statement.
const CHUNK: usize = 5_000;
/// Most timers and unconfirmed messages.
const AT_ONCE: usize = 4_000;
/// Number of readings; the shortest round trip gives the best reading of the database's time.
const READINGS: usize = 5;
/// Prefix of every order id and SKU.
const PREFIX: &str = "bench-";

/// An order: its deadline in microseconds since 1970 by the database's clock, and pieces by SKU.
#[derive(Clone, Debug)]
pub struct Order {
    pub id: OrderId,
    pub due_us: i64,
    items: BTreeMap<u32, i64>,
}

/// Makes orders; every generator makes the same.
pub struct Generator {
    popularity: WeightedIndex<f64>,
    rng: StdRng,
}

impl Generator {
    pub fn new() -> Result<Self> {
        // The second SKU is ordered half as often as the first, the third a third as often, and so on.
        let popularity = WeightedIndex::new((1..=SKUS).map(|rank| f64::from(rank).recip()))?;
        Ok(Self { popularity, rng: StdRng::seed_from_u64(SEED) })
    }

    /// Makes `count` orders; `due_us` returns the deadline for an index.
    pub fn orders(
        &mut self,
        name: &str,
        count: usize,
        due_us: impl Fn(usize) -> i64,
    ) -> Result<Vec<Order>> {
        let order = |place: usize| {
            let id = OrderId::parse(&format!("{PREFIX}{name}-{place:07}"))?;
            Ok(Order { id, due_us: due_us(place), items: self.basket() })
        };
        (0..count).map(order).collect()
    }

    /// Like [`Self::orders`], without the SKU in any order, or with it in each.
    pub fn orders_with(
        &mut self,
        sku: u32,
        is_wanted: bool,
        (name, count): (&str, usize),
        due_us: impl Fn(usize) -> i64,
    ) -> Result<Vec<Order>> {
        let mut orders = self.orders(name, count, due_us)?;
        for order in &mut orders {
            while order.items.contains_key(&sku) != is_wanted {
                order.items = self.basket();
            }
        }
        Ok(orders)
    }

    fn basket(&mut self) -> BTreeMap<u32, i64> {
        let mut items = BTreeMap::new();
        while items.len() < ITEMS {
            let sku = u32::try_from(self.rng.sample(&self.popularity)).unwrap_or_default();
            items.insert(sku, self.rng.random_range(1..=3));
        }
        items
    }
}

fn sku(number: u32) -> String {
    format!("{PREFIX}sku-{number:05}")
}

/// Empties the tables, and fills the stock.
pub async fn reset(store: &Store) -> Result<()> {
    const CLEAR: &str = include_str!("../sql/clear.sql");
    store.run_script("clear", CLEAR).await?;
    reserve(store, (0..SKUS).map(|sku| (sku, 0))).await
}

/// Inserts orders, and reserves their stock. Vacuums, analyzes and makes a checkpoint, as autovacuum and the checkpointer do
/// after a while: plans fit tables of this size, and no checkpoint disturbs the measurement.
pub async fn insert(store: &Store, orders: &[Order]) -> Result<()> {
    const SQL: &str = include_str!("../sql/load.sql");
    let mut reserved = BTreeMap::<u32, i64>::new();
    for (sku, quantity) in orders.iter().flat_map(|order| &order.items) {
        *reserved.entry(*sku).or_default() += quantity;
    }
    reserve(store, reserved.into_iter()).await?;
    let client = store.client().await?;
    for orders in orders.chunks(CHUNK) {
        let ids: Vec<&str> = orders.iter().map(|order| order.id.as_str()).collect();
        let due_us: Vec<i64> = orders.iter().map(|order| order.due_us).collect();
        let items =
            orders.iter().flat_map(|order| order.items.iter().map(move |item| (order, item)));
        let (mut of, mut skus, mut quantities) = (Vec::new(), Vec::new(), Vec::new());
        for (order, (number, quantity)) in items {
            of.push(order.id.as_str());
            skus.push(sku(*number));
            quantities.push(*quantity);
        }
        client.execute(SQL, &[&ids, &due_us, &of, &skus, &quantities]).await?;
    }
    client.batch_execute("VACUUM (ANALYZE) orders, order_items, stock, closures, outbox").await?;
    // Few orders do not measure speed, and a checkpoint delays all users of the server.
    if orders.len() > CHUNK {
        let _not_permitted = client.batch_execute("CHECKPOINT").await;
    }
    Ok(())
}

async fn reserve(store: &Store, reserved: impl Iterator<Item = (u32, i64)>) -> Result<()> {
    const SQL: &str = include_str!("../sql/reserve.sql");
    let (skus, quantities): (Vec<String>, Vec<i64>) =
        reserved.map(|(number, quantity)| (sku(number), quantity)).unzip();
    store.client().await?.execute(SQL, &[&skus, &quantities, &STOCK]).await?;
    Ok(())
}

/// Locks the stock of a SKU until the transaction ends.
pub async fn lock(transaction: &Transaction<'_>, number: u32) -> Result<()> {
    const SQL: &str = "SELECT FROM stock WHERE sku = $1 FOR UPDATE";
    transaction.query_one(SQL, &[&sku(number)]).await?;
    Ok(())
}

/// The database's clock at an instant of this process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    us: i64,
    at: Instant,
}

impl Clock {
    /// Reads the database's clock, with an error of at most half a round trip.
    pub async fn read(store: &Store) -> Result<Self> {
        const SQL: &str = include_str!("../sql/clock.sql");
        let client = store.client().await?;
        let mut best = (Duration::MAX, Self { us: 0, at: Instant::now() });
        for _ in 0..READINGS {
            let sent = Instant::now();
            let row = client.query_one(SQL, &[]).await?;
            let took = sent.elapsed();
            if took < best.0 {
                best = (took, Self { us: row.get(0), at: sent + took / 2 });
            }
        }
        Ok(best.1)
    }

    /// Microseconds since 1970, `from_now`.
    pub fn us_in(&self, from_now: Duration) -> i64 {
        self.us + i64::try_from((self.at.elapsed() + from_now).as_micros()).unwrap_or(i64::MAX)
    }

    /// The local instant of a time of the database's clock, in microseconds since 1970; for the past, the earliest known
    /// instant.
    pub fn instant(&self, us: i64) -> Instant {
        self.at + Duration::from_micros(u64::try_from(us - self.us).unwrap_or(0))
    }
}

/// A notice of an order, with the time to publish it.
pub struct Notice<'a> {
    pub order: &'a Order,
    pub at: Instant,
    pub route: Route,
    /// The `expiration` ends this time before the deadline. With `None`, the level or ladder on its route delays the notice.
    ///
    /// <https://www.rabbitmq.com/docs/ttl#per-message-ttl-in-publishers>
    pub expires_early: Option<Duration>,
}

/// Publishes each notice at its instant, and waits for the confirms; returns the lateness of the latest one.
pub async fn publish(
    publisher: &Publisher,
    clock: Clock,
    mut notices: Vec<Notice<'_>>,
) -> Result<Duration> {
    notices.sort_by_key(|notice| notice.at);
    let publish = async |Notice { order, at, route, expires_early }: Notice<'_>| {
        tokio::time::sleep_until(at.into()).await;
        let now = Instant::now();
        let due_at = Timestamp::from_microsecond(order.due_us).ok();
        let notice = DueNotice { order_id: order.id.clone(), due_at };
        let mut message = Message::notice(route, &notice);
        if let Some(early) = expires_early {
            let rest = clock.instant(order.due_us).saturating_duration_since(now);
            // Rounded up, so that no notice expires early.
            let waits_ms = rest.saturating_sub(early).as_millis() + 1;
            message.properties.expiration = Some(waits_ms.to_string());
        }
        publisher.publish(message).await?;
        Ok(now.saturating_duration_since(at))
    };
    let publishing = stream::iter(notices).map(publish).buffer_unordered(AT_ONCE);
    publishing.try_fold(Duration::ZERO, async |most, late| Ok(most.max(late))).await
}

/// The result of orders: lateness, ways in which they were closed, and errors.
#[derive(Debug, Default)]
pub struct Outcome {
    pub late: Vec<Number>,
    pub paths: String,
    pub wrong: Vec<String>,
}

impl Outcome {
    /// Checks all orders, their closures, and all stock; reads the lateness of orders called `name`. The tutorial writes no
    /// closures.
    pub async fn read(stage: &Stage, name: &str, count: usize, audited: bool) -> Result<Self> {
        const INVARIANTS: &str = include_str!("../../sql/invariants.sql");
        const OUTCOME: &str = include_str!("../sql/outcome.sql");
        let client = stage.store.client().await?;
        let prefix = format!("{PREFIX}{name}-");
        let row = client.query_one(OUTCOME, &[&prefix, &stage.server.commit_times]).await?;
        let mut outcome = Self { paths: row.get("paths"), ..Self::default() };
        for (number, column) in
            [("late_p50_ms", "p50_ms"), ("late_p99_ms", "p99_ms"), ("late_max_ms", "max_ms")]
        {
            outcome.late.push((number, row.get::<_, Option<f64>>(column).unwrap_or_default()));
        }
        let closed: i64 = row.get("closed");
        if usize::try_from(closed) != Ok(count) {
            outcome.wrong.push(format!("{closed} of {count} orders are closed"));
        }
        let nobody: [&str; 0] = [];
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&PREFIX, &STOCK, &true, &&nobody[..], &&nobody[..]];
        for row in client.query(&*stage.store.in_own_schema(INVARIANTS), &parameters).await? {
            let (what, broken): (String, i64) = (row.get("what"), row.get("broken"));
            if broken > 0 && (audited || !what.contains("closure")) {
                let example: Option<String> = row.get("example");
                let example = example.unwrap_or_default();
                outcome.wrong.push(format!("broken: {what} ({broken}, e.g. {example})"));
            }
        }
        Ok(outcome)
    }
}

/// The percentiles 50, 99 and 100 in milliseconds, for at most three names.
pub fn percentiles<const N: usize>(
    names: [&'static str; N],
    times: impl IntoIterator<Item = Duration>,
) -> Vec<Number> {
    let mut times: Vec<Duration> = times.into_iter().collect();
    times.sort_unstable();
    let at = |part: usize| {
        let place = (times.len() * part).div_ceil(100).saturating_sub(1);
        times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    };
    names.into_iter().zip([at(50), at(99), at(100)]).collect()
}

pub fn per_second(number: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX)) / took.as_secs_f64()
}
