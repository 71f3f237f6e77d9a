//! `overdue bench change`: what it refuses, what it says, and that it leaves nothing behind.

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
