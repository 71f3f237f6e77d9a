//! Publishers in other languages, on a ladder: what they send is closed by our worker.

use std::path::Path;

use serde_json::Value;

use crate::support::{
    Run, World,
    programs::{go, go_test, java, java_with, node},
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
    let run = world.overdue(&["export", "--format", "ladder", "--save", ladder.to_str().unwrap()]);
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

/// Delay, exchange and routing key of the vectors that are rounded down and have a path; these programs round no other way.
fn rounded_down(ladders: &Value) -> Vec<String> {
    let cases = ladders.as_array().unwrap().iter().flat_map(|it| it["cases"].as_array().unwrap());
    let cases = cases.filter(|case| case["rounding"] == "down" && case["error"].is_null());
    let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    cases
        .map(|case| {
            format!("{} {} {}", case["delay_ms"], text(case, "exchange"), text(case, "routing_key"))
        })
        .collect()
}

#[test]
fn a_go_publisher_finds_the_path_of_every_golden_vector_that_is_rounded_down() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ladder-vectors.json");
    let vectors = std::fs::read_to_string(&file).unwrap();
    let sources = ["examples/go/publish_later.go", "examples/go/publish_later_test.go"];
    let Some(run) = go_test(sources, &file) else { return };
    assert_eq!(run.code, Some(0), "{run}");
    let count = rounded_down(&serde_json::from_str(&vectors).unwrap()).len();
    assert!(count >= 30 && run.stdout.contains(&format!(": {count} vectors")), "{run}");
    // It does compare.
    let forged = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(forged.path(), vectors.replace("0.0.0.3.unpaid", "0.0.3.0.unpaid")).unwrap();
    let run = go_test(sources, forged.path()).expect("it is there");
    assert_eq!(run.code, Some(1), "{run}");
}

/// Those of the ladder that is in its source.
#[test]
fn a_java_publisher_finds_the_path_of_the_golden_vectors_of_its_ladder() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../examples/ladder-vectors.json")).unwrap();
    let first = Value::Array(vec![vectors[0].clone()]);
    let mut lines = rounded_down(&first);
    assert!(lines.len() >= 15, "{}", lines.len());
    lines.push("1000 orders.ladder.1s 2.unpaid".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let (example, test) = ("examples/java/PublishLater.java", "tests/java/LadderVectors.java");
    let Some(run) = java_with(example, test, folder.path(), &lines.join("\n")) else { return };
    let expected =
        format!("1000 ms: orders.ladder.1s 1.unpaid\n{} vectors, 1 wrong\n", lines.len());
    assert_eq!((run.code, run.stdout), (Some(0), expected));
}
