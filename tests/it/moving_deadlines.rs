//! A deadline that moves while its notice waits.

use overdue::internals::config::WorkerSettings;

use crate::support::{
    World,
    samples::orders,
    worker::{millis, settings},
};

fn ladder() -> String {
    orders("ladder = { max = '1d' }\nstrategy = 'ladder'", &[("unpaid", "30m", "close")], "['1s']")
}

fn hold_a_second() -> WorkerSettings {
    WorkerSettings { hold: millis("1s"), ..settings() }
}

/// Asserts that the order was closed once, and not before its deadline, which was `old` ms after its creation at first.
async fn assert_closed_once_at_the_new_deadline(world: &World, id: &str) {
    world.assert_invariants().await;
    let sql = format!(
        "SELECT count(*) FROM closures JOIN orders ON orders.id = order_id WHERE order_id = '{id}' \
         AND path = 'message' AND closures.due_at = orders.due_at AND closures.closed_at >= orders.due_at"
    );
    assert_eq!(world.number(&sql).await, 1);
}

/// An UPDATE, and no message. The notice arrives at the old deadline, closes nothing, and waits for exactly the remaining time.
#[apply(world_test)]
async fn an_extended_deadline_needs_no_message() {
    let (world, wire) = World::clocked_of(&ladder()).await.wired().await;
    let along = wire.listen("orders.ladder.again", "#").await;
    let id = world.orders("o", 1, 1_000).await.remove(0);
    world.overdue(&["publish", &id, "--after", "1s"]).exits(0);
    // The clock stops, so that 3 s are left when the notice arrives, however slow the machine is.
    world.clock().stop().await;
    world.sql("UPDATE orders SET due_at = now() + interval '3 s'").await;
    let worker = world.worker_with(hold_a_second());
    worker.until("put back", |counts| counts.put_back >= 1).await;
    assert_eq!(world.closed().await, 0);
    world.clock().advance("3 s").await;
    world.until_closed(1).await;
    assert_closed_once_at_the_new_deadline(&world, &id).await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried, counts.parked), (1, 0, 0), "{counts:?}");
    // The notice takes only levels within the remaining time: a longer one would be late.
    let sent = usize::try_from(counts.put_back).unwrap();
    let keys: Vec<String> =
        wire.take_many(&along, sent).await.into_iter().map(|message| message.key).collect();
    let rest = ["1.unpaid", "2.unpaid", "3.unpaid"];
    assert!(keys.iter().all(|key| rest.contains(&key.as_str())), "{keys:?}");
    world.until_empty("orders.unpaid").await;
    assert_eq!(wire.ready(&along).await, 0, "its copies");
}

/// An UPDATE and a second message. The later message finds the order final, whichever arrives first.
#[apply(world_test)]
async fn a_shortened_deadline_needs_a_second_message() {
    let world = World::clocked_of(&ladder()).await;
    let id = world.orders("o", 1, 3_600_000).await.remove(0);
    // The broker's time runs on: the notice arrives long before its deadline.
    world.overdue(&["publish", &id, "--after", "2s"]).exits(0);
    world.sql("UPDATE orders SET due_at = now() + interval '1 s'").await;
    let new: String = world
        .rows("SELECT to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM orders")
        .await[0]
        .get(0);
    world.overdue(&["publish", &id, "--due-at", &new]).exits(0);
    let worker = world.worker_with(hold_a_second());
    world.until_closed(1).await;
    assert_closed_once_at_the_new_deadline(&world, &id).await;
    worker.until("the other one came", |counts| counts.already_final == 1).await;
    world.assert_invariants().await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.put_back, counts.parked), (1, 0, 0), "{counts:?}");
}

#[apply(world_test)]
async fn explain_shows_a_deadline_that_was_moved() {
    let world = World::of(&ladder()).await;
    let ids = world.orders("o", 3, 3_600_000).await;
    world.sql("UPDATE orders SET due_at = now() + interval '37 min 59 s'").await;
    let run = world.overdue(&["explain", "--order", &ids[0], "-o", "json"]).exits(0);
    let shown = run.json();
    assert_eq!(shown["order"]["status"], "not_due", "{run}");
    let due_at: jiff::Timestamp = shown["order"]["due_at"].as_str().unwrap().parse().unwrap();
    let asked: jiff::Timestamp = shown["order"]["now"].as_str().unwrap().parse().unwrap();
    assert_eq!(due_at.duration_since(asked).as_mins(), 37, "{run}");

    // A query changes neither the paid order nor the overdue one.
    assert!(world.pay(&ids[1]).await);
    world.sql(&format!("UPDATE orders SET due_at = now() WHERE id = '{}'", ids[2])).await;
    for (id, status) in [(&ids[1], "final"), (&ids[2], "overdue")] {
        let run = world.overdue(&["explain", "--order", id, "-o", "json"]);
        assert_eq!(run.json()["order"]["status"], status, "{run}");
    }
    assert_eq!(world.status(&ids[2]).await, "unpaid");
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM outbox WHERE event = 'order.closed'").await, 0);
    let run = world.overdue(&["explain", "--order", "unheard-of"]).exits(1);
    assert!(run.stderr.contains("does not know the order unheard-of"), "{run}");
}

/// The UPDATE of docs/pause.md: open orders get an hour more, also those that were due within the last hour.
#[apply(world_test)]
async fn all_deadlines_are_moved_by_one_update() {
    let page = include_str!("../../docs/pause.md");
    let update = page.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let world = World::clocked().await;
    world.clock().stop().await;
    // Due in a millisecond, while the clock is stopped. By the time of PostgreSQL's commit timestamps it is past at once.
    let coming = world.orders("coming", 2, 1).await;
    let due = world.orders("due", 2, -60_000).await;
    let paid = world.orders("paid", 1, 1).await;
    assert!(world.pay(&paid[0]).await);
    world.sql(update).await;
    world.publish("100ms", &[coming, due, paid].concat()).await;
    let worker = world.worker_with(hold_a_second());
    worker.until("all came", |counts| counts.put_back >= 4 && counts.already_final >= 1).await;
    assert_eq!(world.closed().await, 0);
    worker.stop().await;
    // This worker has not seen the earlier clock: it finds the orders that are overdue now.
    world.clock().advance("59 min 30 s").await;
    let sweep = WorkerSettings { sweep_grace: millis("1ms"), ..hold_a_second() };
    let worker = world.worker_with(sweep);
    world.until_closed(2).await;
    assert_eq!((world.status("due-0").await, world.closed().await), ("closed".to_owned(), 2));
    worker.stop().await;
    world.clock().advance("2 min").await;
    let worker = world.worker_with(WorkerSettings { sweep_grace: millis("1ms"), ..settings() });
    world.until_closed(4).await;
    world.assert_invariants().await;
    worker.stop().await;
}
