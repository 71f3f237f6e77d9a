//! `overdue explain --order`: why one order was closed, is late, or is not closed, on a real broker and database.

use serde_json::Value;

use crate::{
    own_tables::{shop, write_made},
    support::{World, samples::orders, until},
};

fn two() -> String {
    let timeouts = [("unpaid", "30m", "close"), ("unshipped", "30m", "cancel")];
    orders("levels = ['100ms', '200ms', '1s', '30m']", &timeouts, "['100ms']")
}

fn explain(world: &World, order: &str) -> Value {
    let run = world.overdue(&["explain", "--order", order, "-o", "json"]).exits(0);
    run.json()
}

fn said(json: &Value) -> &str {
    json["order"]["answer"]["text"].as_str().unwrap()
}

#[apply(world_test)]
async fn an_order_that_was_closed_and_one_that_waits() {
    let world = World::of(&two()).await;
    let worker = world.worker();
    let order = world.publish_orders("100ms", "o", 1, -1_000).await;
    world.until_closed(1).await;
    worker.stop().await;
    let json = explain(&world, &order[0]);
    let closure = &json["order"]["closures"]["known"]["rows"][0];
    assert_eq!((&closure["effect"], &closure["outcome"]), (&"close".into(), &"closed".into()));
    assert!(closure["late_ms"].as_u64() >= Some(1_000), "{json}");
    assert!(said(&json).starts_with("o-0 was closed "), "{json}");
    assert_eq!(json["order"]["status"], "final");
    // Two effects, and nobody has to say which: the one that has something to do.
    let waits = world.orders("w", 1, 3_600_000).await;
    let json = explain(&world, &waits[0]);
    assert_eq!(json["order"]["status"], "not_due");
    assert!(said(&json).starts_with("w-0 is not due yet: its deadline is in "), "{json}");
    assert_eq!(json["order"]["effects"].as_array().unwrap().len(), 2, "{json}");
    let run =
        world.overdue(&["explain", "--order", &waits[0], "--timeout", "unshipped", "-o", "json"]);
    assert_eq!(run.json()["order"]["effects"].as_array().unwrap().len(), 1, "{run}");
}

#[apply(world_test)]
async fn an_order_that_is_late_says_why() {
    let world = World::new().await;
    let late = world.orders("late", 5, -180_000).await;
    let [parked, refused, waiting, locked, alone] = &late[..] else { panic!("{late:?}") };
    world.wire().await.publish_all("orders.park", "30m.unpaid", std::slice::from_ref(parked)).await;
    let look = async || explain(&world, parked);
    let is_seen = |json: &Value| !json["order"]["parked"]["known"][0].is_null();
    let json = until("it is parked", look, is_seen).await;
    assert!(said(&json).contains("its notice is in the parking lot"), "{json}");
    assert_eq!(json["order"]["answer"]["next"], format!("overdue parked replay --order {parked}"));
    let on_replay = json["order"]["parked"]["known"][0]["on_replay"].as_str().unwrap();
    assert!(on_replay.starts_with("is published to"), "{json}");

    world
        .sql(&format!(
            "INSERT INTO scheduled_notices_refused (id, order_id, timeout, reason) VALUES (1, '{refused}', 'unpaid', 'it was a test');
             INSERT INTO scheduled_notices (order_id, timeout, due_at, scheduled_at)
             VALUES ('{waiting}', 'unpaid', now(), now() - interval '1 h');
             INSERT INTO outbox (event, order_id) VALUES ('order.paid', '{alone}')"
        ))
        .await;
    let json = explain(&world, refused);
    assert!(said(&json).ends_with("notice of it could not be published: it was a test"), "{json}");
    let json = explain(&world, waiting);
    assert!(said(&json).contains("its notice has not been published for 60m"), "{json}");

    let mut client = world.store.client().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let pid: i32 = transaction.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    transaction.execute("SELECT FROM orders WHERE id = $1 FOR UPDATE", &[locked]).await.unwrap();
    let look = async || explain(&world, locked);
    let why = format!("a row of orders is locked by pid {pid}");
    let json = until("its lock is seen", look, |json| said(json).contains(&why)).await;
    assert_eq!(json["order"]["effects"][0]["locked_by_pid"], pid, "{json}");
    let next = json["order"]["answer"]["next"].as_str().unwrap();
    assert!(next.ends_with(&format!("SELECT pg_terminate_backend({pid})")), "{json}");
    transaction.rollback().await.unwrap();

    // Nothing of the order itself says why: what is wrong with everything does.
    let look = async || explain(&world, alone);
    let json = until("the broker has counted", look, |json| said(json).contains("no worker")).await;
    assert!(said(&json).ends_with("no worker consumes orders.unpaid"), "{json}");
    assert_eq!(json["order"]["events"]["known"]["rows"][0]["event"], "order.paid");

    let pause = ["pause", "unpaid", "--for", "1h", "--why", "the provider is down"];
    world.overdue(&pause).exits(0);
    let json = explain(&world, parked);
    assert!(said(&json).contains("late: unpaid is paused until "), "{json}");
    let next = json["order"]["answer"]["next"].as_str().unwrap();
    assert!(next.starts_with("overdue resume unpaid"), "{json}");
    world.overdue(&["resume", "unpaid"]).exits(0);

    // What was done to it is known afterwards.
    world.overdue(&["parked", "drop", "--order", parked, "--yes", "--because", "a test"]).exits(0);
    let json = explain(&world, parked);
    let action = &json["order"]["actions"]["known"][0];
    assert_eq!((&action["action"], &action["why"]), (&"parked drop".into(), &"a test".into()));
}

/// Row and message have PostgreSQL's spelling; whoever asks writes another one.
#[apply(world_test)]
async fn what_helps_finds_the_message_in_another_spelling() {
    const ORDER: &str = "2f1c0a3b-0000-4000-8000-00000000000a";
    let (world, _) = shop("uuid").await;
    write_made(&world);
    world.overdue(&["apply", "--yes"]).exits(0);
    let row = format!(
        "INSERT INTO purchase (purchase_no, pay_until) VALUES ('{ORDER}', now() - interval '3 min')"
    );
    world.sql(&row).await;
    world.wire().await.publish_all("purchase.park", "30m.unpaid", &[ORDER.to_owned()]).await;
    let asked = ORDER.to_uppercase();
    let next = format!("overdue parked replay --order {asked}");
    let look = async || explain(&world, &asked)["order"]["answer"]["next"].clone();
    until("it is parked", look, |said| *said == next.as_str()).await;
    world.wire().await.until_ready("purchase.parked", 1).await;
    let words: Vec<&str> = next.split(' ').skip(1).chain(["--yes", "-o", "json"]).collect();
    let run = world.overdue(&words);
    assert_eq!((run.code, &run.json()["overdue"]), (Some(0), &1.into()), "{run}");
}

/// Each part that cannot be read says why, and the rest is shown.
#[apply(world_test)]
async fn what_cannot_be_asked_is_said_and_the_rest_is_shown() {
    let world = World::new().await;
    let order = world.orders("o", 1, -180_000).await.remove(0);
    let url = world.database_user().await;
    let schema = &world.schema;
    let all = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema};
         REVOKE ALL ON actions, outbox_refused FROM {schema}"
    );
    world.sql(&all).await;
    let environment = [
        ("OVERDUE_DATABASE__URL", url.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", "http://127.0.0.1:1"),
    ];
    let run = world.overdue_with(&["explain", "--order", &order], &environment).exits(0);
    let row = |name: &str| {
        let row = run.stdout.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{name}: {run}")).to_owned()
    };
    assert!(row("action").contains("permission denied for table actions"), "{run}");
    assert!(row("action").contains("`overdue permissions --database` prints the grants"), "{run}");
    assert!(row("event").contains("permission denied for table outbox_refused"), "{run}");
    assert!(row("parked").contains("127.0.0.1:1"), "{run}");
    assert!(run.stdout.starts_with("o-0 is ") && run.stdout.contains(" late"), "{run}");
    let gone = [("OVERDUE_DATABASE__URL", "postgres://postgres@127.0.0.1:1/postgres")];
    let run = world.overdue_with(&["explain", "--order", &order], &gone);
    assert!(run.stdout.starts_with("the state of o-0 is unknown: cannot be tried"), "{run}");
    assert!(run.stdout.contains("do: overdue doctor"), "{run}");
}
