//! `overdue bench change`, `locks` and `delay`: what they refuse, what they say, and that they leave nothing behind.

use std::time::Duration;

use serde_json::Value;

use crate::{
    support::Folder,
    support::{World, until},
};

/// The names of all that the benchmark has on the broker: exchanges and queues.
async fn there(world: &World) -> Vec<String> {
    let objects = world.management().observe().await.unwrap().objects;
    let names = objects.exchanges.into_keys().chain(objects.queues.into_keys());
    names.filter(|name| name.starts_with("overdue-bench")).collect()
}

#[test]
fn what_cannot_be_measured_exits_64_and_says_why() {
    let folder = Folder::with(&[]);
    let cases: [(&[&str], &str); 6] = [
        (&["--messages", "0"], "1..=1000000"),
        (&["--level", "soon"], "write a whole number and one unit"),
        (&["--level", "500ms"], "`500ms` is not between 1s and 24h"),
        (&["--change", "everything"], "level-removed"),
        (&["-o", "yaml"], "json"),
        (&["orders"], "unexpected argument"),
    ];
    for (arguments, said) in cases {
        let run = folder.run(&[&["bench", "change"], arguments].concat(), &[]);
        assert_eq!(run.code, Some(64), "{arguments:?}: {run}");
        assert!(run.stdout.is_empty() && run.stderr.contains(said), "{arguments:?}: {run}");
    }
}

#[test]
fn without_a_broker_it_exits_69() {
    let nobody = [
        ("OVERDUE_BROKER__URL", "amqp://127.0.0.1:1"),
        ("OVERDUE_BROKER__MANAGEMENT_URL", "http://127.0.0.1:1"),
    ];
    let run = Folder::with(&[]).run(&["bench", "change"], &nobody);
    assert_eq!(run.code, Some(69), "{run}");
    assert!(run.stdout.is_empty(), "{run}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_is_json_for_programs_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = [
        "bench",
        "change",
        "--messages",
        "200",
        "--level",
        "1s",
        "--change",
        "timeout-added",
        "-o",
        "json",
    ];
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("publishing 200 messages"), "{run}");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&json["schema"], &json["messages"], &json["level"]),
        (&2.into(), &200.into(), &"1s".into())
    );
    let [line] = json["lines"].as_array().unwrap().as_slice() else { panic!("{run}") };
    assert_eq!(
        (&line["kind"], &line["lost"], &line["early"]),
        (&"timeout-added".into(), &0.into(), &0.into())
    );
    assert_eq!(line["published"], line["distinct"]);
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    insta::assert_snapshot!(keys.join("\n"));
    assert_eq!(there(&world).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_it_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = ["bench", "change", "--messages", "500", "--level", "1h"];
    let mut process = world.spawn(world.command(&arguments));
    process.until_logged("applying:").await;
    until(
        "the new level",
        async || there(&world).await,
        |names| names.iter().any(|name| name.ends_with(".delay.30m")),
    )
    .await;
    process.signal("INT");
    let ended = process.ended(Duration::from_mins(1)).await;
    assert_eq!(ended.code(), Some(1), "{}", process.log());
    assert!(process.log().ends_with("error: interrupted\n"), "{}", process.log());
    assert_eq!(there(&world).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_ends_it_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = ["bench", "change", "--messages", "500", "--level", "1h"];
    let mut process = world.spawn(world.command(&arguments));
    process.until_logged("applying:").await;
    let names = there(&world).await;
    let entry = names.iter().find(|name| name.rsplit('.').next() == Some("in")).unwrap();
    world.services.api().delete_exchange(&world.vhost, entry, false).await.unwrap();
    let ended = process.ended(Duration::from_mins(1)).await;
    assert_eq!(ended.code(), Some(78), "{}", process.log());
    assert!(process.log().contains("the broker has no exchange"), "{}", process.log());
    assert_eq!(there(&world).await, Vec::<String>::new());
}

/// The schemas of benchmarks with these process ids.
async fn schemas(world: &World, process: u32) -> i64 {
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname";
    world.number(&format!("{schemas} = 'overdue_bench_{process}'")).await
}

/// Small, so that it says nothing of speed: what is measured, in which form, and that all that was made is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_locks_every_order_is_closed_once_and_the_result_is_json() {
    let world = World::empty().await;
    let size = ["--rate", "40", "--seconds", "1", "--rounds", "1", "--burst", "600"];
    let arguments = [&["bench", "locks", "-o", "json"], &size[..]].concat();
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("round 1 of 1, 20 orders locked"), "{run}");
    let json = run.json();
    assert_eq!((&json["schema"], &json["rounds"]), (&1.into(), &1.into()));
    assert_eq!(json["broken"], serde_json::json!([]));
    let lines = json["lines"].as_array().unwrap();
    let shown = lines.iter().map(|line| {
        let measured = line["measured"].as_array().unwrap();
        let of = |measured: &Value| {
            assert!(measured["ms"]["median"].as_f64().unwrap() > 0.0, "{run}");
            measured["held"].as_str().unwrap().to_owned()
        };
        format!(
            "{}: {}",
            line["what"].as_str().unwrap(),
            measured.iter().map(of).collect::<Vec<_>>().join(", ")
        )
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
    assert_eq!(json["burst"]["orders"], 600);
    assert!(json["burst"]["ratio"].as_f64().unwrap() > 0.0, "{run}");
    assert_eq!(there(&world).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_it_beside_its_own_locks_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = ["bench", "locks", "--seconds", "600"];
    let mut process = world.spawn(world.command(&arguments));
    process.until_logged("round 0 of 5").await;
    let closed = format!("SELECT count(*) FROM overdue_bench_{}.closures", process.id());
    until("orders closed", async || world.number(&closed).await, |closed| *closed > 0).await;
    process.signal("TERM");
    let ended = process.ended(Duration::from_mins(1)).await;
    assert_eq!(ended.code(), Some(1), "{}", process.log());
    assert!(process.log().contains("error: interrupted"), "{}", process.log());
    assert_eq!(there(&world).await, Vec::<String>::new());
    assert_eq!(schemas(&world, process.id()).await, 0);
}

/// Few messages say nothing about speed; that each comes once, and none early, is the same with many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_are_measured_on_every_way_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = ["bench", "delay", "--messages", "100", "--rounds", "1", "-o", "json"];
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let ways = json["ways"].as_array().unwrap();
    assert!(ways.len() >= 4 && ways.iter().all(|way| way["early"] == 0), "{run}");
    let hops = |way: usize| ways[way]["hops_habits"].as_f64().unwrap();
    assert!(hops(0) * 2.0 < hops(2), "at most half of the binary ladder's: {run}");
    assert_eq!(there(&world).await, Vec::<String>::new());
}
