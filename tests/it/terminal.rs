//! Names on the broker, from any client, cannot control the terminal of a reader.

use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions},
    types::FieldTable,
};
use reqwest::Method;
use serde_json::json;

use crate::{
    support::{Run, World},
    verify::applied,
};

/// Clears the screen, and reverses the following text.
const NAME: &str = "x\u{1b}[2J\u{9b}2J\u{202e}y";
/// This name begins a line as well. The broker allows no line breaks in names, but in routing keys and arguments.
const KEY: &str = "x\u{1b}[2J\n  error    forged\r\u{202e}y";

/// Asserts that no name begins a line like a report's own.
fn assert_safe(run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        let harms = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(harms), "{text:?}");
        let forged = |line: &&str| line.trim_start().starts_with("error    forged");
        assert_eq!(text.lines().find(forged), None, "{text}");
    }
}

async fn hostile() -> World {
    let world = applied().await;
    // Over AMQP: the management API refuses such names in a path.
    let wire = world.wire().await;
    wire.queue(NAME, &[]).await;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let topic = ExchangeKind::Topic;
    let none = FieldTable::default;
    wire.channel.exchange_declare(NAME.into(), topic, durable, none()).await.unwrap();
    for (exchange, queue) in
        [("orders.dlx", NAME), ("orders.in", "orders.delay.30m"), (NAME, "orders.unpaid")]
    {
        let options = QueueBindOptions::default();
        let (queue, exchange) = (queue.into(), exchange.into());
        wire.channel.queue_bind(queue, exchange, KEY.into(), options, none()).await.unwrap();
    }
    world.delete("queues", "orders.delay.3s").await;
    world.queue("orders.delay.3s", json!({ "x-dead-letter-exchange": KEY })).await;
    let policy = json!({ "name": NAME, "pattern": r"^orders\.", "apply-to": "queues",
        "priority": 0, "definition": { "message-ttl": 1 } });
    world.call(Method::POST, "definitions", &[], json!({ "policies": [policy] })).await;
    world
}

#[apply(world_test)]
async fn names_on_a_broker_clear_no_screen_and_forge_no_line() {
    let world = hostile().await;
    let commands: &[&[&str]] = &[
        &["plan"],
        &["plan", "-o", "json"],
        &["apply"],
        &["verify"],
        &["verify", "-o", "json"],
        &["doctor"],
        &["doctor", "-o", "json"],
        &["export", "--live", "--format", "mermaid"],
        &["run"],
        &["apply", "--yes"],
        &["verify"],
    ];
    for command in commands {
        assert_safe(&world.overdue(command));
    }
    world.overdue(&["verify"]).prints(r"x\u{1b}[2J\u{9b}2J");
    // Data for programs is unchanged.
    let found = world.overdue(&["verify", "-o", "json"]).findings();
    assert!(found.iter().any(|finding| finding.contains('\u{1b}')), "{found:?}");
}

/// Both commands begin with the name of their target.
#[apply(world_test)]
async fn a_plan_begins_with_where_it_is_carried_out() {
    let world = applied().await;
    let cluster = world.management().identity().await.unwrap().cluster;
    let place =
        format!("topology `orders` in virtual host `{}` of cluster `{cluster}`\n", world.vhost);
    for command in [&["plan"], &["apply"]] {
        let run = world.overdue(command);
        assert!(run.stdout.starts_with(&place), "{run}");
    }
}
