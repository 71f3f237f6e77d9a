//! On a broker that has the delayed message exchange plugin: `make test-delayed`. Without one each test
//! says that it was left out, and passes.

use std::time::{Duration, Instant};

use lapin::{
    BasicProperties, ExchangeKind,
    options::ExchangeDeclareOptions,
    types::{AMQPValue, FieldTable},
};

use crate::support::{Services, World, samples::DELAYED, text, world::TOPOLOGY};

const TYPE: &str = "x-delayed-message";

fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert((*key).into(), value.clone());
    }
    table
}

/// What our detection of the plugin, our delays and our retries are built on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plugin_holds_a_message_for_its_delay_and_negates_the_header() {
    let Some(services) = Services::delayed() else { return };
    let world = World::bare(services, TOPOLOGY).await;
    let types = world.services.exchange_types().await;
    assert!(types.iter().any(|name| name == TYPE), "{types:?}");

    let wire = world.wire().await;
    let declared = wire.channel.exchange_declare(
        "delayed".into(),
        ExchangeKind::Custom(TYPE.to_owned()),
        ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() },
        table(&[("x-delayed-type", text("direct"))]),
    );
    declared.await.unwrap();
    let queue = wire.listen("delayed", "due").await;
    let published = Instant::now();
    for (body, delay) in [("late", Some(1_500)), ("at once", None)] {
        let delay = delay.map(|ms| ("x-delay", AMQPValue::LongInt(ms)));
        let headers = table(delay.as_slice());
        let properties = BasicProperties::default().with_headers(headers);
        let confirm = wire.publish("delayed", "due", properties, body.as_bytes()).await;
        assert!(confirm.is_ack());
    }

    let taken = wire.take_many(&queue, 2).await;
    assert!(published.elapsed() >= Duration::from_millis(1_500));
    assert_eq!(taken[0].body, b"at once");
    assert_eq!(taken[1].body, b"late");
    // In 64 bits, whatever it was published in.
    assert_eq!(taken[1].headers.get("x-delay"), Some(&AMQPValue::LongLongInt(-1_500)));
}

/// Mandatory, each of them would come back with `NO_ROUTE`: the exchange routes only when the delay is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_that_the_plugin_holds_is_not_returned() {
    let Some(services) = Services::delayed() else { return };
    let world = World::with(services, DELAYED).await;
    let run = world.overdue(&["publish", "4711", "--timeout", "unshipped"]);
    assert_eq!(run.code, Some(0), "{run}");
    let due = world.wire().await.take_many("orders.unshipped", 1).await;
    assert_eq!(due[0].headers.get("x-delay"), Some(&AMQPValue::LongLongInt(-1_000)));
}

/// The canaries are held, and come out where the business queues are bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_and_its_probe() {
    let Some(services) = Services::delayed() else { return };
    let world = World::with(services, DELAYED).await;
    let run = world.overdue(&["verify", "--probe", "-o", "json"]);
    assert_eq!(run.code, Some(0), "{run}");
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
    let run = world.overdue(&["verify", "--probe"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stdout.contains("what comes due for it is lost"), "{run}");
    assert!(run.stdout.contains("NO QUEUE of it is bound"), "{run}");
}
