//! `overdue parked`: reading takes nothing out, and says why each message is there.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read},
};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::support::{Run, World, ids, text, until, wait::awaited, world::TOPOLOGY};

pub(super) const LOT: &str = "orders.parked";
pub(super) const UNKNOWN: &str = "the database does not know this order; given up after 3 retries";

/// As a worker writes it, three days ago.
#[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
fn written(reason: &str) -> FieldTable {
    let three_days_ago = jiff::Timestamp::now().as_second() - 3 * 86_400 - 60;
    let mut headers = FieldTable::default();
    headers.insert("x-park-reason".into(), text(reason));
    headers.insert("x-park-timeout".into(), text("unpaid"));
    headers
        .insert("x-parked-at".into(), AMQPValue::Timestamp(u64::try_from(three_days_ago).unwrap()));
    headers.insert("x-attempt".into(), AMQPValue::LongLongInt(3));
    headers.insert("x-guarded".into(), AMQPValue::LongLongInt(2));
    headers.insert("x-shop".into(), text("north"));
    headers
}

async fn park(world: &World, body: &[u8], headers: FieldTable) {
    let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
    world.wire().await.publish("orders.park", "30m.unpaid", properties, body).await;
}

/// What lies there in all its ways: overdue, not due, final, unknown, unreadable, of no timeout.
pub(super) async fn furnished() -> World {
    let world = World::of(TOPOLOGY).await;
    world.orders("late", 2, -90_000_000).await;
    world.orders("early", 1, 2_400_000 + 30_000).await;
    world.orders("paid", 1, 1_000_000).await;
    assert!(world.pay("paid-0").await);
    for id in ["late-0", "late-1", "early-0", "paid-0", "nobody"] {
        park(&world, id.as_bytes(), written(UNKNOWN)).await;
    }
    park(&world, b"\xff\xfe", written("the body is not UTF-8")).await;
    let wire = world.wire().await;
    let none = BasicProperties::default;
    wire.publish("orders.in", "30min.unpayed", none(), b"late-0").await;
    wire.until_ready(LOT, 7).await;
    world
}

/// So it reads for half a minute: however long it took to come here.
async fn due_in_40m(world: &World) {
    let sql = "UPDATE orders SET due_at = now() + interval '40.5 min' WHERE id = 'early-0'";
    world.sql(sql).await;
}

pub(super) async fn ready(world: &World) -> u32 {
    world.wire().await.ready(LOT).await
}

/// Waits until everything that was read is back.
pub(super) async fn all_back(world: &World, count: u32) {
    world.wire().await.until_ready(LOT, count).await;
}

/// Runs `overdue` to its end, which is to have this exit code.
#[track_caller]
pub(super) fn ends(world: &World, code: i32, arguments: &[&str]) -> Run {
    world.overdue(arguments).exits(code)
}

pub(super) fn shown(world: &World, run: &Run) -> String {
    world.shown(run)
}

#[apply(world_test)]
async fn a_list_says_why_and_what_the_orders_are_now_and_takes_nothing_out() {
    let world = furnished().await;
    due_in_40m(&world).await;
    let run = world.overdue(&["parked", "list"]);
    insta::assert_snapshot!("list", shown(&world, &run));
    all_back(&world, 7).await;
    let run = world.overdue(&["parked", "list", "--reason", "utf-8"]);
    insta::assert_snapshot!("list_one_reason", shown(&world, &run));
    all_back(&world, 7).await;
    let json = world.overdue(&["parked", "list", "-o", "json", "--limit", "0"]).json();
    assert_eq!((json["version"].as_i64(), json["matching"].as_i64()), (Some(1), Some(7)));
    let states = json["messages"].as_array().unwrap().iter();
    let states: Vec<_> = states.map(|it| it["order_now"].as_str().unwrap_or("-")).collect();
    assert_eq!(states, ["overdue", "overdue", "not_due", "final", "unknown", "-", "-"]);
    all_back(&world, 7).await;
    for (select, count) in [
        (vec!["--order", "late-0"], 2),
        (vec!["--order", "late-0", "--order", "nobody"], 3),
        (vec!["--older-than", "2d"], 6),
        (vec!["--newer-than", "2d"], 0),
        (vec!["--timeout", "unpaid"], 6),
        (vec!["--timeout", "unpayed"], 1),
    ] {
        let run = world.overdue(&[&["parked", "list", "-o", "json"], select.as_slice()].concat());
        assert_eq!(run.json()["matching"].as_i64(), Some(count), "{select:?}");
        all_back(&world, 7).await;
    }
    due_in_40m(&world).await;
    let run = world.overdue(&["parked", "list", "--full", "--order", "early-0"]);
    let at = regex_like(&run.stdout, "x-parked-at: ");
    let text = shown(&world, &run).replace(&at, "<three days ago>");
    // RabbitMQ 4.0 has no such header.
    let text = text.replace("  header       x-acquired-count: 9\n", "");
    insta::assert_snapshot!("show", text);
    all_back(&world, 7).await;
    // Nothing of it was closed for being looked at.
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 0);
}

/// The word behind `marker`.
fn regex_like(text: &str, marker: &str) -> String {
    let (_, rest) = text.split_once(marker).unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// A quorum queue drops what was delivered more than 20 times, unless it has no delivery limit. An exit code of 0 means that all of
/// them were read.
#[apply(world_test)]
async fn messages_that_are_read_again_and_again_stay() {
    let world = World::of(TOPOLOGY).await;
    let bodies = ids("o", 2_500);
    world.wire().await.publish_all("orders.park", "30m.unpaid", &bodies).await;
    for _ in 0..25 {
        let run = world.overdue(&["parked", "list", "--limit", "1"]);
        assert!(run.stdout.contains("2500 messages in orders.parked, 1 shown"), "{run}");
        all_back(&world, 2_500).await;
    }
    // A list that is stopped does not pass for a whole one: the pipe is full long before the last one: the list waits for its reader.
    let stopped = async || {
        all_back(&world, 2_500).await;
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = world.command(&["parked", "list", "-o", "json", "--limit", "0"]);
        command.stdout(writer);
        let mut list = world.spawn_with_output(command);
        let begun = spawn_blocking(move || {
            let (mut reader, mut text) = (BufReader::new(reader), String::new());
            reader.read_line(&mut text).unwrap();
            (reader, text)
        });
        let (mut reader, mut text) = awaited("its first line", begun).await.unwrap();
        list.signal("INT");
        let rest = spawn_blocking(move || {
            reader.read_to_string(&mut text).unwrap();
            text
        });
        let text = awaited("the rest", rest).await.unwrap();
        let (code, log) = (list.ended().await.code(), list.log());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let read = json["read"].as_u64().unwrap();
        if code == Some(0) {
            assert_eq!(read, 2_500, "{log}");
        } else {
            assert!(log.contains(&format!("stopped: {read} of about ")), "{log}");
        }
        code
    };
    until("it is stopped before its end", stopped, |code| *code == Some(1)).await;
    all_back(&world, 2_500).await;
    let taken = world.wire().await.take_all(LOT).await;
    let found: BTreeSet<String> = taken.iter().map(crate::support::Parked::text).collect();
    assert_eq!((taken.len(), found), (bodies.len(), bodies.into_iter().collect()));
}

/// Without the database a list leaves out the orders' states. The rights that docs/parked.md names are enough for everything, and one
/// less is not.
#[apply(world_test)]
async fn the_rights_on_call_and_what_is_not_read_at_all() {
    let world = furnished().await;
    let gone = [("OVERDUE_DATABASE__URL", "postgres://postgres@127.0.0.1:1/postgres")];
    let run = world.overdue_with(&["parked", "list"], &gone).exits(0);
    assert!(run.stderr.contains("warning: the orders are not looked up"), "{run}");
    assert!(run.stdout.contains("not asked") && run.stdout.contains("7 messages"), "{run}");
    all_back(&world, 7).await;
    world.overdue_with(&["parked", "replay", "--yes"], &gone).exits(69);
    all_back(&world, 7).await;

    let policy = json!({ "delivery-limit": 5 });
    world.policy("policies", "limit", "^orders.parked$", policy).await;
    world.until_policy(LOT, "limit").await;
    for command in [&["list"][..], &["replay", "--yes"]] {
        let run = ends(&world, 78, &[&["parked"], command].concat());
        assert!(run.stderr.contains("orders.parked has a delivery limit"), "{run}");
    }
    assert_eq!(ready(&world).await, 7);
    world.delete("policies", "limit").await;

    let rights = [r"^orders\.parked\.lock$", r"^orders\.(in|dlx)$", r"^orders\.parked(\.[0-9]+)?$"];
    let user = format!("{}-on-call", world.vhost);
    world.user_named(&user, "management").await;
    world.permit(&user, rights).await;
    let list = async || world.overdue_as(&["parked", "list"], &user);
    until("the policy is gone", list, |run| run.code == Some(0)).await;
    all_back(&world, 7).await;
    for (lacking, command) in [
        (["^$", rights[1], rights[2]], &["parked", "replay", "--yes"][..]),
        ([rights[0], "^$", rights[2]], &["parked", "replay", "--yes"]),
        ([rights[0], rights[1], "^$"], &["parked", "list"]),
    ] {
        world.permit(&user, lacking).await;
        world.overdue_as(command, &user).exits(77);
        // Final orders are settled first; nothing else is taken out.
        let wire = world.wire().await;
        until("back", async || wire.ready(LOT).await, |n| *n >= 6).await;
    }
    world.permit(&user, rights).await;
    world.overdue_as(&["parked", "replay", "--yes"], &user).exits(0);
    all_back(&world, 3).await;
}

/// Each way in that the broker takes by itself: none of these messages has a reason of ours.
#[apply(world_test)]
async fn what_the_broker_has_parked_by_itself_has_its_reason_in_words() {
    fn entry(message: &serde_json::Value) -> (&str, &str, &str, bool) {
        let text = |name: &str| message[name].as_str().unwrap_or("-");
        (text("order"), text("timeout"), text("reason"), message["parked_at"].is_string())
    }
    let (world, wire) = World::of(TOPOLOGY).await.wired().await;
    let none = BasicProperties::default;
    wire.publish("orders.dlx", "30m.unpaid", none(), b"deadly").await;
    let limit = async || {
        let options = lapin::options::BasicGetOptions::default();
        while let Some(got) = wire.channel.basic_get("orders.unpaid".into(), options).await.unwrap()
        {
            let options = lapin::options::BasicRejectOptions { requeue: true };
            wire.channel.basic_reject(got.delivery.delivery_tag, options).await.unwrap();
        }
        wire.ready(LOT).await
    };
    until("the delivery limit is reached", limit, |parked| *parked == 1).await;
    let worker = world.worker();
    wire.publish("orders.dlx", "30m.unpaid", none(), &vec![b'x'; 70_000]).await;
    wire.publish("orders.in", "100ms.gone", none(), b"o-1").await;
    wire.publish("orders.in", "30min.unpaid", none(), b"o-2").await;
    wire.until_ready(LOT, 4).await;
    let json = world.overdue(&["parked", "list", "-o", "json"]).json();
    let mut found: Vec<_> = json["messages"].as_array().unwrap().iter().map(entry).collect();
    found.sort_unstable();
    let dead = "workers ended while they processed it, up to the delivery limit of orders.unpaid";
    let gone = "due (orders.delay.100ms), and no queue takes the routing key `100ms.gone`";
    let expected = [
        ("-", "unpaid", "body or headers have 70000 bytes, more than 65536", false),
        ("deadly", "unpaid", dead, true),
        ("o-1", "gone", gone, true),
        ("o-2", "unpaid", "no level takes the routing key `30min.unpaid`", false),
    ];
    assert_eq!(found, expected);
    worker.stop().await;
    all_back(&world, 4).await;
}
