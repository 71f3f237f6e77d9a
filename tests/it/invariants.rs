//! A violation of each invariant of `sql/invariants.sql` is found.

use crate::support::{
    World,
    orders::{WRITTEN, broken},
};

/// A statement, and the beginning of the violation that it causes.
type Plant = (&'static str, &'static str);
/// Answers to orders, and the beginning of the violation that they cause.
type Answered = (&'static [(&'static str, &'static str)], &'static str);

/// The true answers to the customers of the five orders.
const ANSWERS: [(&str, &str); 5] = [
    ("closed-0", "created"),
    ("closed-0", "refused"),
    ("paid-0", "taken"),
    ("unsure-0", "unknown"),
    ("open-0", "created"),
];

const PLANTS: [Plant; 11] = [
    (
        "INSERT INTO closures (order_id, effect, path, due_at)
         SELECT order_id, effect, path, due_at FROM closures",
        "no order is closed twice: closed-0, 2 times",
    ),
    (
        "UPDATE closures SET closed_at = due_at - interval '1 s'",
        "no order is closed before its deadline: closed-0, 00:00:01 before",
    ),
    (
        "UPDATE orders SET closed_at = due_at - interval '1 s' WHERE status = 'closed'",
        "no order is closed before its deadline: closed-0, 00:00:01 before",
    ),
    (
        "DELETE FROM closures",
        "the status of an order is the outcome of its closure: closed-0 is closed, its closure says nothing",
    ),
    (
        "INSERT INTO closures (order_id, effect, path, due_at) VALUES ('paid-0', 'close', 'sweep', now())",
        "the status of an order is the outcome of its closure: paid-0 is paid, its closure says closed",
    ),
    (
        "UPDATE orders SET paid_at = now() WHERE status = 'closed'",
        "no order is paid and closed: closed-0",
    ),
    (
        "UPDATE orders SET due_at = now() - interval '1 s' WHERE id = 'open-0'",
        "no order is unpaid after its deadline: open-0, 00:00:01 after",
    ),
    (
        "UPDATE stock SET available = available - 1 WHERE sku = 'sku-1'",
        "no stock is lost or made: sku-1: 99999",
    ),
    (
        "UPDATE stock SET available = available + 1, reserved = reserved - 1 WHERE sku = 'sku-1'",
        "stock is reserved by unpaid orders, and sold by paid ones: sku-1: 0 reserved, 1 in unpaid orders",
    ),
    (
        "UPDATE stock SET available = available + 1, sold = sold - 1 WHERE sku = 'sku-1'",
        "stock is reserved by unpaid orders, and sold by paid ones: sku-1: 1 reserved",
    ),
    (
        "DELETE FROM order_items WHERE order_id = 'open-0'",
        "stock is reserved by unpaid orders, and sold by paid ones: sku-1: 1 reserved, 0 in unpaid orders",
    ),
];

const ANSWERED: [Answered; 4] = [
    (
        &[("x", "created"), ("paid-0", "taken"), ("unsure-0", "taken")],
        "every order that was created is there: x",
    ),
    (
        &[("closed-0", "taken"), ("paid-0", "taken"), ("unsure-0", "unknown")],
        "an order is paid if its payment was taken, and only then: closed-0 is closed",
    ),
    (
        &[("paid-0", "refused"), ("unsure-0", "unknown")],
        "an order is paid if its payment was taken, and only then: paid-0 is paid",
    ),
    (
        &[("open-0", "refused"), ("paid-0", "taken"), ("unsure-0", "unknown")],
        "no payment of an unpaid order is refused: open-0",
    ),
];

#[tokio::test]
async fn each_invariant_is_found_broken() {
    let world = World::of_tables().await;
    for prefix in ["closed", "paid", "unsure"] {
        world.orders(prefix, 1, -50).await;
    }
    world.orders("open", 1, 3_600_000).await;
    assert!(world.pay("paid-0").await && world.pay("unsure-0").await);
    let client = world.store.client().await.unwrap();
    let no_traces = None::<serde_json::Value>;
    client.query(WRITTEN, &[&["closed-0"].as_slice(), &"message", &no_traces]).await.unwrap();
    assert_eq!(broken(&client, "", (true, &ANSWERS)).await, [""; 0]);
    let answered = ANSWERED.map(|(answers, found)| ("", answers, found));
    let planted = PLANTS.map(|(plant, found)| (plant, &ANSWERS[..], found));
    for (plant, answers, found) in planted.into_iter().chain(answered) {
        client.batch_execute(&format!("BEGIN; {plant}")).await.unwrap();
        let broken = broken(&client, "", (true, answers)).await;
        client.batch_execute("ROLLBACK").await.unwrap();
        assert!(broken.len() == 1 && broken[0].starts_with(found), "{plant}: {broken:#?}");
    }
    // The time of the commit counts, whatever the row contains.
    let commits_early =
        "UPDATE closures SET due_at = now() + interval '1 h', closed_at = now() + interval '2 h'";
    client.batch_execute(commits_early).await.unwrap();
    let broken = broken(&client, "", (true, &ANSWERS)).await;
    let found = "no order is closed before its deadline: closed-0, ";
    assert!(broken.len() == 1 && broken[0].starts_with(found), "{broken:#?}");
}
