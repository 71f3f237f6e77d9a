//! A span for each order that the database was asked to close, for a collector of OTLP over HTTP (docs/traces.md).
//!
//! Orders are closed in batches, so a span is made when its batch is committed, with the times of the batch. Spans of `tracing`
//! would be open meanwhile, with no work inside. The worker never waits for the collector.

#[cfg(feature = "otlp")]
mod export;

use std::time::Duration;

use crate::{
    config::TracesSettings,
    order::{OrderId, Outcome},
    wire::Traces,
};

/// Values that the spans of a batch share.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "the exporter reads it"))]
pub(crate) struct Batch<'a> {
    /// A timeout, or all timeouts of the effect.
    pub(crate) timeout: &'a str,
    pub(crate) effect: &'a str,
    /// The reason why its orders were tried, as in `closures.path`.
    pub(crate) path: &'static str,
    /// Time from the start of the batch until now.
    pub(crate) took: Duration,
}

/// The destination of spans; none by default.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    #[cfg(feature = "otlp")]
    queue: Option<export::Queue>,
}

#[cfg(feature = "otlp")]
impl Spans {
    /// Sends spans to the collector of the settings from now on, if there is one.
    pub(crate) fn open(settings: &TracesSettings) -> Result<Self, String> {
        let queue = settings.url().map(export::open).transpose()?;
        Ok(Self { queue })
    }

    /// Adds the spans of a committed batch; `traces` belong to the notices of its orders.
    pub(crate) fn closed(
        &self,
        batch: Batch<'_>,
        ids: &[OrderId],
        traces: &Traces,
        outcomes: &[Outcome],
    ) {
        let Some(queue) = &self.queue else { return };
        let new = export::NewSpans::of(batch, ids.len());
        for (id, outcome) in ids.iter().zip(outcomes) {
            match traces.get(id) {
                Some(trace) if trace.is_sampled() && is_worth_a_span(outcome) => {
                    queue.add(new.of_order(id, trace, outcome));
                }
                _ => {}
            }
        }
        let untraced = ids.iter().zip(outcomes).filter(|(id, _)| !traces.contains_key(id));
        let outcomes: Vec<&Outcome> = untraced.map(|(_, outcome)| outcome).collect();
        if outcomes.iter().any(|outcome| is_worth_a_span(outcome)) {
            queue.add(new.of_orders(&outcomes));
        }
    }

    /// Sends the remaining spans, for no longer than the log waits for its last lines.
    pub(crate) async fn end(&self) {
        const LAST: Duration = Duration::from_secs(1);
        if let Some(queue) = &self.queue {
            let _nobody_takes_them = tokio::time::timeout(LAST, queue.empty()).await;
        }
    }
}

/// An order that is not due, or locked, is tried many times, so its attempts get no span.
#[cfg(feature = "otlp")]
fn is_worth_a_span(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Busy | Outcome::NotDue { .. }) || outcome.is_guarded()
}

#[cfg(not(feature = "otlp"))]
#[expect(clippy::unused_self, clippy::unused_async, reason = "the other one uses it")]
impl Spans {
    pub(crate) fn open(settings: &TracesSettings) -> Result<Self, String> {
        settings.url().map_or(Ok(Self {}), |_| {
            Err("this program was built without spans: build it with the cargo feature `otlp`, or leave the setting out".to_owned())
        })
    }

    pub(crate) const fn closed(&self, _: Batch<'_>, _: &[OrderId], _: &Traces, _: &[Outcome]) {}

    pub(crate) async fn end(&self) {}
}
