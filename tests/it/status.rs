//! `overdue status` on a real broker and database: it says what is so, also where one of them is gone.

use serde_json::Value;

use super::parked::ends;
use crate::support::{RunningWorker, World, ids, until};

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

#[apply(world_test)]
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
    let screen = ends(&world, 0, &["status", "--check"]).prints("next hour   23 orders");
    assert!(screen.stdout.contains("waiting on the broker (counted up to"), "{screen}");
    assert!(screen.stdout.lines().all(|line| line.chars().count() <= 80), "{screen}");
    worker.stop().await;
}

/// A service that cannot be asked is named, and the rest is shown. Of what waits to be published no more is counted than is needed: it is
/// read again with each look.
#[apply(world_test)]
async fn without_a_worker_it_says_who_is_gone_and_what_waits() {
    let world = World::new().await;
    for (name, url, says, shows) in [
        (
            "OVERDUE_DATABASE__URL",
            "postgres://postgres@127.0.0.1:1/postgres",
            "DOWN  cannot connect to PostgreSQL at 127.0.0.1:1",
            "orders.unpaid",
        ),
        (
            "OVERDUE_BROKER__MANAGEMENT_URL",
            "http://127.0.0.1:1",
            "LOOK  nothing is due, and nothing late; the state of the broker is unknown: ",
            "next hour",
        ),
    ] {
        let run = world.overdue_with(&["status"], &[(name, url)]).exits(0);
        assert!(run.stdout.contains(says) && run.stdout.contains(shows), "{run}");
    }
    world.orders("o", 12, -3_600_000).await;
    let json = until_says(&world, "counted", |json| {
        json["broker"]["known"]["business"][0]["consumers"].as_u64() == Some(0)
    })
    .await;
    assert_eq!(json["state"]["word"], "late");
    ends(&world, 2, &["status", "--check"]).prints("\nLATE  12 orders");
    let reason = json["state"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("12 orders are overdue, by up to 60m"), "{reason}");
    assert!(reason.ends_with("no worker consumes orders.unpaid"), "{reason}");
    world
        .sql(
            "INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'o' FROM generate_series(1, 100001);
             INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('o', 'unpaid', now())",
        )
        .await;
    let json = status(&world);
    let counted = |what: &str, number: &str| {
        let it = &database(&json)[what];
        (it[number].as_u64(), it["more"].as_bool())
    };
    assert_eq!(counted("outbox", "events"), (Some(100_000), Some(true)));
    assert_eq!(counted("scheduled", "notices"), (Some(1), Some(false)));
    let ui = world.ui().await;
    let (_, page) = ui.visitor().await.page("/").await;
    assert!(page.contains("&#62; 100,000"), "{page}");
}

/// An object per line where nobody looks at a terminal, and Ctrl-C ends it.
#[apply(world_test)]
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

/// What it says of orders that are overdue, as `word: reason`.
fn said(world: &World) -> String {
    said_as(world, &world.services.database_url(None))
}

fn said_as(world: &World, url: &str) -> String {
    let json = world.overdue_with(&["status", "-o", "json"], &[("OVERDUE_DATABASE__URL", url)]);
    let state = &json.json()["state"];
    format!("{}: {}", state["word"].as_str().unwrap(), state["reason"].as_str().unwrap())
}

/// A worker consumes, so that nothing is wrong but what the test does. The sweep is far away.
async fn consumed() -> (World, RunningWorker) {
    let world = World::new().await;
    let worker = world.worker();
    // Counts that are late come one after the other.
    let consumes = |json: &Value| {
        let queue = &json["broker"]["known"]["business"][0];
        json["state"]["word"] == "ok" && queue["consumers"].as_u64() >= Some(1)
    };
    until_says(&world, "a worker consumes", consumes).await;
    (world, worker)
}

/// What it prints can be run, and finds what is wrong.
fn helps(world: &World, next: &str) {
    assert_eq!(status(world)["state"]["next"], next);
    let words: Vec<&str> = next.split(' ').skip(1).collect();
    let run = world.overdue(&words);
    assert!(matches!(run.code, Some(2 | 78)), "{run}");
}

/// Rights, locks and wrong SQL, one after the other; nothing is late yet: the grace of the sweep is a minute.
#[apply(world_test)]
async fn what_keeps_orders_from_being_closed_is_said_and_how_to_look() {
    let (world, worker) = consumed().await;
    let url = world.database_user().await;
    let schema = &world.schema;
    // A right that is missing, and one that only the reader lacks.
    world.sql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}")).await;
    assert!(said_as(&world, &url).starts_with("ok: "), "{}", said_as(&world, &url));
    world.orders("o", 1, -5_000).await;
    let text = said_as(&world, &url);
    let reason = format!("user {schema} cannot close orders: effect `close` ");
    assert!(text.contains(&reason) && text.contains("permission denied for table "), "{text}");

    // The row of the order, and another one that closing it needs; the whole table. As the user with the least rights.
    world.sql(&all_granted(schema)).await;
    let locks = [
        ("SELECT FROM orders FOR UPDATE", "order o-0 cannot be closed: a row of orders"),
        ("SELECT FROM stock FOR UPDATE", "order o-0 cannot be closed: a row of stock"),
        ("LOCK TABLE stock IN ACCESS EXCLUSIVE MODE", "orders cannot be closed: stock"),
    ];
    for (sql, reason) in locks {
        let mut client = world.store.client().await.unwrap();
        let held = client.transaction().await.unwrap();
        let pid: i32 = held.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        // A worker that has just begun to close orders holds no lock.
        held.batch_execute("SET LOCAL application_name = 'backoffice'").await.unwrap();
        held.batch_execute(sql).await.unwrap();
        let holder = format!("{reason} is locked by pid {pid} (backoffice, user ");
        // The attempt waits for a second: on a slow machine it may end before it was seen whom it waits for.
        let names = |text: &str, doing: &str| text.contains(&holder) && text.contains(doing);
        let whole = ", idle in transaction for ";
        until("who holds it", async || said(&world), |text| names(text, whole)).await;
        let least = "; what it does shows with GRANT pg_read_all_stats";
        until("who holds it", async || said_as(&world, &url), |text| names(text, least)).await;
        held.rollback().await.unwrap();
    }

    // Before and after the first order is overdue.
    world.sql("DELETE FROM orders; ALTER TABLE orders RENAME closed_at TO ended_at").await;
    let text = said(&world);
    assert!(text.starts_with("look: orders cannot be closed: effect `close` "), "{text}");
    assert!(text.contains("orders has no column closed_at"), "{text}");
    world.orders("o", 3, -5_000).await;
    let text = said(&world);
    // Without its statements nothing is known of what is overdue.
    assert!(text.starts_with("look: orders cannot be closed: "), "{text}");
    helps(&world, "overdue effect check close");
    world.sql("ALTER TABLE orders RENAME ended_at TO closed_at").await;
    // On a slow machine an attempt may end before it was answered.
    until("nothing keeps them open", async || said(&world), |text| !text.contains("cannot")).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.id = 'o-2' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    let text = said(&world);
    assert!(text.contains("order o-2 cannot be closed: ") && text.contains("not this"), "{text}");
    helps(&world, "overdue effect check close --order o-2");
    worker.stop().await;
}

/// A policy, parked messages with their reasons, and a queue that is gone, before any order is overdue.
#[apply(world_test)]
async fn what_is_wrong_on_the_broker_is_said_at_once() {
    let (world, worker) = consumed().await;
    let limit = serde_json::json!({ "max-length": 10 });
    world.policy("policies", "short", r"^orders\.delay", limit).await;
    let json = until_says(&world, "the policy", |json| json["state"]["word"] == "look").await;
    let reason = json["state"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("policy short: "), "{reason}");
    world.delete("policies", "short").await;
    until_says(&world, "no policy", |json| json["state"]["word"] == "ok").await;
    world.wire().await.publish_all("orders.in", "30min.unpayed", &ids("o", 7)).await;
    let json = until_says(&world, "they are counted, and looked into", |json| {
        json["broker"]["known"]["parked"].as_u64() == Some(7)
            && json["broker"]["known"]["parked_reasons"][0][1].as_u64() == Some(7)
    })
    .await;
    let reasons = &json["broker"]["known"]["parked_reasons"];
    assert_eq!(reasons[0][0], "no level takes the routing key");
    assert_eq!(json["state"]["word"], "look");
    assert_eq!(json["state"]["next"], "overdue parked list");
    world.wire().await.until_ready("orders.parked", 7).await;
    worker.stop().await;
    world.delete("queues", "orders.unpaid").await;
    let json =
        until_says(&world, "no queue", |json| json["state"]["next"] == "overdue apply").await;
    let reason = json["state"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("queue orders.unpaid: "), "{reason}");
}

fn all_granted(role: &str) -> String {
    format!(
        "GRANT ALL ON ALL TABLES IN SCHEMA {role} TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA {role} TO {role}"
    )
}

/// The worker asks as its own user; whoever looks asks it.
#[apply(world_test)]
async fn a_worker_says_what_it_fails_at() {
    let world = World::new().await;
    let url = world.database_user().await;
    let schema = &world.schema;
    world.sql(&all_granted(schema)).await;
    let (process, address) = world.listening(|it| _ = it.env("OVERDUE_DATABASE__URL", &url)).await;
    world.sql(&format!("REVOKE UPDATE ON stock FROM {schema}")).await;
    world.orders("o", 2, -5_000).await;
    let look = async || {
        let listens = [("OVERDUE_WORKER__LISTEN", &*address.to_string())];
        let run = world.overdue_with(&["status", "-o", "json"], &listens);
        run.json()["state"]["reason"].as_str().unwrap().to_owned()
    };
    let says = |reason: &String| {
        reason.contains("the worker reports: ")
            && reason.contains("permission denied for table stock")
    };
    until("the worker's own reason", look, says).await;
    assert!(process.log().contains("worker ready"));
}
