//! Order services in another language, against the real worker process.

use crate::support::{World, python, until};

/// By their messages, and not before their time.
async fn assert_closed_by_message(world: &World, count: i64) {
    world.until_closed(usize::try_from(count).unwrap()).await;
    world.assert_invariants().await;
    let closed = "SELECT count(*) FROM closures WHERE path = 'message'";
    assert_eq!(world.number(closed).await, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_order_service_out_of_the_tutorial_gets_its_orders_closed() {
    let world = World::new().await;
    let process = world.started(|_| {}).await;
    let orders = world.orders("4711", 30, 1_000).await;
    assert!(world.pay(&orders[7]).await);
    let (url, mut arguments) = (world.broker_url(), vec![]);
    arguments.extend([url.as_str(), "1s.unpaid"]);
    arguments.extend(orders.iter().map(String::as_str));
    let run = python("examples/python/tutorial_order_service.py", &arguments, "");
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.stdout.lines().count(), 30, "{run}");
    assert_closed_by_message(&world, 29).await;
    assert_eq!(world.status(&orders[7]).await, "paid");
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
    assert!(!process.log().contains("ERROR"), "{}", process.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_order_service_with_json_and_confirms_gets_its_orders_closed() {
    let world = World::new().await;
    let process = world.started(|_| {}).await;
    world.orders("4711", 30, 1_000).await;
    let sql = "SELECT id || ' ' || to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM orders";
    let lines: Vec<String> = world.rows(sql).await.iter().map(|row| row.get(0)).collect();
    let url = world.broker_url();
    let script = "examples/python/confirmed_order_service.py";
    // Twice: publishing again is how such a service gets over a lost connection.
    for _ in 0..2 {
        let run = python(script, &[&url, "1s.unpaid"], &lines.join("\n"));
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(run.stdout.matches("confirmed").count(), 30, "{run}");
    }
    assert_closed_by_message(&world, 30).await;
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
    assert!(!process.log().contains("ERROR"), "{}", process.log());
}

/// The service hears nothing bad, because the alternate exchange took the message; operations find it parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_order_service_that_misspells_its_level_finds_its_messages_parked() {
    let world = World::new().await;
    let url = world.broker_url();
    let script = "examples/python/tutorial_order_service.py";
    let run = python(script, &[&url, "30min.unpaid", "4711"], "");
    assert_eq!(run.code, Some(0), "{run}");
    let parked = world.parked(1).await.remove(0);
    assert_eq!((parked.key.as_str(), parked.text().as_str()), ("30min.unpaid", "4711"));
}

/// Without the topology a confirming service is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_order_service_without_a_topology_fails() {
    let world = World::empty().await;
    let url = world.broker_url();
    let input = "4711 2026-11-20T10:30:00Z";
    let run = python("examples/python/confirmed_order_service.py", &[&url, "1s.unpaid"], input);
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("no exchange 'orders.in'"), "{run}");
    let look = async || world.management().observe().await.unwrap().objects.queues.len();
    until("nothing was created", look, |queues| *queues == 0).await;
}

/// The lines that a publisher in another language needs: no code is shared with ours.
#[test]
fn a_python_publisher_finds_the_path_of_every_golden_vector() {
    let vectors = include_str!("../../examples/ladder-vectors.json");
    let run = python("examples/python/ladder.py", &[], vectors);
    assert_eq!(run.code, Some(0), "{run}");
    let cases = vectors.matches("\"delay_ms\"").count();
    assert_eq!(run.stdout.trim(), format!("{cases} vectors, 0 wrong"));
    assert!(cases >= 60, "only {cases}");
    // It does compare.
    let forged = vectors.replacen("0.0.0.3.unpaid", "0.0.3.0.unpaid", 1);
    let run = python("examples/python/ladder.py", &[], &forged);
    assert_eq!(run.code, Some(1), "{run}");
}
