//! An order service that runs through the storm. It creates orders, publishes their due notices after the commit,
//! takes payments, and repeats unanswered requests. Other tasks publish messages that should not exist.

mod hostile;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use lapin::BasicProperties;
use overdue::internals::{
    broker::BrokerAddress,
    store::{Connection, Store},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_postgres::{Row, types::ToSql};
use tokio_util::task::TaskTracker;

use self::hostile::{Hostile, Line};
use super::{
    judge::Expected,
    orders::{LEVELS_MS, Notice, Payment, Script},
};
use crate::support::wait::awaited;

/// Time-out of a statement; whether it was carried out is queried later.
const ANSWER: Duration = Duration::from_secs(10); // data: of the order service
/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(250);
/// Concurrent statements.
const STATEMENTS: usize = 24;
/// Limit of concurrent creations: in an outage no further orders are created.
const CREATING: usize = 16;
/// Rate of a shop, in orders per second: half of its items have five SKUs, and one transaction at a time can change each row.
const ORDERS_OF_A_SHOP: u32 = 40;
/// Interval of the ticks that create orders.
const TICK: Duration = Duration::from_millis(25);
/// Number of newest orders that a burst of early or duplicate notices is about.
const RECENT: usize = 400;

const CREATE: &str = include_str!("../../../sql/service_create.sql");
const FIND: &str = "SELECT (extract(epoch FROM due_at - clock_timestamp()) * 1000)::bigint FROM orders WHERE id = $1";
const PAY: &str = include_str!("../../../sql/pay.sql");

pub struct Service {
    seed: u64,
    shops: u64,
    orders_per_second: u32,
    store: Store,
    line: Line,
    hostile: Hostile,
    statements: Semaphore,
    creating: Arc<Semaphore>,
    lives: TaskTracker,
    stopping: AtomicBool,
    next_order: AtomicU64,
    record: Mutex<Record>,
}

/// The state that all tasks share.
#[derive(Clone, Default)]
struct Record {
    /// Order id and answer, as in `sql/invariants.sql`.
    answers: Vec<(String, &'static str)>,
    /// When the confirmed notice of an order should leave its level.
    promises: HashMap<String, Instant>,
    recent: VecDeque<String>,
}

impl Service {
    /// A service that publishes to `nodes` of one broker.
    pub fn new(
        seed: u64,
        orders_per_second: u32,
        store: Store,
        addresses: &[BrokerAddress],
    ) -> Arc<Self> {
        Arc::new(Self {
            seed,
            shops: orders_per_second.div_ceil(ORDERS_OF_A_SHOP).into(),
            orders_per_second,
            store,
            line: Line::new(addresses),
            hostile: Hostile::new(seed, addresses),
            statements: Semaphore::new(STATEMENTS),
            creating: Arc::new(Semaphore::new(CREATING)),
            lives: TaskTracker::new(),
            stopping: AtomicBool::new(false),
            next_order: AtomicU64::new(0),
            record: Mutex::default(),
        })
    }

    /// Prefixes of the SKUs of each shop.
    pub fn shops(&self) -> impl Iterator<Item = String> {
        (0..self.shops).map(|shop| shop.to_string())
    }

    /// Starts all tasks; a garbage message is published every second.
    pub fn start(self: &Arc<Self>) {
        let (orders, garbage) = (Arc::clone(self), Arc::clone(self));
        self.lives.spawn(async move { orders.open().await });
        self.lives.spawn(async move {
            while !garbage.is_stopping() {
                garbage.publish_trash(1, false).await;
                garbage.publish_trash(1, true).await;
                sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// Creates no more orders, and returns when every message is published and every request answered.
    pub async fn finish(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.lives.close();
        awaited("everything about every order published and answered", self.lives.wait()).await;
    }

    /// Order id and answer, as in `sql/invariants.sql`.
    pub fn answers(&self) -> Vec<(String, &'static str)> {
        self.record().answers.clone()
    }

    /// All published messages that must be parked.
    pub fn trash(&self) -> BTreeMap<String, Expected> {
        self.hostile.trash()
    }

    /// Whether the notice of an order should have left its level at least `since` ago.
    pub fn is_promised(&self, id: &str, since: Duration) -> bool {
        let promise = self.record().promises.get(id).copied();
        promise.is_some_and(|promise| promise.elapsed() >= since)
    }

    /// Publishes garbage or ghosts, in addition to the garbage of every second.
    pub async fn publish_trash(&self, count: usize, ghosts: bool) {
        let thrown = (0..count).map(async |_| {
            if ghosts { self.hostile.ghost().await } else { self.hostile.garbage().await }
        });
        join_all(thrown).await;
    }

    /// Publishes notices of the newest orders, with forged headers and properties.
    pub async fn publish_forged(&self, count: usize) {
        let recent = self.recent(count);
        join_all(recent.iter().map(|id| self.hostile.forged(id))).await;
    }

    /// Publishes further notices of the newest orders, through the shortest level or their own.
    pub async fn publish_again(&self, count: usize, early: bool) {
        let recent = self.recent(count);
        let again = recent.iter().map(|id| {
            let level = if early { 0 } else { 1 + id.len() % (LEVELS_MS.len() - 1) };
            self.publish(id, LEVELS_MS[level])
        });
        join_all(again).await;
    }

    fn recent(&self, count: usize) -> Vec<String> {
        self.record().recent.iter().rev().take(count).cloned().collect()
    }

    async fn open(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut owed = 0.0;
        while !self.is_stopping() {
            ticks.tick().await;
            owed += f64::from(self.orders_per_second) * TICK.as_secs_f64();
            while owed >= 1.0 {
                owed -= 1.0;
                self.open_one().await;
            }
        }
    }

    async fn open_one(self: &Arc<Self>) {
        let creating = Arc::clone(&self.creating).acquire_owned().await.unwrap();
        let number = self.next_order.fetch_add(1, Ordering::Relaxed);
        let (service, script) = (Arc::clone(self), Script::of(self.seed, number));
        let shop = (number % self.shops).to_string();
        self.lives.spawn(async move {
            let due = service.create(&script, &shop).await;
            drop(creating);
            tokio::join!(service.announce(&script, due), service.take_payments(&script, due));
        });
    }

    /// Repeats until the database has the order; returns its deadline.
    async fn create(&self, script: &Script, shop: &str) -> Instant {
        let due_in_ms = i64::try_from(script.due_in.as_millis()).unwrap();
        let (id, seed) = (&script.id, self.seed.cast_signed());
        let remaining_ms: i64 = loop {
            // An earlier attempt without an answer may have inserted the order; then this one fails.
            let _created = self.query(CREATE, &[&[id].as_slice(), &due_in_ms, &shop, &seed]).await;
            match self.query(FIND, &[id]).await.as_deref() {
                Ok([row]) => break row.get(0),
                _ => sleep(AGAIN).await,
            }
        };
        let mut record = self.record();
        record.answers.push((id.clone(), "created"));
        record.recent.push_back(id.clone());
        if record.recent.len() > RECENT {
            record.recent.pop_front();
        }
        Instant::now() + Duration::from_millis(remaining_ms.max(0).unsigned_abs())
    }

    async fn announce(&self, script: &Script, due: Instant) {
        let own_ms = u64::try_from(script.due_in.as_millis()).unwrap();
        let copies = match script.notice {
            Notice::Forgotten => return,
            Notice::Once => 1,
            Notice::Copies(copies) => copies,
            Notice::EarlyToo => {
                self.publish(&script.id, LEVELS_MS[0]).await;
                1
            }
        };
        // After an outage, a level for the remaining time.
        let left_ms =
            u64::try_from(due.saturating_duration_since(Instant::now()).as_millis()).unwrap();
        let fits = |ms: &&u64| **ms <= left_ms + 500;
        let level_ms =
            LEVELS_MS.iter().rev().find(fits).copied().unwrap_or(LEVELS_MS[0]).min(own_ms);
        for _ in 0..copies {
            self.publish(&script.id, level_ms).await;
        }
        let arrives = Instant::now() + Duration::from_millis(level_ms);
        self.record().promises.insert(script.id.clone(), arrives.max(due));
    }

    /// Repeats until the broker has confirmed the notice.
    async fn publish(&self, id: &str, level_ms: u64) {
        let level = if level_ms < 1_000 {
            format!("{level_ms}ms")
        } else {
            format!("{}s", level_ms / 1_000)
        };
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_content_type("application/json".into())
            .with_message_id(id.into());
        let body = serde_json::json!({ "order_id": id }).to_string();
        self.line.publish(&format!("{level}.unpaid"), properties, body.as_bytes()).await;
    }

    async fn take_payments(&self, script: &Script, due: Instant) {
        let at = |from_due_ms: i64| {
            let distance = Duration::from_millis(from_due_ms.unsigned_abs());
            if from_due_ms < 0 { due - distance } else { due + distance }
        };
        match script.payment {
            Payment::Never => {}
            Payment::At(ms) => self.pay(&script.id, at(ms)).await,
            Payment::TwiceAt(ms) => {
                tokio::join!(self.pay(&script.id, at(ms)), self.pay(&script.id, at(ms)));
            }
        }
    }

    /// Repeats until the database has answered.
    async fn pay(&self, id: &str, at: Instant) {
        sleep_until(at).await;
        loop {
            let answer = match self.query(PAY, &[&id]).await {
                Ok(rows) if rows.is_empty() => "refused",
                Ok(_) => "taken",
                Err(()) => "unknown",
            };
            self.record().answers.push((id.to_owned(), answer));
            if answer != "unknown" {
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// Tries once; an error if the statement was refused or not answered in time.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ()> {
        let _statement = self.statements.acquire().await.unwrap();
        let client = timeout(ANSWER, self.store.client()).await.map_err(drop)?.map_err(drop)?;
        let asking = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, parameters).await
        };
        if let Ok(answer) = timeout(ANSWER, asking).await {
            return answer.map_err(drop);
        }
        // Not returned to the pool: its next user would wait for this statement.
        drop(Connection::take(client));
        Err(())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }
}
