//! `overdue verify` of a ladder, on a real broker.

use serde_json::{Value, json};

use crate::support::{World, samples::LADDER};

/// 4 places, so that the broker has few queues to make.
fn small() -> String {
    LADDER.replace("max = \"30d\"", "max = \"30m\"")
}

#[apply(world_test)]
async fn a_fresh_ladder_answers_at_each_place() {
    let world = World::applied(&small()).await;
    let run = world.overdue(&["verify", "--probe", "--within", "9s", "-o", "json"]).exits(0);
    let report = run.json();
    assert_eq!(report["findings"], json!([]));
    let canaries = report["probe"]["canaries"].as_array().unwrap();
    let subjects: Vec<&Value> = canaries.iter().map(|canary| &canary["subject"]["name"]).collect();
    let expected = ["1s", "10s", "1m", "10m"].map(|place| format!("orders.ladder.{place}"));
    let expected = expected.into_iter().chain(["unpaid".to_owned(), "unshipped".to_owned()]);
    assert_eq!(subjects, expected.collect::<Vec<_>>().iter().collect::<Vec<_>>());
    for canary in canaries {
        assert_eq!(canary["level"], "1s", "{canary}");
        assert!(
            canary["late_ms"].as_i64().is_some_and(|late| (0..14_000).contains(&late)),
            "{canary}"
        );
    }
    assert_eq!(canaries[4]["bound"], json!(["orders.unpaid"]));
    assert_eq!(report["probe"]["not_tried"], json!(["10s", "1m", "10m"]));
    assert_eq!(world.take("orders.parked").await.len(), 0);
}

/// Only messages through the place are lost.
#[apply(world_test)]
async fn a_place_that_does_not_lead_on() {
    let world = World::applied(&small()).await;
    let path = ["e", "orders.ladder.1m", "e", "orders.ladder.10s", "*.*.0.#"];
    world.call(reqwest::Method::DELETE, "bindings", &path, Value::Null).await;
    let run = world.overdue(&["verify", "--probe", "--within", "9s", "-o", "json"]).exits(2);
    let expected = [
        "error missing-binding exchange orders.ladder.10s",
        "error canary exchange orders.ladder.1m",
        "error canary exchange orders.ladder.10m",
    ];
    assert_eq!(run.findings(), expected);
}
