//! Canaries through the real broker.

use std::process::Command;

use serde_json::json;

use super::{applied, empty};
use crate::support::until;

#[apply(world_test)]
async fn every_level_and_timeout_answers() {
    let world = applied().await;
    let run = world.overdue(&["verify", "--probe", "--within", "20s", "-o", "json"]).exits(0);
    let report = run.json();
    let canaries = report["probe"]["canaries"].as_array().unwrap();
    let subjects: Vec<&serde_json::Value> = canaries.iter().map(|c| &c["subject"]).collect();
    let subject = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
    let tried = [("level", "1s"), ("level", "3s"), ("timeout", "unpaid"), ("timeout", "unshipped")];
    assert_eq!(subjects, tried.map(|(kind, name)| subject(kind, name)).iter().collect::<Vec<_>>());
    for canary in canaries {
        let late = canary["late_ms"].as_i64().unwrap();
        assert!(late >= 0, "{canary}");
    }
    assert_eq!(canaries[2]["bound"], json!(["orders.unpaid"]));
    assert_eq!(report["probe"]["not_tried"], json!(["30m"]));
    // Each business queue has its canary, and no message is parked.
    let canary = &world.take("orders.unpaid").await[0];
    assert!(canary["properties"]["headers"]["x-overdue-canary"].is_string(), "{canary}");
    assert_eq!(world.take("orders.unshipped").await.len(), 1);
    assert_eq!(world.take("orders.parked").await.len(), 0);
}

#[apply(world_test)]
async fn a_broken_level_loses_its_canary() {
    let world = applied().await;
    world.unbind("orders.in", "orders.delay.3s", "3s.*").await;
    let run = world.overdue(&["verify", "--probe", "--within", "20s", "-o", "json"]).exits(2);
    let expected = ["error missing-binding queue orders.delay.3s", "error canary level 3s"];
    assert_eq!(run.findings(), expected);
}

#[apply(world_test)]
async fn a_level_that_lets_go_early() {
    let world = applied().await;
    world.policy("policies", "short", r"^orders\.delay\.30m$", json!({ "message-ttl": 500 })).await;
    world.until_policy("orders.delay.30m", "short").await;
    // Half an hour leaves enough time to be early, however slow the machine is.
    let run = world.overdue(&["verify", "--probe", "--within", "30m"]).exits(2);
    assert!(run.stdout.contains("level 30m: its canary came "), "{run}");
    assert!(run.stdout.contains(" ms early"), "{run}");
}

#[apply(world_test)]
async fn nothing_to_probe() {
    let world = empty().await;
    let run = world.overdue(&["verify", "--probe"]).exits(2);
    assert!(run.stdout.contains("exchange orders.in: it is missing"), "{run}");
    assert!(run.stderr.contains("no canary was sent: exchange orders.in does not exist"), "{run}");
    let world = applied().await;
    world.overdue(&["verify", "--probe", "--within", "749ms"]).exits(64).reports("--within 1s");
    assert_eq!(world.overdue(&["verify", "--within", "1s"]).code, Some(64), "without --probe");
}

#[apply(world_test)]
async fn a_user_without_rights() {
    let world = applied().await;
    let user = world.user("management").await;
    world.permit(&user, ["^$", ".*", ".*"]).await;
    let run = world.overdue_as(&["verify", "--probe", "--within", "1s"], &user).exits(77);
    for said in ["`orders.probe.canary", "failed to declare: ", "overdue permissions"] {
        assert!(run.stderr.contains(said), "{said}: {run}");
    }
}

/// The broker closes the channel of a refused message.
#[apply(world_test)]
async fn a_canary_that_is_refused_is_the_only_one() {
    let world = applied().await;
    let user = world.user("management").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.in", r"^[^3].*").await;
    let run = world.overdue_as(&["verify", "--probe", "--within", "20s", "-o", "json"], &user);
    let report = run.json();
    let canaries = report["probe"]["canaries"].as_array().unwrap();
    let came: Vec<bool> = canaries.iter().map(|canary| canary["late_ms"].is_i64()).collect();
    assert_eq!(came, [true, false, true, true], "{run}");
}

#[apply(world_test)]
async fn a_worker_acks_canaries() {
    let world = applied().await;
    world.overdue(&["database", "init", "--reference-tables", "--yes"]).exits(0);
    let debug = |command: &mut Command| {
        command.env("OVERDUE_LOG__FILTER", "overdue=debug");
    };
    let mut worker = world.started(debug).await;
    world.overdue(&["verify", "--probe", "--within", "20s"]).exits(0);
    // A stop before a canary was settled would requeue it.
    let settled = |log: &String| {
        let of = |timeout| log.contains(&format!("batch committed timeout=\"{timeout}\""));
        of("unpaid") && of("unshipped")
    };
    until("both canaries", async || worker.log(), settled).await;
    worker.signal("TERM");
    assert!(worker.ended().await.success());
    let log = worker.log();
    assert!(log.contains("parked=0") && log.contains("retried=0"), "{log}");
    for queue in ["orders.unpaid", "orders.unshipped", "orders.parked"] {
        assert_eq!(world.take(queue).await.len(), 0, "{queue}\n{log}");
    }
}
