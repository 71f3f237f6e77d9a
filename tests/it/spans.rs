//! A collector gets a span for each closed order.

#![cfg(feature = "otlp")]

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;

use crate::{
    support::{
        World,
        pages::{metrics, sum},
        process::WorkerProcess,
        text, until,
        webhook::{Answer, Webhook},
    },
    traces::{PARENT, TRACE_ID, publish},
};

/// Attributes as text.
fn attributes(of: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    of.iter().map(|attribute| (attribute.key.as_str(), text(attribute))).collect()
}

/// The requests that a collector received.
fn requests(collector: &Webhook) -> Vec<ExportTraceServiceRequest> {
    let decode = |bytes: Vec<u8>| ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
    collector.posted().into_iter().map(|posted| decode(posted.bytes)).collect()
}

fn spans(collector: &Webhook) -> Vec<Span> {
    let of_resources = requests(collector).into_iter().flat_map(|it| it.resource_spans);
    of_resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

async fn worker(world: &World, collector: &Webhook) -> WorkerProcess {
    let url = format!("http://{}/", collector.address);
    world
        .started(|command| {
            command.env("OVERDUE_TRACES__OTLP", url);
            // No program listens there; the proxy is only for webhooks.
            command.env("ALL_PROXY", "http://127.0.0.1:1");
        })
        .await
}

#[apply(world_test)]
async fn an_order_that_is_closed_is_a_span_below_that_of_its_publisher() {
    let world = World::new().await;
    let collector = Webhook::new(Answer::Status(200, "")).await;
    let wire = world.wire().await;
    let orders = world.orders("o", 3, 0).await;
    let mut process = worker(&world, &collector).await;
    let not_sampled = format!("{}00", PARENT.strip_suffix("01").unwrap());
    let traced = [("traceparent", text(PARENT)), ("tracestate", text("shop=north"))];
    publish(&wire, "100ms.unpaid", &orders[0], &traced).await;
    publish(&wire, "100ms.unpaid", &orders[1], &[("traceparent", text(&not_sampled))]).await;
    publish(&wire, "100ms.unpaid", &orders[2], &[]).await;
    publish(&wire, "100ms.unpaid", "nobody", &traced).await;
    world.until_closed(3).await;
    world.parked(1).await;
    // Two from the batches with the closed orders, and one for each attempt with the unknown order.
    until("the spans", async || spans(&collector).len(), |spans| *spans >= 2 + 4).await;
    process.stops().await;

    let requests = requests(&collector);
    let resource = requests[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(attributes(&resource.attributes)["service.name"], "overdue");
    assert_eq!(collector.posted()[0].path_and_query, "/v1/traces");
    let spans = spans(&collector);
    assert!(spans.iter().all(|span| span.name == "close"));
    let (of_orders, of_batches): (Vec<_>, Vec<_>) =
        spans.iter().partition(|span| hex(&span.trace_id) == TRACE_ID);
    for span in &of_orders {
        assert_eq!(
            (hex(&span.parent_span_id).as_str(), span.trace_state.as_str()),
            ("00f067aa0ba902b7", "shop=north")
        );
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano && span.start_time_unix_nano > 0
        );
    }
    let said: Vec<_> = of_orders.iter().map(|span| attributes(&span.attributes)).collect();
    let closed: Vec<_> = said.iter().filter(|it| it["overdue.order"] == orders[0]).collect();
    assert_eq!(closed.len(), 1, "{said:?}");
    let expected = [
        ("overdue.timeout", "unpaid"),
        ("overdue.effect", "close"),
        ("overdue.path", "message"),
        ("overdue.outcome", "closed"),
        ("overdue.state", "closed"),
    ];
    for (name, value) in expected {
        assert_eq!(closed[0][name], value, "{name}");
    }
    assert!(closed[0]["overdue.late_ms"].parse::<u64>().is_ok(), "{closed:?}");
    assert!(closed[0]["overdue.batch"].parse::<u64>().unwrap() >= 1, "{closed:?}");
    // Every attempt, and no order but these two: the publisher of the other one has not sampled it.
    let tried = said.iter().filter(|it| it["overdue.order"] == "nobody");
    assert!(
        tried.clone().all(|it| it["overdue.outcome"] == "unknown") && tried.clone().count() >= 4
    );
    assert_eq!(said.len(), 1 + tried.count());
    let of_batches: Vec<_> = of_batches.iter().map(|span| attributes(&span.attributes)).collect();
    let untraced: Vec<_> = of_batches
        .iter()
        .map(|it| (it["overdue.orders"].as_str(), it["overdue.closed"].as_str()))
        .collect();
    assert_eq!(untraced, [("1", "1")]);
}

/// The worker does not wait while it works or when it ends. It counts lost spans, and logs the recovery.
#[apply(world_test)]
async fn a_collector_that_refuses_or_is_silent_holds_up_nothing() {
    let world = World::new().await;
    let collector = Webhook::new(Answer::Status(503, "full")).await;
    let url = format!("http://{}", collector.address);
    let (mut process, address) = world
        .listening(|command| {
            command.env("OVERDUE_TRACES__OTLP", url);
        })
        .await;
    let close = async |prefix: &str, all: usize| {
        world.publish_orders("100ms", prefix, 20, 0).await;
        world.until_closed(all).await;
    };
    close("refused", 20).await;
    process.until_logged("does not take spans").await;
    let lost = async || sum(&metrics(address).await, "overdue_spans_lost_total", &[]);
    until("lost spans are counted", lost, |lost| *lost >= 1.0).await;
    collector.answers(Answer::Status(200, ""));
    close("taken", 40).await;
    process.until_logged("takes spans again").await;
    let asked = collector.posted().len();
    collector.answers(Answer::Never);
    close("silent", 60).await;
    until("asked", async || collector.posted().len(), |posted| *posted > asked).await;
    close("still", 80).await;
    process.stops().await;
}

#[apply(world_test)]
async fn an_address_that_is_no_url_is_refused() {
    let world = World::empty().await;
    for url in ["127.0.0.1:4318", "amqp://127.0.0.1:4318"] {
        let run = world.overdue_with(&["run"], &[("OVERDUE_TRACES__OTLP", url)]).exits(78);
        let said = "traces.otlp: write a URL such as http://127.0.0.1:4318";
        assert!(run.stderr.contains(said), "{run}");
    }
}
