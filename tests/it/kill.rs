//! SIGKILL at the moments that matter, by name, and at any: no order, notice or event is lost, nothing happens early, and
//! nothing twice in the database.
//!
//! The worker reaches broker and database through proxies that read the protocols' frames, and hold back what comes behind the
//! point: so there is no seam in the program.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{
    Parked, Proxy, Wire, World,
    crash_point::Point::{
        self, AfterAck, BeforeAck, BeforeAckOfCopy, BeforeCommit, BeforeCommitted, BeforeConfirm,
        BeforeStatement,
    },
    until,
};

const DUE: usize = 20;
const LEVEL: &str = "orders.delay.30m";
const BODIES: [&str; 2] = ["{garbage 1", "{garbage 2"];
/// A transaction has closed orders and is not committed.
const CLOSES: &str = "
    SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid)
    WHERE state = 'idle in transaction' AND relation = 'closures'::regclass AND mode = 'RowExclusiveLock'";

/// What is where when the worker is about to be killed.
#[derive(Debug)]
struct Found {
    closed: i64,
    closing: i64,
    /// Notices in the level, parked messages, events.
    copies: u32,
    parked: u32,
    events: u32,
    /// Rows that wait to be published.
    outbox: i64,
    scheduled: i64,
}

struct Killed {
    world: World,
    wire: Wire,
    subscriber: String,
}

impl Killed {
    async fn found(&self) -> Found {
        let rows =
            async |table: &str| self.world.number(&format!("SELECT count(*) FROM {table}")).await;
        Found {
            closed: self.world.closed().await,
            closing: self.world.number(CLOSES).await,
            copies: self.wire.ready(LEVEL).await,
            parked: self.wire.ready("orders.parked").await,
            events: self.wire.ready(&self.subscriber).await,
            outbox: rows("outbox").await,
            scheduled: rows("scheduled_notices").await,
        }
    }

    /// Another worker takes over, and stops when nothing is left to do.
    async fn is_settled(&self) -> bool {
        let next = self.world.worker();
        let found = async || self.found().await;
        let done = |found: &Found| {
            let Found { closed, copies, parked, events, outbox, scheduled, .. } = found;
            (*closed, *outbox, *scheduled) == (20, 0, 0)
                && *copies >= 4
                && *parked >= 2
                && *events >= 20
        };
        until("all is done", found, done).await;
        self.world.until_empty("orders.unpaid").await;
        next.stop().await;
        // What it had in hand comes back.
        self.wire.ready("orders.unpaid").await == 0
    }
}

/// Whether due orders are all that leads to it.
fn is_of_closing(point: Point) -> bool {
    matches!(
        point,
        BeforeStatement("close")
            | BeforeCommit("close")
            | BeforeCommitted("close")
            | BeforeAck
            | AfterAck
    )
}

async fn killed_at(point: Point, is_reached: impl Fn(&Found) -> bool) {
    let world = World::new().await;
    // As after `overdue database init`.
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min')").await;
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let broker = Proxy::reading(&world.services.broker_socket()).await;
    let database = Proxy::reading(&world.services.database_socket()).await;
    let broker_url = world.services.broker_url(&world.vhost, Some(broker.port()));
    let database_url = world.services.database_url(Some(database.port()));
    let mut process = world
        .started(|command| {
            command
                .env("OVERDUE_BROKER__URL", broker_url)
                .env("OVERDUE_DATABASE__URL", database_url);
        })
        .await;
    let side = if point.is_of_database() { &database } else { &broker };
    side.hold_at(point);
    // data: these are not due
    let [early, noted] = [world.orders("early", 2, 3_600_000), world.orders("noted", 2, 3_600_000)];
    let (early, noted) = (early.await, noted.await);
    let due = world.orders("due", DUE, 0).await;
    let many = "SELECT schedule_at(id, 'unpaid', due_at) FROM orders WHERE id LIKE 'noted-%'";
    world.sql(many).await;
    world.publish("100ms", &due).await;
    if is_of_closing(point) {
        // A batch of others that closes nothing may be quicker.
        side.until_held().await;
    }
    world.publish("100ms", &early).await;
    wire.publish_all("orders.in", "100ms.unpaid", &BODIES.map(str::to_owned)).await;
    side.until_held().await;
    let killed = Killed { world, wire, subscriber };
    until("the point", async || killed.found().await, is_reached).await;
    process.kill();
    drop((broker, database));
    until("all settled", async || killed.is_settled().await, |is_settled| *is_settled).await;
    let Killed { world, wire, subscriber } = killed;
    world.assert_invariants().await;
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 20);
    let unpaid = world.statuses().await.get("unpaid").copied();
    assert_eq!(unpaid, Some(4), "the early ones");
    let order = |message: &Parked| -> String {
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        body["order_id"].as_str().unwrap().to_owned()
    };
    let waiting = wire.take_all(LEVEL).await;
    assert_each_once_or_twice(waiting.iter().map(order), early.into_iter().chain(noted));
    let events = wire.take_all(&subscriber).await;
    assert_each_once_or_twice(events.iter().map(order), due);
    let parked = wire.take_all("orders.parked").await;
    assert_each_once_or_twice(parked.iter().map(Parked::text), BODIES.map(str::to_owned));
}

fn assert_each_once_or_twice(
    found: impl Iterator<Item = String>,
    all: impl IntoIterator<Item = String>,
) {
    let mut times = BTreeMap::<String, usize>::new();
    for name in found {
        *times.entry(name).or_default() += 1;
    }
    assert!(times.values().all(|times| *times <= 2), "{times:?}");
    assert_eq!(times.into_keys().collect::<BTreeSet<_>>(), all.into_iter().collect());
}

macro_rules! points {
    ($($name:ident: $point:expr, $is_reached:expr;)*) => {
        $(
            #[apply(world_test)]
            async fn $name() {
                killed_at($point, $is_reached).await;
            }
        )*
    };
}

points! {
    before_the_update_arrives: BeforeStatement("close"), |found| found.closed == 0;
    after_the_update_before_the_commit: BeforeCommit("close"), |found| found.closed == 0 && found.closing > 0;
    after_the_commit_before_its_answer: BeforeCommitted("close"), |found| found.closed > 0;
    after_the_commit_before_the_ack: BeforeAck, |found| found.closed > 0;
    after_the_ack: AfterAck, |found| found.closed > 0;
    after_a_copy_before_its_confirm: BeforeConfirm("worker: publishing", "orders.again"), |found| found.copies > 0;
    after_the_confirm_of_a_copy_before_the_ack: BeforeAckOfCopy("worker: publishing", "orders.again"), |found| found.copies > 0;
    after_parking_before_its_confirm: BeforeConfirm("worker: publishing", "orders.park"), |found| found.parked > 0;
    after_the_confirm_of_parking_before_the_ack: BeforeAckOfCopy("worker: publishing", "orders.park"), |found| found.parked > 0;
    after_an_event_before_its_confirm: BeforeConfirm("worker: events", "orders.events"), |found| found.events > 0 && found.outbox > 0;
    after_the_confirm_of_an_event_before_its_deletion: BeforeStatement("outbox_done"), |found| found.events > 0 && found.outbox > 0;
    after_the_deletion_of_an_event_before_the_commit: BeforeCommit("outbox_done"), |found| found.events > 0 && found.outbox > 0;
    after_the_deletion_of_an_event_before_its_answer: BeforeCommitted("outbox_done"), |found| found.events > 0;
    after_a_notice_before_its_confirm: BeforeConfirm("worker: scheduled notices", "orders.again"), |found| found.copies > 0 && found.scheduled > 0;
    after_the_confirm_of_a_notice_before_its_deletion: BeforeStatement("schedule_done"), |found| found.copies > 0 && found.scheduled > 0;
    after_the_deletion_of_a_notice_before_its_answer: BeforeCommitted("schedule_done"), |found| found.copies > 0;
}
