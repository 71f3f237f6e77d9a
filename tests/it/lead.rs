//! Notices come a little before their time and are held until then, by the database's clock.

use overdue::internals::{
    config::WorkerSettings, order::OrderId, store::orders::Effect, wire::DueNotice,
};

use crate::support::{
    RunningWorker, World, until,
    worker::{millis, settings},
};

/// What a body says of the deadline, as a difference from the truth.
#[derive(Clone, Copy)]
enum Says {
    Nothing,
    Late(i64),
}

const TRUTH: Says = Says::Late(0);
/// What is to come before its time does, however slow the machine is.
const FAR_MS: i64 = 20_000;
const HOUR_S: i64 = 3_600;

/// The statements note what they were asked for, and when.
fn noted() -> Effect {
    let close = Effect::close();
    let note = |sql: &str, into: &str| {
        let begins = sql.lines().position(|line| !line.starts_with("--")).unwrap();
        let sql: Vec<&str> = sql.lines().skip(begins).collect();
        let note = format!(
            "noted AS (INSERT INTO {into} (id, at) SELECT unnest($1::text[]), pg_catalog.clock_timestamp())"
        );
        let sql = sql.join("\n");
        match sql.strip_prefix("WITH ") {
            Some(rest) => format!("WITH {note}, {rest}"),
            None => format!("WITH {note} {sql}"),
        }
    };
    let due_sql = close.due_sql.as_deref().map(|sql| note(sql, "looks"));
    Effect { name: "noted".to_owned(), sql: note(&close.sql, "calls"), due_sql, ..close }
}

struct Stage {
    world: World,
    worker: RunningWorker,
}

impl Stage {
    /// A worker that knows the database's clock, and has asked for one order.
    async fn new(settings: WorkerSettings) -> Self {
        let world = World::new().await;
        let columns = "(id text, at timestamptz, statement bigint DEFAULT txid_current())";
        world.sql(&format!("CREATE TABLE calls {columns}; CREATE TABLE looks {columns}")).await;
        let worker = world.worker_of(noted(), settings);
        world.publish("100ms", &world.orders("first", 1, 0).await).await;
        world.until_closed(1).await;
        world.sql("DELETE FROM calls; DELETE FROM looks").await;
        Self { world, worker }
    }

    /// Straight into the business queue, as if a level had let go early.
    async fn publish(&self, ids: &[String], says: Says) {
        publish(&self.world, ids, says).await;
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

/// Longer than a busy machine takes for what comes before the instant.
fn hold_long() -> WorkerSettings {
    WorkerSettings { hold: millis("1m"), ..settings() }
}

const EARLY: &str = "calls JOIN orders USING (id) WHERE at < due_at";

/// The body says when: the database hears of each order once, at its time, and of all that are due then in one statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_says_when_it_is_due_is_asked_for_once_and_then() {
    let stage = Stage::new(hold_long()).await;
    let orders = stage.world.orders("o", 50, FAR_MS).await;
    stage.publish(&orders, TRUTH).await;
    stage.world.until_closed(51).await;
    assert_eq!(stage.count("looks").await, 0);
    assert_eq!((stage.count("calls").await, stage.count(EARLY).await), (50, 0));
    // The clock may be read while they come in, and the instant of the later ones is another one then.
    let statements = stage.count("(SELECT DISTINCT statement FROM calls) statements").await;
    assert!(statements <= 3, "{statements} statements");
    let counts = stage.worker.stop().await;
    assert_eq!((counts.held, counts.put_back, counts.retried, counts.parked), (50, 0, 0, 0));
    stage.world.assert_invariants().await;
}

/// Nobody says when: the database is asked once without locks, many at a time, and then at their time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_say_when_it_is_due_is_looked_up_once() {
    let stage = Stage::new(hold_long()).await;
    // The first order was due: nothing is looked up again until something was early.
    let learned = stage.world.orders("learned", 1, 55_000).await;
    stage.publish(&learned, Says::Nothing).await;
    let held = async || stage.worker.counts().held;
    until("held", held, |held| *held == 1).await;
    stage.world.sql("DELETE FROM calls; DELETE FROM looks").await;
    let orders = stage.world.orders("o", 50, FAR_MS).await;
    let paid = stage.world.orders("paid", 1, FAR_MS).await;
    assert!(stage.world.pay("paid-0").await);
    stage.publish(&[orders, paid].concat(), Says::Nothing).await;
    stage.world.until_closed(51).await;
    assert_eq!((stage.count("looks").await, stage.count("calls").await), (51, 50));
    assert_eq!(stage.count(EARLY).await, 0);
    let looked = stage.count("(SELECT DISTINCT statement FROM looks) statements").await;
    assert!(looked < 51, "{looked} statements");
    let counts = stage.worker.stop().await;
    assert_eq!((counts.already_final, counts.put_back), (1, 0), "{counts:?}");
    stage.world.assert_invariants().await;
}

const BROKEN: &str =
    "SELECT id, due_at FROM orders WHERE id = ANY ($1) AND 1 / (length(id) - length(id)) = 0";

/// Without `due_sql`, or with one that fails, the effect itself is asked, and says how long is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_due_sql_the_effect_itself_is_asked() {
    for due_sql in [None, Some(BROKEN.to_owned())] {
        let world = World::new().await;
        let worker = world.worker_of(Effect { due_sql, ..Effect::close() }, hold_long());
        let orders = world.orders("o", 20, FAR_MS / 2).await;
        publish(&world, &orders, Says::Nothing).await;
        world.until_closed(20).await;
        let counts = worker.stop().await;
        assert!(counts.held >= 20, "{counts:?}");
        assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0));
        world.assert_invariants().await;
    }
}

/// A body that is wrong by an hour costs its own order nothing: what is far away is looked up, what is over is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_lies_makes_nothing_early_and_nothing_late() {
    let stage = Stage::new(hold_long()).await;
    for (prefix, wrong_s) in [("past", -HOUR_S), ("future", HOUR_S)] {
        let orders = stage.world.orders(prefix, 10, FAR_MS).await;
        stage.publish(&orders, Says::Late(wrong_s)).await;
    }
    stage.world.until_closed(21).await;
    let counts = stage.worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0));
    assert!(counts.held >= 20, "{counts:?}");
    stage.world.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_paid_while_it_is_held_stays_paid() {
    let stage = Stage::new(hold_long()).await;
    let orders = stage.world.orders("o", 2, FAR_MS).await;
    stage.publish(&orders, TRUTH).await;
    let held = async || stage.worker.counts().held;
    until("both held", held, |held| *held == 2).await;
    assert!(stage.world.pay("o-0").await);
    let settled = async || stage.worker.counts();
    until("both settled", settled, |counts| counts.already_final == 1 && counts.closed == 2).await;
    assert_eq!(stage.world.status("o-0").await, "paid");
    assert_eq!(stage.world.status("o-1").await, "closed");
    stage.worker.stop().await;
    stage.world.assert_invariants().await;
}

/// More than all channels of a queue may have unacked: the rest waits in the queue, and nothing goes round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_early_by_the_lead_and_has_no_room_stays_in_the_queue() {
    let lead = "levels = [\"5m\", \"30m\"]\nlead = \"1m\"";
    let levels = "levels = [\"100ms\", \"200ms\", \"300ms\", \"500ms\", \"1s\", \"2s\", \"30m\"]";
    let text = crate::support::world::TOPOLOGY
        .replace(levels, lead)
        .replace("after = [\"100ms\", \"200ms\", \"300ms\"]", "after = [\"5m\"]")
        .replace("after = \"1s\"\nafter_by_category = { virtual = \"500ms\" }", "after = \"5m\"");
    let world = World::of(&text).await;
    let few = WorkerSettings { batch_size: 10, in_flight: 1, hold: millis("1ms"), ..settings() };
    let worker = world.worker_with(few);
    let orders = world.orders("o", 600, 8_000).await;
    publish(&world, &orders, Says::Nothing).await;
    world.until_closed(600).await;
    let counts = worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
    world.assert_invariants().await;
    world.until_empty("orders.unpaid").await;
}

/// Killed in the middle of a hold: the next worker has them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_they_are_held() {
    let world = World::new().await;
    let mut process = world
        .started(|command| {
            command.env("OVERDUE_WORKER__HOLD", "1m");
        })
        .await;
    world.publish("100ms", &world.orders("first", 1, 0).await).await;
    world.until_closed(1).await;
    let orders = world.orders("o", 100, FAR_MS).await;
    publish(&world, &orders, TRUTH).await;
    world.until_empty("orders.unpaid").await;
    assert_eq!(world.closed().await, 1, "they are held");
    process.kill();
    let worker = world.worker();
    world.until_closed(101).await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked), (0, 0));
    world.assert_invariants().await;
}

/// Functions of these names in the schema take the place of the server's, so that its clock can be set.
const CLOCK: &str = "
    CREATE TABLE clock (ahead interval);
    INSERT INTO clock VALUES ('0');
    CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql
        AS 'SELECT pg_catalog.now() + ahead FROM clock';
    CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
        AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM clock'";

/// Whatever the database's clock says, and whenever it is set: it alone decides, and nothing goes round. The broker's and
/// the worker's go on as they did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_decides_by_its_clock_also_when_it_is_set() {
    // Behind, ahead; and set back or forward in the middle of a hold.
    let steps = [("-5 min", "-5 min"), ("5 min", "5 min"), ("0", "-1 s"), ("0", "1 h")];
    for (before, after) in steps {
        let world = World::new().await;
        world.sql(CLOCK).await;
        world.sql(&format!("UPDATE clock SET ahead = '{before}'")).await;
        let path = format!("{},pg_catalog", world.schema);
        let worker = world.worker_on_path(&path, hold_long());
        // Its deadline is long over by any of these clocks.
        let first = world.orders("first", 1, -2 * HOUR_S * 1_000).await;
        publish(&world, &first, TRUTH).await;
        world.until_closed(1).await;
        let orders = world.orders("o", 20, FAR_MS / 2).await;
        world.sql(&format!("UPDATE orders SET due_at = due_at + interval '{before}'")).await;
        publish(&world, &orders, TRUTH).await;
        let held = async || worker.counts().held;
        until("held", held, |held| *held >= 20).await;
        world.sql(&format!("UPDATE clock SET ahead = '{after}'")).await;
        world.until_closed(21).await;
        let counts = worker.stop().await;
        assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
        // `closures` has the server's own clock.
        let early = format!("closures WHERE closed_at + interval '{after}' < due_at");
        assert_eq!(world.number(&format!("SELECT count(*) FROM {early}")).await, 0, "{after}");
    }
}

/// The whole way: levels let go early, and each order is closed at its time and not before, without a hop more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn levels_let_go_early_and_nothing_is_closed_early() {
    // The lead of 8s is longer than a busy machine takes to publish.
    let text = crate::support::world::TOPOLOGY.replace("\"2s\", ", "\"2s\", \"8s\", ");
    let world = World::of(&text).await;
    let wire = world.wire().await;
    let along = wire.listen("orders.in", "#").await;
    let worker = world.worker();
    world.publish("100ms", &world.orders("first", 1, 0).await).await;
    world.until_closed(1).await;
    for round in 0..10 {
        let orders = world.orders(&format!("o{round}"), 5, 8_000).await;
        world.publish("8s", &orders).await;
    }
    world.until_closed(51).await;
    let counts = worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
    assert!(counts.held > 0, "{counts:?}");
    assert_eq!(wire.ready(&along).await, 51, "one hop each");
    world.assert_invariants().await;
}

/// After an update of the program, or of the file: a worker goes on with the levels as they are, and leaves the change to
/// `overdue apply`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    let planned = world.overdue(&["plan", "--check"]);
    assert_eq!(planned.code, Some(2), "{planned}");
    world.assert_invariants().await;
}
