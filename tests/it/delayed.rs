//! On a broker that has the delayed message exchange plugin: `make test-delayed`. Without one each test
//! says that it was left out, and passes.

mod rights;

use std::time::{Duration, Instant};

use lapin::{ExchangeKind, options::ExchangeDeclareOptions, types::AMQPValue};

use overdue::internals::{config::WorkerSettings, topology::Topology};

use crate::{
    compat::assert_forms,
    support::{
        Services, Wire, World, headers, python,
        samples::DELAYED,
        table, text,
        worker::{millis, settings},
        world::TOPOLOGY,
    },
};

const TYPE: &str = "x-delayed-message";

/// What our detection of the plugin, our delays and our retries are built on.
#[apply(world_test)]
async fn the_plugin_holds_a_message_for_its_delay_and_negates_the_header() {
    let Some(services) = Services::delayed() else { return };
    let world = World::bare(services, TOPOLOGY).await;
    let types = world.services.exchange_types().await;
    assert!(types.iter().any(|name| name == TYPE), "{types:?}");

    let wire = world.wire().await;
    wire.plugin_exchange().await;
    let queue = wire.listen("reminders", "due").await;
    let published = Instant::now();
    for (body, delay) in [("late", Some(1_500)), ("at once", None)] {
        let delay = delay.map(|ms| ("x-delay", AMQPValue::LongInt(ms)));
        let properties = headers(delay.as_slice());
        assert!(wire.publish("reminders", "due", properties, body.as_bytes()).await.is_ack());
    }

    let taken = wire.take_many(&queue, 2).await;
    assert!(published.elapsed() >= Duration::from_millis(1_500));
    assert_eq!(taken[0].body, b"at once");
    assert_eq!(taken[1].body, b"late");
    // In 64 bits, whatever it was published in.
    assert_eq!(taken[1].headers.get("x-delay"), Some(&AMQPValue::LongLongInt(-1_500)));
}

/// The canaries are held, and come out where the business queues are bound.
#[apply(world_test)]
async fn verify_and_its_probe() {
    let Some(services) = Services::delayed() else { return };
    let world = World::with(services, DELAYED).await;
    let run = world.overdue(&["verify", "--probe", "-o", "json"]).exits(0);
    let report = run.json();
    let canaries = report["probe"]["canaries"].as_array().unwrap();
    let subjects: Vec<&str> =
        canaries.iter().map(|canary| canary["subject"]["name"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["orders.delayed", "unpaid", "unshipped"]);
    for canary in canaries {
        let late = canary["late_ms"].as_i64();
        assert!(late.is_some_and(|late| (0..5_000).contains(&late)), "{canary}");
    }
    assert_eq!(canaries[1]["bound"], serde_json::json!(["orders.unpaid"]));
    // Each business queue has its canary.
    assert_eq!(world.take("orders.unpaid").await.len(), 1);
    assert_eq!(world.take("orders.unshipped").await.len(), 1);

    world.unbind("orders.delayed", "orders.unpaid", "#.unpaid").await;
    let run = world.overdue(&["verify", "--probe"]).exits(2);
    assert!(run.stdout.contains("its due messages are lost"), "{run}");
    assert!(run.stdout.contains("NO QUEUE of it is bound"), "{run}");
}

/// Every form of `x-delay`, as the plugin itself takes it: what `[compat.x-delay]` does is compared with this.
#[apply(world_test)]
async fn every_form_of_x_delay_with_the_plugin_itself() {
    let Some(services) = Services::delayed() else { return };
    let (world, wire) = World::bare(services, TOPOLOGY).await.wired().await;
    wire.plugin_exchange().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", "reminders", "welcome").await;
    let url = world.broker_url();
    let run = python("tests/python/x_delay.py", &[&url, "reminders", "welcome", "mails"], "");
    assert_forms(&run);
}

/// The whole way on a broker that has the plugin: the guide, the bindings, the switch, and the same consumer's queue.
#[apply(world_test)]
async fn exit_plugin_guides_the_switch() {
    let Some(services) = Services::delayed() else { return };
    let (world, wire) = World::with(services, TOPOLOGY).await.wired().await;
    wire.plugin_exchange().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", "reminders", "welcome").await;
    world.exchange("events", "topic", serde_json::json!({})).await;
    let feed = ["e", "events", "e", "reminders"];
    let all = serde_json::json!({ "routing_key": "#" });
    world.call(reqwest::Method::POST, "bindings", &feed, all).await;
    let delay = headers(&[("x-delay", AMQPValue::LongInt(600_000))]);
    wire.publish("reminders", "welcome", delay, b"1").await;

    let out = world.dir.path().join("compat.toml");
    let out = out.to_str().unwrap();
    let run = world.overdue(&["exit-plugin", "reminders", "--save", out]).exits(0);
    for wanted in [
        "x-delayed-type direct",
        "reminders -> mails by \"welcome\": not copied yet",
        "events -> reminders by \"#\": not copied yet",
        ": 1 message",
        "to upgrade: no",
    ] {
        assert!(run.stdout.contains(wanted), "{wanted}: {run}");
    }
    let section = std::fs::read_to_string(out).unwrap();
    assert_eq!(section, "[compat.x-delay]\nexchange = \"reminders\"\ntype = \"direct\"\n");

    // A copy that the file knows nothing of would not outlive the next apply.
    let bind = ["exit-plugin", "reminders", "--bind", "--yes"];
    world.overdue(&bind).exits(78).reports(&section);
    std::fs::write(world.topology_file(), format!("{TOPOLOGY}\n{section}")).unwrap();
    let run = world.overdue(&bind).exits(0);
    for copied in
        ["reminders -> mails by \"welcome\": copied", "events -> reminders by \"#\": copied"]
    {
        assert!(run.stdout.contains(copied), "{copied}: {run}");
    }

    // While the plugin's exchange is there, nothing is changed in its place.
    let run = world.overdue(&["apply", "--yes"]);
    assert_ne!(run.code, Some(0), "{run}");
    world.delete("exchanges", "reminders").await;
    world.overdue(&["apply", "--yes"]).exits(0);
    world.overdue(&["exit-plugin", "reminders"]).prints("to upgrade: yes");
    let delay = headers(&[("x-delay", AMQPValue::LongInt(500))]);
    let published = Instant::now();
    wire.publish("events", "welcome", delay, b"2").await;
    assert_eq!(wire.take_many("mails", 1).await[0].body, b"2");
    assert!(published.elapsed() >= Duration::from_millis(500));
}

impl Wire {
    async fn plugin_exchange(&self) {
        let declared = self.channel.exchange_declare(
            "reminders".into(),
            ExchangeKind::Custom(TYPE.to_owned()),
            ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() },
            table(&[("x-delayed-type", text("direct"))]),
        );
        declared.await.unwrap();
    }
}

pub(super) const RULES: &str = "
[[timeout]]
name = \"unpaid\"
after = \"2s\"

[retry]
after = [\"1s\"]
";

fn of(delay: &str) -> String {
    format!("name = \"orders\"\n[delay]\n{delay}\n{RULES}")
}

fn delayed_exchange() -> String {
    of("strategy = \"delayed-exchange\"")
}

fn levels() -> String {
    of("levels = [\"1s\", \"2s\"]")
}

/// A notice that comes too early is sent on for the rest, as one is that no single publish can wait for.
#[apply(world_test)]
async fn orders_are_closed_at_their_deadline_and_early_notices_and_retries_go_through_the_plugin() {
    let Some(services) = Services::delayed() else { return };
    let (world, wire) = World::with(services, &delayed_exchange()).await.wired().await;
    let orders = world.orders("o", 20, 2_000).await;
    let lines: Vec<String> =
        orders.iter().map(|id| serde_json::json!({ "order_id": id }).to_string()).collect();
    let input = lines.join("\n");
    world.overdue_with_input(&["publish"], &input).exits(0);
    let early = world.orders("early", 20, 9_000).await;
    wire.publish_all("orders.dlx", "unpaid", &early).await;
    wire.publish_all("orders.dlx", "unpaid", &["nobody".to_owned()]).await;
    let settings = WorkerSettings { hold: millis("500ms"), ..settings() };
    let worker = world.worker_with(settings);
    world.until_closed(40).await;
    world.assert_invariants().await;
    let parked = world.parked(1).await;
    assert!(parked[0].reason().contains("given up after 1 retry"), "{:?}", parked[0]);
    worker.until("the retry counted", |c| c.retried >= 1).await;
    let counts = worker.stop().await;
    assert!(counts.put_back >= 20 && counts.retried == 1, "{counts:?}");
}

/// The plugin would take it, confirm it, and drop it when it is due.
#[apply(world_test)]
async fn nothing_is_published_that_no_queue_is_bound_for() {
    let Some(services) = Services::delayed() else { return };
    let world = World::with(services, &delayed_exchange()).await;
    world.unbind("orders.delayed", "orders.unpaid", "#.unpaid").await;
    world.overdue(&["publish", "4711"]).exits(78).reports("would be parked");
    let delayed = world.management().observe().await.unwrap().delayed;
    assert_eq!(delayed.get("orders.delayed"), Some(&0));
}

/// There and back, with messages waiting in both: the exchange stays until the plugin holds none.
#[apply(world_test)]
async fn levels_to_the_plugin_and_back_loses_nothing_that_waits() {
    let Some(services) = Services::delayed() else { return };
    let mut world = World::with(services, &levels()).await;
    world.publish_orders("2s", "levels", 20, 1_500).await;
    for (n, text) in [delayed_exchange(), levels()].iter().enumerate() {
        std::fs::write(world.topology_file(), text).unwrap();
        world.topology = Topology::parse(text).unwrap();
        world.overdue(&["apply", "--yes"]).exits(0);
        // In the plugin for longer than the way back takes.
        let (due_in_ms, level) = if n == 0 { (19_500, "20s") } else { (3_500, "2s") };
        world.publish_orders(level, &format!("o{n}"), 20, due_in_ms).await;
        let planned = world.overdue(&["plan"]);
        if n == 1 {
            assert!(planned.stdout.contains("orders.delayed"), "{planned}");
        }
    }
    let exchanges = world.management().observe().await.unwrap().objects.exchanges;
    assert!(exchanges.contains_key("orders.delayed"), "it holds messages");
    let worker = world.worker();
    world.overdue(&["apply", "--yes", "--wait"]).exits(0);
    world.until_closed(60).await;
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.parked, 0);
    assert_eq!(world.own_objects().await, world.topology.objects());
}
