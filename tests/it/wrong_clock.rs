//! A worker's clock that is five minutes off, or steps: the real binary under libfaketime. The database's clock decides; the
//! worker's own clock only affects the times in its log.

use jiff::Timestamp;
use overdue::internals::{
    order::OrderId,
    topology::route::Delay,
    wire::{DueNotice, Message},
};

use crate::support::{WorkerProcess, World, clock::WorkerClock, until};

const MINUTES_OFF: i64 = 5;

/// Publishes notices with their deadline, which could mislead a worker.
async fn publish_dated(world: &World, level: &str, ids: &[String]) {
    let publisher = world.publisher().await;
    for id in ids {
        let route = world.topology.route("unpaid", &Delay::Level(level.to_owned())).unwrap();
        let due_us = format!(
            "SELECT (extract(epoch FROM due_at) * 1000000)::bigint FROM orders WHERE id = '{id}'"
        );
        let due_at = Timestamp::from_microsecond(world.number(&due_us).await).ok();
        let notice = DueNotice { order_id: OrderId::parse(id).unwrap(), due_at };
        publisher.publish(Message::notice(route, &notice)).await.unwrap();
    }
}

/// Returns the error of the log's last time, in minutes.
#[expect(clippy::disallowed_methods, reason = "the log has the time of this machine")]
fn minutes_off(worker: &WorkerProcess) -> i64 {
    let log = worker.log();
    let mut times = log.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let last: Timestamp = times.next_back().expect("a line with a time");
    (last.duration_since(Timestamp::now()).as_secs() + 30).div_euclid(60)
}

/// Asserts that messages closed the orders, neither early nor by the sweep, within the tests' patience, which is shorter than
/// the clock's error.
async fn closed_by_their_messages(world: &World, count: usize) {
    world.until_closed(count).await;
    world.assert_invariants().await;
    let other = "SELECT count(*) FROM closures WHERE path = 'sweep'";
    assert_eq!(world.number(other).await, 0, "found by the sweep");
    world.parked(0).await;
    world.until_empty("orders.unpaid").await;
}

/// Early notices wait, due orders are closed, and rows of `schedule()` are published, all as with a right clock.
async fn with_a_clock_that_is_off(minutes: i64) {
    let world = World::new().await;
    let Some(clock) = WorkerClock::of(world.dir.path()) else { return };
    clock.set(minutes);
    let mut worker = world.started(|command| clock.is_of(command)).await;
    assert_eq!(minutes_off(&worker), minutes, "the clock is not the worker's");
    let due = world.orders("due", 20, 0).await;
    let early = world.orders("early", 20, 1_500).await;
    let scheduled = world.orders("scheduled", 20, 700).await;
    publish_dated(&world, "100ms", &due).await;
    publish_dated(&world, "100ms", &early).await;
    let registered = async || world.number("SELECT count(*) FROM schedule_timeouts").await;
    until("the worker's timeouts", registered, |registered| *registered > 0).await;
    world
        .sql("SELECT schedule_at(id, 'unpaid', due_at) FROM orders WHERE id LIKE 'scheduled-%'")
        .await;
    closed_by_their_messages(&world, due.len() + early.len() + scheduled.len()).await;
    worker.signal("TERM");
    let ended = worker.ended().await;
    assert_eq!(ended.code(), Some(0), "{}", worker.log());
}

#[apply(world_test)]
async fn a_clock_five_minutes_ahead_closes_nothing_early() {
    with_a_clock_that_is_off(MINUTES_OFF).await;
}

#[apply(world_test)]
async fn a_clock_five_minutes_behind_closes_nothing_late() {
    with_a_clock_that_is_off(-MINUTES_OFF).await;
}

/// The clock steps while notices wait.
async fn with_a_clock_that_steps(minutes: i64) {
    let world = World::clocked().await;
    let Some(clock) = WorkerClock::of(world.dir.path()) else { return };
    let mut worker = world
        .started(|command| {
            clock.is_of(command);
            command.env("OVERDUE_WORKER__HOLD", "5m");
        })
        .await;
    assert_eq!(minutes_off(&worker), 0, "the clock is off before it steps");
    let held = world.orders("held", 40, 4 * 60_000).await;
    let wire = world.wire().await;
    publish_dated(&world, "100ms", &held).await;
    let left = async || (wire.ready("orders.delay.100ms").await, wire.ready("orders.unpaid").await);
    until("all held", left, |left| *left == (0, 0)).await;
    clock.set(minutes);
    let later = world.orders("later", 20, 1_000).await;
    publish_dated(&world, "100ms", &later).await;
    world.until_closed(later.len()).await;
    assert_eq!(world.closed().await, 20, "the others are held");
    world.clock().advance("4 min").await;
    closed_by_their_messages(&world, held.len() + later.len()).await;
    worker.signal("TERM");
    let ended = worker.ended().await;
    assert_eq!(ended.code(), Some(0), "{}", worker.log());
    assert_eq!(minutes_off(&worker), minutes, "the clock did not step");
}

#[apply(world_test)]
async fn a_clock_that_steps_forwards_lets_go_of_nothing_that_is_held() {
    with_a_clock_that_steps(MINUTES_OFF).await;
}

#[apply(world_test)]
async fn a_clock_that_steps_backwards_holds_nothing_longer() {
    with_a_clock_that_steps(-MINUTES_OFF).await;
}
