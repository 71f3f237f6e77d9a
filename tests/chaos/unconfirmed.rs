//! A queue that gives neither ack nor nack, as a quorum queue without its majority does.

use std::{collections::BTreeSet, process::Command, time::Instant};

use crate::{
    stage::{Stage, TOPOLOGY, until_logged},
    support::{Parked, Wire, WorkerProcess, World, text, until},
};

/// More than a publisher waits for at once.
const STUCK: i64 = 1_500;
const ROUNDS: usize = 4;
/// So many tries at the most, and one more for each minute: each waits for its confirm for longer than that.
fn tries_since(began: Instant, first: i64) -> i64 {
    first + i64::try_from(began.elapsed().as_secs() / 60).unwrap()
}

fn relay_failures(worker: &WorkerProcess) -> usize {
    worker.logged("the relay failed")
}

#[apply(world_test)]
async fn notices_without_a_confirm_hold_up_no_others_and_are_not_published_again_and_again() {
    let stage = Stage::beside_others(TOPOLOGY).await;
    let world = &stage.world;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min') ON CONFLICT DO NOTHING").await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "25s.#").await;
    world
        .sql(&format!(
            "SELECT schedule('stuck-' || n, 'unpaid', '40 minutes') FROM generate_series(1, {STUCK}) n"
        ))
        .await;
    let suspended = stage.broker.suspend(&world.vhost, "orders.delay.25s").await;
    let worker = stage
        .worker_with(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
        })
        .await;
    until_logged(&worker, "scheduled notices are not taken by the broker", 1).await;
    for round in 0..ROUNDS {
        world.orders(&format!("o{round}"), 5, 4_000).await;
        world
            .sql(&format!(
                "SELECT schedule_at(id, 'unpaid', due_at) FROM orders WHERE id LIKE 'o{round}-%'"
            ))
            .await;
        world.until_closed(5 * (round + 1)).await;
    }
    // A notice that waits for the confirms of the others is 6 s late at least, and all of them are. Some may be late where the
    // machine is busy with something else for seconds.
    let late = "SELECT count(*) FROM closures WHERE closed_at > due_at + interval '4 s'";
    assert!(world.number(late).await < 5 * i64::try_from(ROUNDS).unwrap(), "{}", worker.log());
    suspended.resume().await;
    let waiting = async || world.number("SELECT count(*) FROM scheduled_notices").await;
    until("all are published", waiting, |rows| *rows == 0).await;
    // Those that have come out of their level meanwhile were put back into it, and say so.
    let along = wire.take_all(&along).await;
    let copies = along.iter().filter(|message| message.attempt().is_none()).count();
    let copies = i64::try_from(copies).unwrap();
    assert!((STUCK..=2 * STUCK + 20).contains(&copies), "{copies}");
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
}

/// Subscribers of events: one whose queue is to be suspended, and one that takes everything else.
struct Subscribers<'a> {
    world: &'a World,
    wire: Wire,
    others: String,
}

impl<'a> Subscribers<'a> {
    async fn of(stage: &'a Stage) -> Self {
        let world = &stage.world;
        let wire = world.wire().await;
        let others = wire.listen("orders.events", "order.*").await;
        wire.queue("stuck", &[("x-queue-type", text("quorum"))]).await;
        wire.bind("stuck", "orders.events", "stuck").await;
        Self { world, wire, others }
    }

    async fn write(&self, event: &str, order: &str, count: usize) {
        let write = "INSERT INTO outbox (event, order_id) SELECT";
        let from = format!("generate_series(1, {count}) n");
        self.world.sql(&format!("{write} '{event}', '{order}-' || n FROM {from}")).await;
    }

    async fn until_others(&self, count: usize) {
        let ready = async || self.wire.ready(&self.others).await;
        until("the others are out", ready, |ready| *ready as usize >= count).await;
    }

    /// An order is closed and its event published, several times, one after the other; `seen` were there before.
    async fn others_go_on(&self, round: &str, seen: usize) {
        for n in 0..ROUNDS {
            let order = self.world.orders(&format!("{round}{n}"), 1, 0).await;
            self.wire.publish_all("orders.dlx", "5s.unpaid", &order).await;
            self.until_others(seen + n + 1).await;
        }
    }

    async fn set_aside(&self) -> i64 {
        self.world.number("SELECT count(*) FROM outbox_refused").await
    }

    async fn has_come(&self, event: &str) -> bool {
        self.wire.take_all(&self.others).await.iter().any(|message| message.key == event)
    }

    async fn until_nothing_waits(&self) {
        let left = "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_refused)";
        until("all are published", async || self.world.number(left).await, |left| *left == 0).await;
    }
}

/// On a channel that has published nothing for that queue yet, the broker passes on no confirm of any message.
#[apply(world_test)]
async fn an_event_without_a_confirm_holds_up_no_others_and_goes_out_when_its_queue_answers() {
    let stage = Stage::beside_others(TOPOLOGY).await;
    let world = &stage.world;
    let subscribers = Subscribers::of(&stage).await;
    let suspended = stage.broker.suspend(&world.vhost, "stuck").await;
    let began = Instant::now();
    subscribers.write("stuck", "s", 1).await;
    subscribers.write("order.other", "o", 2_000).await;
    subscribers.write("order.behind", "s", 1).await;
    let (mut one, mut other) = (stage.worker().await, stage.worker().await);
    subscribers.until_others(2_000).await;
    subscribers.others_go_on("a", 2_000).await;
    until("both are set aside", async || subscribers.set_aside().await, |rows| *rows == 2).await;
    for worker in [&one, &other] {
        assert_eq!(relay_failures(worker), 0, "{}", worker.log());
    }
    let run = world.overdue(&["doctor"]);
    let named = "2 events refused or not confirmed by the broker; for the longest time stuck (";
    assert!(run.stdout.contains(named) && run.stdout.contains("of order s-1: "), "{run}");
    let status = world.overdue(&["status", "-o", "json"]).json();
    assert_eq!(status["database"]["known"]["outbox"]["refused"], 2, "{status}");

    one.kill();
    other.kill();
    let worker = stage.worker().await;
    subscribers.others_go_on("b", 2_000 + ROUNDS).await;
    assert_eq!(subscribers.set_aside().await, 2);
    assert!(!subscribers.has_come("order.behind").await);
    suspended.resume().await;
    subscribers.until_nothing_waits().await;
    let copies = i64::from(subscribers.wire.ready("stuck").await);
    assert!((1..=tries_since(began, 5)).contains(&copies), "{copies}");
    assert!(subscribers.has_come("order.behind").await, "{}", worker.log());
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
}

/// On a channel that has, the broker goes on until some of them wait, and then stops the connection.
#[apply(world_test)]
#[ignore = "takes more than a minute: `make proof PART=services`"]
async fn a_queue_that_ceases_to_confirm_holds_up_only_its_events_and_gets_few_copies() {
    let stage = Stage::beside_others(TOPOLOGY).await;
    let world = &stage.world;
    let subscribers = Subscribers::of(&stage).await;
    let worker = stage.worker().await;
    subscribers.write("stuck", "first", 1).await;
    subscribers.write("order.other", "first", 1).await;
    subscribers.until_nothing_waits().await;
    let suspended = stage.broker.suspend(&world.vhost, "stuck").await;
    let began = Instant::now();
    world
        .sql(&format!(
            "INSERT INTO outbox (event, order_id)
             SELECT CASE n % 5 WHEN 0 THEN 'stuck' ELSE 'order.other' END,
                    CASE n % 5 WHEN 4 THEN 'free-' ELSE 'o-' END || n / 5
             FROM generate_series(0, {}) n",
            5 * STUCK - 1
        ))
        .await;
    let free = 1 + usize::try_from(STUCK).unwrap();
    subscribers.until_others(free).await;
    // With those that are behind them in their orders.
    let aside = async || subscribers.set_aside().await;
    until("all are set aside", aside, |rows| *rows == 4 * STUCK).await;
    subscribers.others_go_on("a", free).await;
    suspended.resume().await;
    subscribers.until_nothing_waits().await;
    let copies = i64::from(subscribers.wire.ready("stuck").await) - 1;
    assert!((STUCK..=tries_since(began, 2 * STUCK + 5)).contains(&copies), "{copies}");
    assert!(i64::from(subscribers.wire.ready(&subscribers.others).await) > 4 * STUCK);
    assert_eq!(relay_failures(&worker), 0, "{}", worker.log());
}

const COPIES: &str = r#"
name = "orders"

[delay]
levels = ["100ms", "1h"]

[[timeout]]
name = "unpaid"
after = "100ms"

[retry]
after = ["100ms"]
"#;

/// A passive declare says that it is empty; then nothing would be parked as far as anybody on call can see.
#[apply(world_test)]
async fn a_parking_lot_that_does_not_answer_is_not_taken_for_an_empty_one() {
    let stage = Stage::beside_others(COPIES).await;
    let world = &stage.world;
    let wire = world.wire().await;
    let orders: Vec<String> = (0..3).map(|n| format!("o{n}")).collect();
    wire.publish_all("orders.park", "", &orders).await;
    wire.until_ready("orders.parked", 3).await;
    let suspended = stage.broker.suspend(&world.vhost, "orders.parked").await;
    let run = world.overdue(&["parked", "list"]);
    assert_ne!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("`orders.parked`") && run.stderr.contains("does not answer"),
        "{run}"
    );
    suspended.resume().await;
    world.overdue(&["parked", "list"]).exits(0).prints("3 messages");
}

/// A passive declare of such a queue says that it has no consumer.
#[apply(world_test)]
async fn a_consumed_queue_that_does_not_answer_is_not_removed_and_its_orders_are_closed() {
    let stage = Stage::beside_others(TOPOLOGY).await;
    let world = &stage.world;
    let usual = |command: &mut Command| _ = command.env_remove("OVERDUE_TEST_TIMING");
    let worker = stage.worker_with(usual).await;
    let refused = "queue     orders.unpaid is consumed";
    // By the statistics: it says nothing itself in a moment.
    let counted = async || world.management().observe().await.unwrap().consumed;
    until("it is counted", counted, |consumed| consumed.contains("orders.unpaid")).await;
    let silent = "RabbitMQ does not answer";
    let before = worker.logged(silent);
    let suspended = stage.broker.suspend(&world.vhost, "orders.unpaid").await;
    world.overdue(&["remove"]).prints(refused);
    // No message comes out of it.
    until_logged(&worker, silent, before + 1).await;
    world.orders("o", 20, 50).await;
    world.until_closed(20).await;
    assert_eq!(world.number("SELECT count(*) FROM closures WHERE path = 'burst'").await, 20);
    suspended.resume().await;
    drop(worker);
}

/// A confirm that is missing is the fault of its place alone, and what waits for it is not published again.
#[apply(world_test)]
async fn a_level_that_does_not_answer_holds_up_no_other_copies_and_each_is_parked_once() {
    let stage = Stage::beside_others(COPIES).await;
    let world = &stage.world;
    let wire = world.wire().await;
    let early = world.orders("early", 1, 36_000_000).await;
    let suspended = stage.broker.suspend(&world.vhost, "orders.delay.1h").await;
    let worker = stage.worker().await;
    wire.publish_all("orders.dlx", "1h.unpaid", &early).await;
    until_logged(&worker, "messages wait: the broker has not confirmed their copies", 1).await;
    let garbage: Vec<String> = (0..50).map(|n| format!("{{garbage {n}")).collect();
    let unknown: Vec<String> = (0..50).map(|n| format!("unknown-{n}")).collect();
    wire.publish_all("orders.dlx", "1h.unpaid", &garbage).await;
    wire.publish_all("orders.dlx", "1h.unpaid", &unknown).await;
    let parked = async || wire.ready("orders.parked").await;
    // Before the level answers: without that they would be behind it.
    until("all are parked", parked, |ready| *ready >= 100).await;
    suspended.resume().await;
    wire.until_ready("orders.delay.1h", 1).await;
    let lot = wire.take_all("orders.parked").await;
    let bodies: BTreeSet<String> = lot.iter().map(Parked::text).collect();
    assert_eq!((lot.len(), bodies.len()), (100, 100), "{}", worker.log());
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
}

const TWO: &str = r#"
name = "orders"

[delay]
levels = ["100ms"]

[[timeout]]
name = "unpaid"
after = "100ms"

[[timeout]]
name = "unshipped"
after = "100ms"
effect = "cancel"

[retry]
after = ["100ms"]
"#;

/// A queue confirms a subscription before it can serve it; a minute later it ends the connection.
#[apply(world_test)]
#[ignore = "takes more than a minute: `make proof PART=services`"]
async fn a_queue_that_does_not_answer_takes_no_messages_of_others_back() {
    let stage = Stage::beside_others(TWO).await;
    let world = &stage.world;
    let suspended = stage.broker.suspend(&world.vhost, "orders.unshipped").await;
    let mut worker = stage
        .worker_with(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
        })
        .await;
    let ended = |worker: &WorkerProcess| {
        worker.logged("this queue is not consumed at present") + worker.logged("session ended")
    };
    let mut closed = 0;
    while ended(&worker) == 0 {
        world.publish_orders("100ms", &format!("o{closed}"), 5, 300).await;
        closed += 5;
        world.until_closed(closed).await;
    }
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
    suspended.resume().await;
    worker.until_logged("these are consumed as well").await;
}
