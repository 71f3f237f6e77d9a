//! Sends spans in requests, one after the other, from a single task. If spans are made faster than the collector takes them, the
//! excess is lost and counted.

use std::time::{Duration, SystemTime};

use opentelemetry::{
    InstrumentationScope, Key, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

use super::Batch;
use crate::{
    order::{OrderId, Outcome},
    telemetry::{self, labels},
    wire::Trace,
};

/// Limit of waiting spans; a span has about a kilobyte.
const WAITING: usize = 8_192;
/// Limit of spans in a request.
const AT_ONCE: usize = 512;
/// Time that the first span of a request waits for others.
const GATHER: Duration = Duration::from_millis(500);
/// Limit of a request. A collector is near, and answers when the spans are in its own queue.
const REQUEST: Duration = Duration::from_secs(10);
/// The service name if the environment sets none.
const SERVICE: &str = "overdue";

enum Item {
    Span(Box<SpanData>),
    /// All spans before this item are sent or lost.
    Emptied(oneshot::Sender<()>),
}

/// The queue of spans to send.
#[derive(Debug)]
pub(super) struct Queue(mpsc::Sender<Item>);

impl Queue {
    pub(super) fn add(&self, span: SpanData) {
        if self.0.try_send(Item::Span(Box::new(span))).is_err() {
            telemetry::spans_lost(1);
        }
    }

    /// Waits until all spans are sent or lost.
    pub(super) async fn empty(&self) {
        let (emptied, done) = oneshot::channel();
        if self.0.send(Item::Emptied(emptied)).await.is_ok() {
            let _ended = done.await;
        }
    }
}

/// Begins to send to a collector. The environment gives OpenTelemetry's resource and the headers of requests (`OTEL_SERVICE_NAME`,
/// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS`).
pub(super) fn open(url: &str) -> Result<Queue, String> {
    let is_url = url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !is_url {
        return Err("write a URL such as http://127.0.0.1:4318".to_owned());
    }
    // A proxy for webhooks does not reach a collector on this machine, and the headers must reach the collector alone.
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    // Loading CAs takes time and memory.
    let client = if url.starts_with("https") { client } else { client.tls_certs_only([]) };
    let client = client.timeout(REQUEST).build().map_err(|error| error.to_string())?;
    let exporter = SpanExporter::builder()
        .with_http()
        // The environment's protocol is meant for other programs, too.
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", url.trim_end_matches('/')))
        .with_http_client(client)
        .build();
    let mut exporter = exporter.map_err(|error| error.to_string())?;
    exporter.set_resource(&resource());
    let (sender, queue) = mpsc::channel(WAITING);
    tokio::spawn(send(exporter, queue));
    Ok(Queue(sender))
}

fn resource() -> Resource {
    let given = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let name = given.get_ref(&Key::from_static_str("service.name"));
    if name.is_some_and(|name| !name.as_str().starts_with("unknown_service")) {
        return given;
    }
    Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_service_name(SERVICE)
        .build()
}

/// Runs until the worker ends.
async fn send(exporter: SpanExporter, mut queue: mpsc::Receiver<Item>) {
    let mut is_refused = false;
    while let Some(first) = queue.recv().await {
        let (mut spans, mut emptied) = (Vec::new(), None);
        let (mut item, until) = (Some(first), Instant::now() + GATHER);
        while let Some(next) = item.take() {
            match next {
                Item::Span(span) => spans.push(*span),
                Item::Emptied(done) => emptied = Some(done),
            }
            if spans.len() < AT_ONCE && emptied.is_none() {
                item = timeout_at(until, queue.recv()).await.ok().flatten();
            }
        }
        let count = spans.len();
        if count > 0 {
            // The client's time-out also ends a body that never arrives; this time-out is for a name that is never resolved.
            let sent = timeout(2 * REQUEST, exporter.export(spans)).await;
            match sent.map_err(|_| "no answer".to_owned()) {
                Ok(Ok(())) if std::mem::take(&mut is_refused) => telemetry::spans_taken(),
                Ok(Ok(())) => {}
                Ok(Err(error)) => refused(count, &mut is_refused, &error.to_string()),
                Err(reason) => refused(count, &mut is_refused, &reason),
            }
        }
        if let Some(done) = emptied {
            let _nobody_waits = done.send(());
        }
    }
}

fn refused(spans: usize, is_refused: &mut bool, reason: &str) {
    let first = !std::mem::replace(is_refused, true);
    telemetry::spans_refused(spans, first, reason);
}

/// Makes the spans of one batch.
pub(super) struct NewSpans<'a> {
    batch: Batch<'a>,
    orders: usize,
    began: SystemTime,
    ended: SystemTime,
}

impl<'a> NewSpans<'a> {
    /// Uses the clock of this machine: a collector compares these times with times of other services.
    #[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
    pub(super) fn of(batch: Batch<'a>, orders: usize) -> Self {
        let ended = SystemTime::now();
        let began = ended.checked_sub(batch.took).unwrap_or(ended);
        Self { batch, orders, began, ended }
    }

    /// The span of an order, as a child of its publisher's span.
    pub(super) fn of_order(&self, id: &OrderId, trace: &Trace, outcome: &Outcome) -> SpanData {
        let ids = (TraceId::from_hex(trace.trace_id()), SpanId::from_hex(trace.span_id()));
        // The trace was parsed from valid ids.
        let (trace_id, parent) =
            (ids.0.unwrap_or(TraceId::INVALID), ids.1.unwrap_or(SpanId::INVALID));
        let state = trace.state().and_then(|state| state.parse::<TraceState>().ok());
        let mut span = self.span(trace_id, parent, state.unwrap_or_default());
        span.attributes.push(KeyValue::new("overdue.order", id.as_str().to_owned()));
        span.attributes.push(KeyValue::new("overdue.outcome", labels::outcome(outcome)));
        match outcome {
            Outcome::Closed { late, state } => {
                let late_ms = i64::try_from(late.as_millis()).unwrap_or(i64::MAX);
                span.attributes.push(KeyValue::new("overdue.late_ms", late_ms));
                span.attributes.push(KeyValue::new("overdue.state", state.as_str().to_owned()));
            }
            Outcome::Failed { reason, .. } | Outcome::Postponed { reason } => {
                span.status = Status::error(reason.clone());
            }
            _ => {}
        }
        span
    }

    /// The span of all orders of a batch that belong to no trace, in a new trace.
    pub(super) fn of_orders(&self, outcomes: &[&Outcome]) -> SpanData {
        let trace_id = TraceId::from(rand::random::<u128>().max(1));
        let mut span = self.span(trace_id, SpanId::INVALID, TraceState::default());
        let closed = outcomes.iter().filter(|it| matches!(it, Outcome::Closed { .. })).count();
        span.attributes.push(count("overdue.orders", outcomes.len()));
        span.attributes.push(count("overdue.closed", closed));
        span
    }

    fn span(&self, trace_id: TraceId, parent_span_id: SpanId, state: TraceState) -> SpanData {
        let Batch { timeout, effect, path, .. } = self.batch;
        let span_id = SpanId::from(rand::random::<u64>().max(1));
        let is_message = path == "message";
        SpanData {
            span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, state),
            parent_span_id,
            parent_span_is_remote: parent_span_id != SpanId::INVALID,
            span_kind: if is_message { SpanKind::Consumer } else { SpanKind::Internal },
            name: "close".into(),
            start_time: self.began,
            end_time: self.ended,
            attributes: vec![
                KeyValue::new("overdue.timeout", timeout.to_owned()),
                KeyValue::new("overdue.effect", effect.to_owned()),
                KeyValue::new("overdue.path", path),
                count("overdue.batch", self.orders),
            ],
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("overdue").build(),
        }
    }
}

fn count(name: &'static str, count: usize) -> KeyValue {
    KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX))
}
