//! `overdue status` on a real broker and database: it says what is so, also where one of them is gone.

use serde_json::Value;

use crate::support::{World, ids, until};

fn status(world: &World) -> Value {
    world.overdue(&["status", "-o", "json"]).json()
}

/// Waits until the broker's late counts have caught up.
async fn until_says(world: &World, what: &str, says: impl Fn(&Value) -> bool) -> Value {
    until(what, async || status(world), |json| says(json)).await
}

fn database(json: &Value) -> &Value {
    &json["database"]["known"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_closed_and_what_comes_due() {
    let world = World::new().await;
    let worker = world.worker();
    let late = world.orders("late", 40, -2_000).await;
    world.orders("soon", 3, 90_500).await;
    world.orders("later", 20, 1_830_000).await;
    world.orders("tomorrow", 5, 86_400_000).await;
    world.publish("100ms", &late).await;
    world.until_closed(40).await;
    let json = until_says(&world, "a worker consumes", |json| {
        json["broker"]["known"]["business"][0]["consumers"].as_u64() >= Some(1)
    })
    .await;
    assert_eq!((json["version"].as_i64(), json["state"]["word"].as_str()), (Some(1), Some("ok")));
    let closings = &database(&json)["closings"];
    assert_eq!(
        (closings["closed"].as_u64(), closings["by_message"].as_u64()),
        (Some(40), Some(40))
    );
    assert!(closings["p50_s"].as_f64() >= Some(2.0), "{closings}");
    assert!(closings["max_s"].as_f64() >= closings["p99_s"].as_f64(), "{closings}");
    assert!(closings["best_per_s"].as_u64() >= Some(1), "{closings}");
    let due = &database(&json)["due"]["known"];
    let minutes: Vec<u64> =
        due["minutes"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
    assert_eq!((minutes.len(), minutes.iter().sum::<u64>()), (60, 23), "{due}");
    assert!(minutes[0] + minutes[1] == 3 && minutes[29] + minutes[30] == 20, "{due}");
    assert_eq!((due["overdue"].as_u64(), due["more"].as_bool()), (Some(0), Some(false)));
    let screen = world.overdue(&["status", "--check"]);
    assert_eq!(screen.code, Some(0), "{screen}");
    assert!(screen.stdout.contains("next hour   23 orders"), "{screen}");
    assert!(screen.stdout.contains("waiting on the broker (counted up to"), "{screen}");
    assert!(screen.stdout.lines().all(|line| line.chars().count() <= 80), "{screen}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_closes() {
    let world = World::new().await;
    world.orders("o", 12, -3_600_000).await;
    let json = until_says(&world, "counted", |json| {
        json["broker"]["known"]["business"][0]["consumers"].as_u64() == Some(0)
    })
    .await;
    assert_eq!(json["state"]["word"], "late");
    let checked = world.overdue(&["status", "--check"]);
    assert_eq!(checked.code, Some(2), "{checked}");
    assert!(checked.stdout.contains("\nLATE  12 orders"), "{checked}");
    let reason = json["state"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("12 orders are overdue, by up to 60m"), "{reason}");
    assert!(reason.ends_with("no worker consumes orders.unpaid"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_messages_have_their_reasons() {
    let world = World::new().await;
    let worker = world.worker();
    world.wire().await.publish_all("orders.in", "30min.unpayed", &ids("o", 7)).await;
    let json = until_says(&world, "they are counted, and looked into", |json| {
        json["broker"]["known"]["parked"].as_u64() == Some(7)
            && json["broker"]["known"]["parked_reasons"][0][1].as_u64() == Some(7)
            && json["broker"]["known"]["business"][0]["consumers"].as_u64() >= Some(1)
    })
    .await;
    let reasons = &json["broker"]["known"]["parked_reasons"];
    assert_eq!(reasons[0][0], "no level takes the routing key");
    assert_eq!(json["state"]["word"], "look");
    assert_eq!(json["state"]["next"], "overdue parked list");
    let wire = world.wire().await;
    until("back", async || wire.ready("orders.parked").await, |n| *n == 7).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_is_said_and_the_rest_is_shown() {
    let world = World::new().await;
    let gone = [("OVERDUE_DATABASE__URL", "postgres://postgres@127.0.0.1:1/postgres")];
    let run = world.overdue_with(&["status"], &gone);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("DOWN  cannot connect to PostgreSQL at 127.0.0.1:1"), "{run}");
    assert!(run.stdout.contains("orders.unpaid"), "{run}");
    let gone = [("OVERDUE_BROKER__MANAGEMENT_URL", "http://127.0.0.1:1")];
    let run = world.overdue_with(&["status"], &gone);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("next hour"), "{run}");
    assert!(
        run.stdout
            .contains("LOOK  nothing is due, and nothing late; of the broker nothing is known: "),
        "{run}"
    );
}

/// An object per line where nobody looks at a terminal, and Ctrl-C ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_watched_until_ctrl_c() {
    let world = World::new().await;
    let out = world.dir.path().join("watched");
    let mut command = world.command(&["status", "--watch", "--every", "50ms", "-o", "json"]);
    // The test's process reads it as it grows.
    let file = std::fs::File::create(&out).unwrap();
    command.stdout(file);
    let mut child = command.spawn().unwrap();
    let lines = async || std::fs::read_to_string(&out).unwrap().lines().count();
    until("three readings", lines, |lines| *lines >= 3).await;
    let sent =
        std::process::Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let ended = until("its end", async || child.try_wait().unwrap(), Option::is_some).await;
    assert_eq!(ended.unwrap().code(), Some(0));
    for line in std::fs::read_to_string(&out).unwrap().lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["state"]["word"].is_string());
    }
}

/// What comes due is read from the index of the sweep alone, however many orders there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_due_is_read_from_the_index() {
    let world = World::new().await;
    world
        .sql(
            "INSERT INTO orders (id, due_at) SELECT 'o-' || n, now() + n * interval '1 second' FROM generate_series(1, 20000) n; \
             INSERT INTO orders (id, status, due_at, ship_by) SELECT 'p-' || n, 'paid', now(), now() FROM generate_series(1, 20000) n",
        )
        .await;
    // In a transaction of its own, as it asks for.
    world.store.client().await.unwrap().batch_execute("VACUUM ANALYZE orders").await.unwrap();
    let json = status(&world);
    let minutes = database(&json)["due"]["known"]["minutes"].as_array().unwrap();
    let coming: u64 = minutes.iter().map(|it| it.as_u64().unwrap()).sum();
    assert!((3_500..=3_600).contains(&coming), "{coming}");
    let plan = world
        .rows(
            "EXPLAIN SELECT count(*) FROM (SELECT id AS order_id, due_at FROM orders \
             WHERE status = 'unpaid' AND due_at <= now() - (-3600000)::bigint * interval '1 millisecond' \
             AND (due_at, id) > ('-infinity', '') ORDER BY due_at, id LIMIT 1000000) AS due",
        )
        .await;
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan.join("\n").contains("Index Only Scan using orders_unpaid_due"), "{plan:?}");
}
