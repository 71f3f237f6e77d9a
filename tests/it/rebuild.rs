//! `overdue rebuild`: a notice for every open order, on a broker that has lost them.

use std::collections::BTreeSet;

use super::parked::ends;
use crate::support::{
    Parked, Run, World,
    orders::{WRITTEN, WRITTEN_OVERDUE},
    samples, until,
};

/// No order is due within a test, so all have the same remaining time.
const FAR: &str = "2099-01-01T00:00:00Z";
/// The first level of such a notice.
pub(super) const LAST_LEVEL: &str = "orders.delay.30m";

/// Four timeouts with three effects.
const TIMEOUTS: [(&str, &str, &str); 4] = [
    ("unpaid", "1s", "close"),
    ("unpaid-too", "2s", "close"),
    ("unshipped", "30m", "cancel"),
    ("unconfirmed", "30m", "complete"),
];

fn using(timeouts: &[(&str, &str, &str)]) -> String {
    samples::orders("levels = ['1s', '2s', '30m']", timeouts, "['1s']")
}

pub(super) async fn far(world: &World, prefix: &str, count: usize) -> Vec<String> {
    let orders = world.orders(prefix, count, 1_000_000).await;
    world.sql(&format!("UPDATE orders SET due_at = '{FAR}' WHERE id LIKE '{prefix}-%'")).await;
    orders
}

/// Open orders in each state that can become overdue, and final ones.
async fn states() -> World {
    let world = World::of(&using(&TIMEOUTS)).await;
    far(&world, "o", 3).await;
    world.orders("late", 2, -60_000).await;
    world.sql("UPDATE orders SET due_at = '2026-01-02T03:04:05.6Z' WHERE id = 'late-0'").await;
    for state in ["paid", "shipped", "closed", "cancelled", "completed"] {
        world.orders(state, 1, 1_000_000).await;
        world.bring_to(&format!("{state}-0"), state).await;
    }
    world
        .sql(&format!(
            "UPDATE orders SET ship_by = '{FAR}' WHERE status = 'paid';
             UPDATE orders SET confirm_by = '{FAR}' WHERE status = 'shipped'"
        ))
        .await;
    world
}

/// Returns the ids of the orders in a queue, and the number of its messages.
pub(super) async fn taken(world: &World, queue: &str) -> (BTreeSet<String>, usize) {
    let taken = world.wire().await.take_all(queue).await;
    (taken.iter().map(Parked::order).collect(), taken.len())
}

pub(super) fn set(ids: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    ids.into_iter().collect()
}

/// Runs `overdue rebuild` after another one: the broker may not have noticed the end of that one yet.
pub(super) async fn rebuild_again(run: impl Fn() -> Run) -> Run {
    until("the lock is free", async || run(), |run| run.code != Some(1)).await
}

#[apply(world_test)]
async fn what_would_be_published_is_shown_and_then_each_open_order_has_one_notice() {
    let world = states().await;
    insta::assert_snapshot!("preview", world.shown(&world.overdue(&["rebuild", "--rate", "1"])));
    let run = world.overdue(&["rebuild", "--timeout", "unpaid-too"]);
    insta::assert_snapshot!("preview_of_a_part", world.shown(&run));
    ends(&world, 64, &["rebuild", "--timeout", "unpayed"]);
    assert_eq!(world.wire().await.ready(LAST_LEVEL).await, 0);

    let run = world.overdue(&["rebuild", "--yes", "-o", "json"]);
    let json = run.json();
    assert_eq!((run.code, &json["published"]), (Some(0), &7.into()), "{run}");
    assert_eq!(json["timeouts"][0]["open"], 5, "{run}");
    let waiting = world.wire().await.take_all(LAST_LEVEL).await;
    let mut found: Vec<(String, String, Option<String>)> =
        waiting.into_iter().map(|it| (it.text(), it.key, it.message_id)).collect();
    found.sort();
    let notice = |id: &str, key: &str| {
        let body = serde_json::json!({ "order_id": id, "due_at": FAR }).to_string();
        (body, key.to_owned(), Some(format!("{id}@{FAR}")))
    };
    let unpaid = ["o-0", "o-1", "o-2"].map(|id| notice(id, "30m.unpaid"));
    let others = [notice("paid-0", "30m.unshipped"), notice("shipped-0", "30m.unconfirmed")];
    assert_eq!(found, [&unpaid[..], &others].concat());
    // Overdue orders do not wait.
    assert_eq!(taken(&world, "orders.unpaid").await.0, set(["late-0".into(), "late-1".into()]));

    world.sql("DELETE FROM orders").await;
    let run = rebuild_again(|| world.overdue(&["rebuild"])).await;
    insta::assert_snapshot!("nothing_is_open", world.shown(&run));
    world.sql("INSERT INTO orders (id, due_at) VALUES ('never', '9999-12-31')").await;
    let run = world.overdue(&["rebuild"]);
    assert!(run.stdout.ends_with("no other order is open: there is nothing to publish\n"), "{run}");
}

/// The broker is empty, the orders are due now, soon and later; only the notices close them.
#[apply(world_test)]
async fn on_an_empty_broker_orders_are_closed_by_their_new_messages_at_their_deadlines() {
    let world = World::new().await;
    world.orders("late", 20, -5_000).await;
    world.orders("soon", 150, 2_500).await;
    world.orders("paid", 5, 2_500).await;
    far(&world, "far", 3).await;
    assert!(world.pay("paid-0").await);
    // Twice: the second notice of an order does no harm.
    for _ in 0..2 {
        let run = rebuild_again(|| world.overdue(&["rebuild", "--yes"])).await.exits(0);
        assert!(run.stdout.contains("published 177 notices, all confirmed"), "{run}");
    }
    // Paid after its notice was published.
    assert!(world.pay("paid-1").await);
    let worker = world.worker();
    world.until_closed(173).await;
    world.until_empty("orders.unpaid").await;
    assert_eq!(world.rows_of("closures WHERE path <> 'message'").await, 0);
    world.assert_invariants().await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.parked, counts.retried), (173, 0, 0));
    assert_eq!(world.rows_of("orders WHERE status = 'unpaid'").await, 3);
}

#[apply(world_test)]
async fn a_broker_without_the_topology_gets_nothing() {
    let world = World::new().await;
    far(&world, "o", 2).await;
    let wire = world.wire().await;
    world.delete("queues", LAST_LEVEL).await;
    let run = world.overdue(&["rebuild", "--yes"]);
    insta::assert_snapshot!("a_level_is_missing", world.shown(&run));
    assert_eq!(wire.ready("orders.parked").await, 0);
    let bare = World::of_tables().await;
    far(&bare, "o", 2).await;
    ends(&bare, 78, &["rebuild", "--yes"]).reports("`overdue apply`");
    // Without the check, the first orders would be published, and one in the middle with this path would stop the command.
    let ladder = World::of(samples::LADDER).await;
    ladder.orders("soon", 2, 600_000).await;
    far(&ladder, "o", 2).await;
    let queue = "orders.ladder.delay.9h";
    ladder.delete("queues", queue).await;
    let run = ends(&ladder, 78, &["rebuild", "--yes", "--timeout", "unpaid"]);
    assert!(run.stderr.contains(queue) && run.stderr.contains("nothing was published"), "{run}");
}

/// The time is above the worker's limit and below the shortest level: no path ends in time.
#[apply(world_test)]
async fn levels_that_are_too_long_for_an_order_are_named_before() {
    let timeout = [("unpaid", "30m", "close")];
    let world = World::of(&samples::orders("levels = ['30m']", &timeout, "['30m']")).await;
    world.orders("o", 1, 900_000).await;
    let run = ends(&world, 0, &["rebuild", "--yes"]);
    let note = "note: no level is shorter than 30m: orders that are due before that, and in more than 10m, are closed by the sweep";
    assert!(run.stderr.contains(note), "{run}");
    assert_eq!(taken(&world, LAST_LEVEL).await.1, 1);
}

/// The error for an effect without a query for its open orders names the statement to write.
#[apply(world_test)]
async fn an_effect_that_cannot_be_asked_for_its_orders_says_what_to_write() {
    let world = World::of(&using(&[("unpaid", "1s", "mine")])).await;
    let write = |name: &str, text: &str| std::fs::write(world.dir.path().join(name), text).unwrap();
    write("mine.sql", WRITTEN);
    write("overdue.toml", "[effects.mine]\nsql = \"mine.sql\"\n");
    insta::assert_snapshot!("without_overdue_sql", world.shown(&world.overdue(&["rebuild"])));
    write("overdue.toml", "[effects.mine]\nsql = \"mine.sql\"\noverdue_sql = \"old.sql\"\n");
    let old = "SELECT id AS order_id FROM orders WHERE status = 'unpaid' AND due_at <= now() - $2::bigint * interval '1 ms' LIMIT $1";
    write("old.sql", old);
    let run = world.overdue(&["rebuild"]);
    insta::assert_snapshot!("without_pages", world.shown(&run));
    world.overdue(&["effect", "check", "mine"]).exits(78);
    // A correct statement that fails.
    let (whole, parts) = ("interval '1 millisecond'", "(SELECT count(*) FROM stock)");
    write("old.sql", &WRITTEN_OVERDUE.replace(whole, &format!("{whole} / {parts}")));
    world.sql("DELETE FROM stock").await;
    let run = ends(&world, 1, &["rebuild"]);
    let place = "effect `mine` (old.sql";
    assert!(run.stderr.contains(place) && run.stderr.contains("division by zero"), "{run}");
}

/// Dates at the ends of the calendar, and ids that no message can contain: the forecast is equal to the result.
#[apply(world_test)]
async fn what_has_no_deadline_and_what_has_no_usable_id_hold_up_nothing() {
    let world = World::new().await;
    far(&world, "o", 2).await;
    world
        .sql(
            "INSERT INTO orders (id, due_at) VALUES ('never', 'infinity'), ('always', '-infinity'),
                 ('old', '4000-01-01 BC'), ('later', '9999-01-01'), ('next century', '9999-01-01'),
                 ('next year', '2098-01-01'), ('later-too', '2098-01-01')",
        )
        .await;
    // White space, control characters and bytes by the program's rules.
    let odd =
        ["", "two words", "a\tb", "a\u{a0}b", "a\u{85}b", "\u{3000}", "a\u{200b}b", "a\u{ad}b"];
    let long = ["x".repeat(200), "x".repeat(201), "é".repeat(101)];
    let client = world.store.client().await.unwrap();
    for id in odd.into_iter().chain(["é"]).chain(long.iter().map(String::as_str)) {
        let insert = "INSERT INTO orders (id, due_at) VALUES ($1, now() + interval '1 hour')";
        client.execute(insert, &[&id]).await.unwrap();
    }
    let run = world.overdue(&["rebuild", "--yes"]);
    insta::assert_snapshot!("odd_orders", world.shown(&run).replace(FAR, "<far>"));
    let far = taken(&world, LAST_LEVEL).await.0;
    assert!(["o-0", "later-too", &long[0]].iter().all(|id| far.contains(*id)), "{far:?}");
    assert_eq!(taken(&world, "orders.unpaid").await.0, set(["always".into(), "old".into()]));
}

/// The levels would take every notice, and the broker would park each when it is due. The applied timeouts are rebuilt.
#[apply(world_test)]
async fn a_timeout_that_is_not_applied_gets_nothing() {
    let [unpaid, too, _unshipped, unconfirmed] = TIMEOUTS;
    let world = World::of(&using(&[unpaid, too, unconfirmed])).await;
    far(&world, "o", 2).await;
    assert!(world.pay("o-0").await);
    world.sql(&format!("UPDATE orders SET ship_by = '{FAR}' WHERE id = 'o-0'")).await;
    let newer = world.dir.path().join("newer.toml");
    std::fs::write(&newer, using(&TIMEOUTS)).unwrap();
    let newer = [("OVERDUE_TOPOLOGY", newer.to_str().unwrap())];
    let refused = |arguments: &[&str], nothing: &str| {
        let run = world.overdue_with(arguments, &newer).exits(78);
        let lacks = "on the broker no queue of `unshipped` gets what is due, a ";
        assert!(run.stderr.contains(lacks) && run.stderr.contains(nothing), "{run}");
    };
    refused(&["rebuild", "--yes"], "run `overdue apply` first; nothing was published");
    refused(&["publish", "o-0", "--timeout", "unshipped"], "would be parked: run `overdue apply`");
    let wire = world.wire().await;
    assert_eq!((wire.ready(LAST_LEVEL).await, wire.ready("orders.parked").await), (0, 0));
    world.overdue_with(&["rebuild", "--yes", "--timeout", "unpaid"], &newer).exits(0);
    assert_eq!(taken(&world, LAST_LEVEL).await.0, set(["o-1".into()]));
}
