//! Notices arrive shortly before their deadline; the worker keeps them unacked until then, by the database's clock.

use overdue::internals::{
    config::WorkerSettings, order::OrderId, store::orders::Effect, wire::DueNotice, worker::Counts,
};

use crate::support::{
    RunningWorker, World,
    orders::{WRITTEN, WRITTEN_OVERDUE},
    worker::{millis, settings},
};

/// The deadline in a body, as a difference from the true one.
#[derive(Clone, Copy)]
enum Says {
    Nothing,
    Late(i64),
}

const TRUTH: Says = Says::Late(0);
const HOUR_MS: i64 = 3_600_000;
const DAY_S: i64 = 86_400;

/// An effect that records its arguments and times.
fn noted() -> Effect {
    let note = "noted AS (INSERT INTO calls (id, at) SELECT unnest($1::text[]), clock_timestamp())";
    let sql = WRITTEN.replacen("\nWITH ", &format!("\nWITH {note}, "), 1);
    Effect::written("noted", &sql, Some(WRITTEN_OVERDUE))
}

struct Stage {
    world: World,
    worker: RunningWorker,
}

impl Stage {
    /// Starts a worker that knows the database's clock and has closed one order.
    async fn new(settings: WorkerSettings) -> Self {
        let world = World::clocked().await;
        let columns = "(id text, at timestamptz, statement bigint DEFAULT txid_current())";
        world.sql(&format!("CREATE TABLE calls {columns}")).await;
        let worker = world.worker_of(noted(), settings);
        world.publish("100ms", &world.orders("first", 1, 0).await).await;
        world.until_closed(1).await;
        world.sql("DELETE FROM calls").await;
        Self { world, worker }
    }

    /// Publishes to the business queue, as after an early expiry of a level.
    async fn publish(&self, ids: &[String], says: Says) {
        publish(&self.world, ids, says).await;
    }

    /// Waits until `count` notices wait and none was closed; then advances the clock by an hour.
    async fn held_for_an_hour(&self, count: u64) {
        held_for_an_hour(&self.world, &self.worker, count).await;
    }

    async fn count(&self, sql: &str) -> i64 {
        self.world.number(&format!("SELECT count(*) FROM {sql}")).await
    }
}

async fn publish(world: &World, ids: &[String], says: Says) {
    let client = world.store.client().await.unwrap();
    let sql = "SELECT id, due_at FROM orders WHERE id = ANY ($1)";
    let rows = client.query(sql, &[&ids]).await.unwrap();
    let body = |row: &tokio_postgres::Row| {
        let (id, due_at): (String, jiff::Timestamp) = (row.get(0), row.get(1));
        let order_id = OrderId::parse(&id).unwrap();
        match says {
            Says::Nothing => id,
            Says::Late(seconds) => {
                let due_at = Some(due_at + jiff::SignedDuration::from_secs(seconds));
                String::from_utf8(DueNotice { order_id, due_at }.encode()).unwrap()
            }
        }
    };
    let bodies: Vec<String> = rows.iter().map(body).collect();
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &bodies).await;
}

async fn held_for_an_hour(world: &World, worker: &RunningWorker, count: u64) {
    worker.until("held", |counts| counts.held >= count).await;
    assert_eq!(world.closed().await, 1, "the first one");
    world.clock().advance("1 h").await;
}

fn hold_long() -> WorkerSettings {
    WorkerSettings { hold: millis("2h"), ..settings() }
}

const EARLY: &str = "calls JOIN orders USING (id) WHERE at < due_at";

/// The body has the deadline: the database is queried about each order once, at its deadline, with one statement for all due orders.
#[apply(world_test)]
async fn what_says_when_it_is_due_is_asked_for_once_and_then() {
    let stage = Stage::new(hold_long()).await;
    let orders = stage.world.orders("o", 50, HOUR_MS).await;
    stage.publish(&orders, TRUTH).await;
    stage.held_for_an_hour(50).await;
    stage.world.until_closed(51).await;
    assert_eq!((stage.count("calls").await, stage.count(EARLY).await), (50, 0));
    // The clock may be read between arrivals, so that later ones have another due time.
    let statements = stage.count("(SELECT DISTINCT statement FROM calls) statements").await;
    assert!(statements <= 3, "{statements} statements");
    let counts = stage.worker.stop().await;
    assert_eq!((counts.held, counts.put_back, counts.retried, counts.parked), (50, 0, 0, 0));
    stage.world.assert_invariants().await;
}

/// The body has no deadline: the effect runs once before it and returns the remaining time, and once at the deadline.
#[apply(world_test)]
async fn what_does_not_say_when_it_is_due_is_asked_for_once_before() {
    let stage = Stage::new(hold_long()).await;
    let orders = stage.world.orders("o", 50, HOUR_MS).await;
    let paid = stage.world.orders("paid", 1, HOUR_MS).await;
    assert!(stage.world.pay("paid-0").await);
    stage.publish(&[orders, paid].concat(), Says::Nothing).await;
    stage.held_for_an_hour(50).await;
    stage.world.until_closed(51).await;
    assert_eq!((stage.count("calls").await, stage.count(EARLY).await), (101, 51));
    let counts = stage.worker.stop().await;
    assert_eq!((counts.already_final, counts.put_back), (1, 0), "{counts:?}");
    stage.world.assert_invariants().await;
}

/// A body that is wrong by a day does not delay its order: a distant deadline is queried, and a past one is tried.
#[apply(world_test)]
async fn a_body_that_lies_makes_nothing_early_and_nothing_late() {
    let stage = Stage::new(hold_long()).await;
    for (prefix, wrong_s) in [("past", -DAY_S), ("future", DAY_S)] {
        let orders = stage.world.orders(prefix, 10, HOUR_MS).await;
        stage.publish(&orders, Says::Late(wrong_s)).await;
    }
    stage.held_for_an_hour(20).await;
    stage.world.until_closed(21).await;
    let counts = stage.worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0));
    stage.world.assert_invariants().await;
}

#[apply(world_test)]
async fn what_is_paid_while_it_is_held_stays_paid() {
    let stage = Stage::new(hold_long()).await;
    let orders = stage.world.orders("o", 2, HOUR_MS).await;
    stage.publish(&orders, TRUTH).await;
    stage.worker.until("both held", |counts| counts.held == 2).await;
    assert!(stage.world.pay("o-0").await);
    stage.held_for_an_hour(2).await;
    let is_settled = |counts: &Counts| counts.already_final == 1 && counts.closed == 2;
    stage.worker.until("both settled", is_settled).await;
    assert_eq!(stage.world.status("o-0").await, "paid");
    assert_eq!(stage.world.status("o-1").await, "closed");
    stage.worker.stop().await;
    stage.world.assert_invariants().await;
}

/// The messages exceed the prefetch of all channels of a queue: the others stay in the queue, and none is requeued.
#[apply(world_test)]
async fn what_is_early_by_the_lead_and_has_no_room_stays_in_the_queue() {
    let lead = "levels = [\"5m\", \"30m\"]\nlead = \"1m\"";
    let levels = "levels = [\"100ms\", \"200ms\", \"300ms\", \"500ms\", \"1s\", \"2s\", \"30m\"]";
    let text = crate::support::world::TOPOLOGY
        .replace(levels, lead)
        .replace("after = [\"100ms\", \"200ms\", \"300ms\"]", "after = [\"5m\"]")
        .replace("after = \"1s\"\nafter_by_category = { virtual = \"500ms\" }", "after = \"5m\"");
    let world = World::clocked_of(&text).await;
    let few = WorkerSettings { batch_size: 10, in_flight: 1, hold: millis("1ms"), ..settings() };
    let worker = world.worker_with(few);
    let orders = world.orders("o", 600, 50_000).await;
    publish(&world, &orders, Says::Nothing).await;
    worker.until("no room", |counts| counts.held >= 100).await;
    assert_eq!(world.closed().await, 0);
    world.clock().advance("50 s").await;
    world.until_closed(600).await;
    let counts = worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
    world.assert_invariants().await;
    world.until_empty("orders.unpaid").await;
}

/// The database's clock alone decides, whatever it shows and whenever it is set, and no notice is requeued. The clocks of broker and
/// worker run on.
#[apply(world_test)]
async fn the_database_decides_by_its_clock_also_when_it_is_set() {
    // Far behind, ahead; and set back while the notices wait.
    let set = |before: &'static str, meanwhile: &'static str| async move {
        let world = World::clocked().await;
        world.clock().advance(before).await;
        let worker = world.worker_with(hold_long());
        let first = world.orders("first", 1, 0).await;
        publish(&world, &first, TRUTH).await;
        world.until_closed(1).await;
        let orders = world.orders("o", 20, HOUR_MS).await;
        publish(&world, &orders, TRUTH).await;
        worker.until("held", |counts| counts.held >= 20).await;
        world.clock().advance(meanwhile).await;
        held_for_an_hour(&world, &worker, 20).await;
        // The time by which the clock was set back is missing.
        if meanwhile != "0" {
            assert_eq!(world.closed().await, 1, "{before}, {meanwhile}");
            world.clock().advance("10 min").await;
        }
        world.until_closed(21).await;
        let counts = worker.stop().await;
        assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
    };
    tokio::join!(set("-5 min", "0"), set("2 h", "0"), set("0", "-10 min"));
}

/// The whole path with real clocks: levels expire early, and no order is closed before its deadline or takes another hop.
#[apply(world_test)]
async fn levels_let_go_early_and_nothing_is_closed_early() {
    let (world, wire) = World::new().await.wired().await;
    let along = wire.listen("orders.in", "#").await;
    wire.bind(&along, "orders.again", "#").await;
    let worker = world.worker();
    world.publish("100ms", &world.orders("first", 1, 0).await).await;
    world.until_closed(1).await;
    for round in 0..10 {
        world.publish_orders("2s", &format!("o{round}"), 5, 2_000).await;
    }
    world.until_closed(51).await;
    let counts = worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
    assert!(counts.held > 0, "{counts:?}");
    assert_eq!(wire.ready(&along).await, 51, "one hop each");
    world.assert_invariants().await;
}

/// After an update of the program or the file, a worker uses the levels as they are, and leaves the change to
/// `overdue apply`.
#[apply(world_test)]
async fn a_worker_goes_on_with_levels_of_another_lead() {
    let without = crate::support::world::TOPOLOGY.replace("[delay]", "[delay]\nlead = \"0s\"");
    let world = World::of(&without).await;
    std::fs::write(world.topology_file(), crate::support::world::TOPOLOGY).unwrap();
    let before = world.objects().await;
    let mut process = world.started(|_| {}).await;
    world.publish("500ms", &world.orders("o", 20, 500).await).await;
    world.until_closed(20).await;
    process.kill();
    assert_eq!(world.objects().await, before);
    world.overdue(&["plan", "--check"]).exits(2);
    world.assert_invariants().await;
}
