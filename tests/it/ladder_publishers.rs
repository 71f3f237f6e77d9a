//! Publishers in other languages, on a ladder: what they send is closed by our worker.

use std::path::Path;

use crate::support::{
    Run, World,
    programs::{go, java, node},
    python,
};

const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"

[delay.ladder]
max = "30d"

[[timeout]]
name = "unpaid"
after = "30m"

[retry]
after = ["1s"]
"#;

/// The same orders and delays with each program: 1.5 s is one second on the broker and the rest with the worker, and 37 min
/// are in the queue of 30 min.
async fn closes_its_orders(publish: impl Fn(&World, &Path, &str, &[String]) -> Option<Run>) {
    let world = World::of(LADDER).await;
    let ladder = world.dir.path().join("ladder.json");
    let run = world.overdue(&["export", "--format", "ladder", "--out", ladder.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run}");
    let orders = world.orders("o", 10, 1_500).await;
    let Some(run) = publish(&world, &ladder, "1500", &orders) else { return };
    assert_eq!(
        (run.code, run.stdout.trim()),
        (Some(0), "10 confirmed: orders.ladder.1s 1.unpaid"),
        "{run}"
    );
    let later = ["later".to_owned()];
    let run = publish(&world, &ladder, "2220000", &later).expect("it is there");
    assert_eq!(run.stdout.trim(), "1 confirmed: orders.ladder.10m 0.0.7.3.unpaid", "{run}");
    let worker = world.worker();
    world.until_closed(10).await;
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.parked, 0);
    let wire = world.wire().await;
    assert_eq!(wire.ready("orders.ladder.delay.30m").await, 1);
    // What the ladder does not hold is refused before anything is sent.
    let run = publish(&world, &ladder, "2592000001", &later).expect("it is there");
    assert!(run.code != Some(0) && run.stderr.contains("no delay of 2592000001 ms"), "{run}");
}

/// `<url> <ladder.json> <delay> unpaid <order id>...`
fn arguments<'a>(
    url: &'a str,
    ladder: &'a Path,
    ms: &'a str,
    orders: &'a [String],
) -> Vec<&'a str> {
    let ladder = ladder.to_str().unwrap();
    [url, ladder, ms, "unpaid"].into_iter().chain(orders.iter().map(String::as_str)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_publisher_goes_up_the_ladder() {
    closes_its_orders(|world, ladder, ms, orders| {
        let url = world.broker_url();
        Some(python("examples/python/publish_later.py", &arguments(&url, ladder, ms, orders), ""))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_javascript_publisher_goes_up_the_ladder() {
    closes_its_orders(|world, ladder, ms, orders| {
        let url = world.broker_url();
        node("examples/javascript/publish_later.js", &arguments(&url, ladder, ms, orders), "")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_go_publisher_goes_up_the_ladder() {
    closes_its_orders(|world, ladder, ms, orders| {
        let url = world.broker_url();
        go("examples/go/publish_later.go", &arguments(&url, ladder, ms, orders))
    })
    .await;
}

/// It has the places in its source.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_publisher_goes_up_the_ladder() {
    closes_its_orders(|world, ladder, ms, orders| {
        let url = world.broker_url();
        let mut arguments = arguments(&url, ladder, ms, orders);
        arguments.remove(1);
        java("examples/java/PublishLater.java", &arguments)
    })
    .await;
}

#[test]
fn a_javascript_publisher_finds_the_path_of_every_golden_vector() {
    let vectors = include_str!("../../examples/ladder-vectors.json");
    let script = "examples/javascript/ladder.js";
    let Some(run) = node(script, &[], vectors) else { return };
    let cases = vectors.matches("\"delay_ms\"").count();
    assert_eq!(
        (run.code, run.stdout.trim()),
        (Some(0), &*format!("{cases} vectors, 0 wrong")),
        "{run}"
    );
    // It does compare.
    let forged = vectors.replacen("0.0.0.3.unpaid", "0.0.3.0.unpaid", 1);
    let run = node(script, &[], &forged).expect("it is there");
    assert_eq!(run.code, Some(1), "{run}");
}
