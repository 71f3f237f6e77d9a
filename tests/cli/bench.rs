//! `overdue bench change`, `locks`, `delay`, `publish`, `relay`, `burst`, `steady` and `all`: what they refuse, what they say, and that they
//! leave nothing behind.

use std::time::Duration;

use overdue::internals::plan::Change;
use serde_json::Value;

use crate::support::{Folder, World, python::interpreter, until};

/// A benchmark ends so soon after a signal or an error, on the slowest machine.
const ENDS: Duration = Duration::from_mins(5);

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
    let ended = process.ended(ENDS).await;
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
    let ended = process.ended(ENDS).await;
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
    let ended = process.ended(ENDS).await;
    assert_eq!(ended.code(), Some(1), "{}", process.log());
    assert!(process.log().contains("error: interrupted"), "{}", process.log());
    assert_eq!(there(&world).await, Vec::<String>::new());
    assert_eq!(schemas(&world, process.id()).await, 0);
}

/// Small: each way gets every message there, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_is_measured_on_every_way_and_nothing_is_left() {
    let world = World::empty().await;
    let python = interpreter().display().to_string();
    let size = ["--messages", "300", "--rounds", "1", "--python", &python];
    let arguments = [&["bench", "publish", "-o", "json"], &size[..]].concat();
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json = run.json();
    assert_eq!((&json["schema"], &json["messages"]), (&1.into(), &300.into()));
    let lines = json["lines"].as_array().unwrap();
    let ways: Vec<&str> = lines.iter().map(|line| line["way"].as_str().unwrap()).collect();
    assert_eq!(ways, ["client", "publisher", "command", "script"]);
    assert!(lines.iter().all(|line| line["per_s"]["median"].as_f64().unwrap() > 0.0), "{run}");
    assert_eq!(there(&world).await, Vec::<String>::new());

    let arguments = ["bench", "publish", "--messages", "100", "--rounds", "1", "--python", "false"];
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("false failed"), "{run}");
    assert_eq!(there(&world).await, Vec::<String>::new());
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

/// An effect with defects of every kind: the deadline goes on when it was reached, an order of each burst is paid instead of
/// closed, another is closed twice, and a piece of stock is lost.
fn wrong_effect() -> String {
    let right = include_str!("../../sql/close.sql");
    let wrong = right
        .replace(
            "SET status = 'closed', closed_at = clock_timestamp()",
            "SET status = CASE WHEN orders.id LIKE '%burst-0000007' THEN 'paid' ELSE 'closed' END, \
             ship_by = now(), closed_at = clock_timestamp(), \
             due_at = orders.due_at + CASE WHEN orders.id LIKE '%burst-0000008' THEN interval '1 hour' ELSE '0' END",
        )
        .replace(
            "FROM closed\n), announced",
            "FROM closed UNION ALL SELECT id, 'close', $2, due_at FROM closed WHERE id LIKE '%burst-0000009'\n), announced",
        )
        .replace(
            "stock.available + back.qty",
            "stock.available + back.qty - CASE WHEN stock.sku LIKE '%-sku-00' THEN 1 ELSE 0 END",
        );
    for part in ["'paid'", "1 hour", "UNION ALL SELECT id, 'close'", "-sku-00"] {
        assert!(wrong.contains(part), "{part}: sql/close.sql has another form now:\n{wrong}");
    }
    wrong
}

/// The broken invariants that a report names.
fn broken(run: &crate::support::Run) -> String {
    let json = run.json();
    let broken = json["broken"].as_array().unwrap().iter();
    broken.map(|broken| broken.as_str().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Small, so that it says nothing of speed: those asked for close every order once, and all that was made is gone.
async fn small_burst(only: &str) -> String {
    let world = World::empty().await;
    let size = ["--orders", "300", "--rounds", "1", "--only", only];
    let arguments = [&["bench", "burst", "-o", "json"], &size[..]].concat();
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json = run.json();
    assert_eq!((&json["schema"], &json["orders"]), (&1.into(), &300.into()));
    assert_eq!(json["broken"], serde_json::json!([]));
    let lines = json["lines"].as_array().unwrap().iter();
    let shown = lines.map(|line| {
        for number in ["took_s", "late_p50_ms", "late_p99_ms"] {
            assert!(line[number]["median"].as_f64().unwrap() > 0.0, "{number}: {run}");
        }
        let own_process = line["memory_mib"]["median"].as_f64().unwrap() > 1.0;
        format!("{}, {} orders, own process: {own_process}", line["contestant"], line["orders"])
    });
    let ratios = json["ratios"].as_array().unwrap().iter();
    let ratios = ratios.map(|it| format!("{} : {}", it["contestant"], it["other"]));
    let shown = shown.chain(ratios).collect::<Vec<_>>().join("\n");
    assert_eq!(there(&world).await, Vec::<String>::new());
    shown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_share_a_burst_and_close_every_order_once() {
    insta::assert_snapshot!(small_burst("overdue,overdue-x3").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_and_plain_sql_close_every_order_of_a_burst_once() {
    insta::assert_snapshot!(small_burst("overdue,plain-sql").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poller_tutorial_and_broker_have_every_order_of_a_burst_once() {
    insta::assert_snapshot!(small_burst("poller,tutorial,broker").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_lost_and_doubled_orders_and_wrong_stock_fail_a_burst() {
    let world = World::empty().await;
    let file = world.dir.path().join("wrong.sql");
    std::fs::write(&file, wrong_effect()).unwrap();
    let arguments =
        ["bench", "burst", "--orders", "30", "--rounds", "1", "--only", "overdue", "-o", "json"];
    let environment = [("OVERDUE_EFFECTS__CLOSE__SQL", file.to_str().unwrap())];
    let run = tokio::task::block_in_place(|| world.overdue_with(&arguments, &environment));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("error: an invariant is broken: see above"), "{run}");
    insta::assert_snapshot!(broken(&run));
    assert_eq!(there(&world).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_a_burst_with_its_processes_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = ["bench", "burst", "--orders", "1000", "--only", "overdue", "--rounds", "100"];
    let mut process = world.spawn(world.command(&arguments));
    let closed = format!("SELECT count(*) FROM overdue_bench_{}.closures", process.id());
    process.until_logged("round 1 of 100").await;
    until("orders closed", async || world.number(&closed).await, |closed| *closed > 0).await;
    process.signal("INT");
    let ended = process.ended(ENDS).await;
    assert_eq!(ended.code(), Some(1), "{}", process.log());
    assert!(process.log().ends_with("error: interrupted\n"), "{}", process.log());
    assert_eq!(there(&world).await, Vec::<String>::new());
    assert_eq!(schemas(&world, process.id()).await, 0);
}

/// Small: everybody publishes or deletes every event, what arrives is counted, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_relay_and_its_rivals_lose_no_event_and_keep_the_order_of_each_order() {
    let world = World::empty().await;
    let picture = world.dir.path().join("relay.svg");
    let size = ["--events", "601", "--rounds", "1", "--svg", picture.to_str().unwrap()];
    let arguments = [&["bench", "relay", "-o", "json"], &size[..]].concat();
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json = run.json();
    assert_eq!((&json["schema"], &json["events"]), (&1.into(), &601.into()));
    assert_eq!(json["broken"], serde_json::json!([]));
    let lines = json["lines"].as_array().unwrap().iter();
    let shown = lines.map(|line| {
        assert!(line["per_s"]["median"].as_f64().unwrap() > 0.0, "{run}");
        assert!(line["memory_mib"]["median"].as_f64().unwrap() > 1.0, "own process: {run}");
        line["relayer"].as_str().unwrap().to_owned()
    });
    let ratios = json["ratios"].as_array().unwrap().iter();
    let ratios = ratios.map(|it| format!("{} : {}", it["relayer"], it["other"]));
    insta::assert_snapshot!(shown.chain(ratios).collect::<Vec<_>>().join("\n"));
    assert!(std::fs::read_to_string(&picture).unwrap().contains("SKIP LOCKED"), "{picture:?}");
    assert_eq!(there(&world).await, Vec::<String>::new());
}

/// After the first rounds nothing goes to the subscriber's queue any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_does_not_arrive_fails_the_benchmark_of_the_relay() {
    let world = World::empty().await;
    let arguments =
        ["bench", "relay", "--events", "100", "--rounds", "30", "--only", "overdue", "-o", "json"];
    let mut process = world.spawn(world.command(&arguments));
    let bound = async || {
        let objects = world.management().observe().await.unwrap().objects;
        let mut bindings =
            objects.bindings.into_iter().filter(|binding| !binding.source.is_empty());
        bindings.find(|binding| binding.destination.ends_with(".subscriber"))
    };
    let binding = until("the subscriber's queue", bound, Option::is_some).await.unwrap();
    world.management().apply(&Change::Unbind(binding)).await.unwrap();
    let ended = process.ended(ENDS).await;
    assert_eq!(ended.code(), Some(1), "{}", process.log());
    assert!(process.log().contains("an invariant is broken"), "{}", process.log());
    assert_eq!(there(&world).await, Vec::<String>::new());
    assert_eq!(schemas(&world, process.id()).await, 0);
}

/// Small: each benchmark runs to its end, its result is there, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_benchmarks_run_one_after_the_other_and_nothing_is_left() {
    let world = World::empty().await;
    let arguments = ["bench", "all", "--quick", "-o", "json"];
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json = run.json();
    assert_eq!(json["schema"], 1);
    let parts = json["parts"].as_array().unwrap().iter();
    let shown = parts.map(|part| {
        assert_eq!(part["wrong"], Value::Null, "{run}");
        assert!(part["report"].is_object(), "{run}");
        part["command"].as_str().unwrap().to_owned()
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
    assert_eq!(there(&world).await, Vec::<String>::new());
}

#[test]
fn a_burst_of_nobody_is_refused() {
    let run = Folder::with(&[]).run(&["bench", "burst", "--only", "nobody"], &[]);
    assert_eq!(run.code, Some(64), "{run}");
    assert!(run.stderr.contains("plain-sql"), "{run}");
}

/// Small, so that it says nothing of speed: each contestant closes every order once, and all that was made is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_steady_rate_every_contestant_closes_every_order_once_and_nothing_is_left() {
    let world = World::empty().await;
    let size = ["--rates", "200", "--seconds", "1", "--idle", "1"];
    let arguments = [&["bench", "steady", "-o", "json"], &size[..]].concat();
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json = run.json();
    assert_eq!((&json["schema"], &json["random_delays"]), (&1.into(), &false.into()));
    assert_eq!(json["broken"], serde_json::json!([]));
    assert!(json["floor"]["p50_ms"].as_f64().unwrap() > 0.0, "{run}");
    let lines = json["lines"].as_array().unwrap();
    let shown = lines.iter().map(|line| {
        for number in ["late_p50_ms", "late_p99_ms", "late_max_ms", "memory_mib", "elapsed_s"] {
            assert!(line[number]["median"].as_f64().unwrap() > 0.0, "{number}: {run}");
        }
        format!("{} orders at {}/s: {}", line["orders"], line["rate"], line["contestant"])
    });
    // Rivals begin in another order in each round.
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    insta::assert_snapshot!(shown.join("\n"));
    let events = &json["events"][0];
    assert_eq!((&events["rate"], &events["contestant"]), (&200.into(), &"overdue".into()));
    let idle = &json["idle"][0];
    assert!(idle["start_to_close_ms"].as_f64().unwrap() > 0.0, "{run}");
    assert!(idle["resident_bytes"].as_u64().unwrap() > 1_000_000, "{run}");
    assert_eq!(there(&world).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_delays_through_a_ladder_end_in_time_and_nothing_is_left() {
    let world = World::empty().await;
    let size = ["--random-delays", "--rates", "50", "--seconds", "1", "--idle", "0"];
    let arguments = [&["bench", "steady", "-o", "json"], &size[..]].concat();
    let run = tokio::task::block_in_place(|| world.overdue(&arguments));
    assert_eq!(run.code, Some(0), "{run}");
    let json = run.json();
    assert_eq!((&json["random_delays"], &json["idle"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(json["broken"], serde_json::json!([]));
    let [line] = json["lines"].as_array().unwrap().as_slice() else { panic!("{run}") };
    assert_eq!((&line["contestant"], &line["orders"]), (&"overdue".into(), &50.into()));
    // Nothing came by the sweep: every notice went its whole way.
    let paths = line["paths"].as_array().unwrap();
    assert!(paths.iter().all(|path| path["path"] != "sweep"), "{run}");
    assert_eq!(there(&world).await, Vec::<String>::new());
}
