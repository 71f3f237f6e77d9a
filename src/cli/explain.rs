//! `overdue explain`: the way of a notice, without a broker; and why an order was closed, is late, or is not closed.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    exit::Failure,
    output::Output,
    publish::{
        line::{Wish, time},
        one_timeout,
    },
    setup::{self, Services, now},
};
use crate::{
    config::Settings,
    oncall::why,
    order::OrderId,
    text::{counted, length, millis},
    topology::{
        Timeout, Topology,
        level::Interval,
        route::{Delay, PublishedError, Route, RouteError},
        stages::{Stage, Stages},
    },
    why::{Answer, OrderReading},
};

/// Show the way of a notice, without a broker; with --order also why an order was closed, is late, or is not closed
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    wish: Wish,
    /// A routing key as it was published, e.g. 0.0.7.3.unpaid or 30m.unpaid
    #[arg(long, value_name = "KEY", conflicts_with_all = ["level", "category", "due_at", "order", "timeout"])]
    key: Option<String>,
    /// Where it was published [default: the exchange that has such keys]
    #[arg(long, value_name = "EXCHANGE", requires = "key")]
    exchange: Option<String>,
    /// An order: asks database and broker for everything that is known of it, and shows the way of the rest
    #[arg(long, value_name = "ORDER_ID", conflicts_with_all = ["level", "category", "after", "due_at"])]
    order: Option<String>,
    /// When it is published [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Timestamp>,
    #[command(flatten)]
    output: Output,
}

/// A way, before its stages are known.
struct Explained {
    timeout: String,
    route: Route,
    delay: Duration,
}

impl Explain {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let at = self.at.unwrap_or_else(now);
        if let Some(id) = &self.order {
            return self.explain_order(settings, id, at).await;
        }
        let topology = setup::topology(settings)?;
        let way = self.asked(&topology, at)?;
        self.output.print(&self.explanation(settings, &topology, at, None, Some(way))?)
    }

    fn explanation(
        &self,
        settings: &Settings,
        topology: &Topology,
        at: Timestamp,
        order: Option<AskedOrder>,
        asked: Option<Explained>,
    ) -> Result<Explanation, Failure> {
        let hold = settings.worker.hold.as_duration().max(topology.lead.longest());
        let way = asked.map(|Explained { timeout, route, delay }| {
            let rule = known(topology, &timeout)?;
            Ok::<_, Failure>((rule, topology.stages(rule, route, delay, hold)?, delay))
        });
        let mut explanation = Explanation::new(topology, at, order, way.transpose()?);
        if let (Some(way), Some(after), None) =
            (&mut explanation.way, self.wish.after(), topology.strategy.ladder())
        {
            way.level = (way.hops > 1).then(|| after.to_string());
        }
        Ok(explanation)
    }

    fn asked(&self, topology: &Topology, at: Timestamp) -> Result<Explained, Failure> {
        if let Some(key) = &self.key {
            let delay = self.wish.after().map(Interval::as_duration);
            let published = topology.published(self.exchange.as_deref(), key, delay);
            let (route, timeout) = published.map_err(|error| not_waiting(&error))?;
            return Ok(Explained { timeout, delay: delay.unwrap_or_else(|| route.delay()), route });
        }
        let timeout = one_timeout(topology, self.wish.timeout.as_deref());
        let timeout = timeout.map_err(Failure::usage)?;
        let delay = self.wish.delay(self.wish.due_at(), at);
        let route = topology.route(timeout, &delay)?;
        let delay = delay.length(known(topology, timeout)?)?;
        Ok(Explained { timeout: timeout.to_owned(), route, delay })
    }

    /// Everything that is known of it, and the way of the rest if it is to be waited for.
    async fn explain_order(
        &self,
        settings: &Settings,
        id: &str,
        at: Timestamp,
    ) -> Result<(), Failure> {
        let id = OrderId::parse(id).map_err(|error| Failure::configuration(error.to_string()))?;
        let services = Arc::new(Services::open(settings)?);
        let topology = &services.topology;
        if let Some(name) = &self.wish.timeout {
            known(topology, name)?;
        }
        let reading = why::order(settings, &services, &id, self.wish.timeout.as_deref()).await;
        let way = match reading.remaining() {
            Some((timeout, remaining)) => {
                let route = topology.wait(known(topology, timeout)?, remaining)?;
                Some(Explained { timeout: timeout.to_owned(), route, delay: remaining })
            }
            None => None,
        };
        let is_known = reading.is_known();
        let order = AskedOrder::new(&id, reading);
        self.output.print(&self.explanation(settings, topology, at, Some(order), way)?)?;
        if is_known {
            return Ok(());
        }
        Err(Failure::failed(format!("the database does not know the order {id}")))
    }
}

fn not_waiting(error: &PublishedError) -> Failure {
    Failure::configuration(match error {
        PublishedError::NoDelay { .. } => error.to_string(),
        _ => format!("{error}; a message like that would be parked"),
    })
}

fn known<'a>(topology: &'a Topology, timeout: &str) -> Result<&'a Timeout, Failure> {
    topology.timeout(timeout).ok_or_else(|| match topology.route(timeout, &Delay::Usual) {
        Err(error) => error.into(),
        Ok(_) => RouteError::NoDelay.into(),
    })
}

/// The answer; durations in milliseconds.
#[derive(Debug, Serialize)]
struct Explanation {
    strategy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<AskedOrder>,
    #[serde(flatten)]
    way: Option<ExplainedWay>,
}

/// What database and broker said.
#[derive(Debug, Serialize)]
struct AskedOrder {
    id: String,
    /// Of the effect that says most: `not_due`, `overdue`, `guarded`, `final`, `busy`, `failed` or `unknown`.
    status: Option<&'static str>,
    due_at: Option<Timestamp>,
    answer: Answer,
    #[serde(flatten)]
    reading: OrderReading,
}

#[derive(Debug, Serialize)]
struct ExplainedWay {
    timeout: String,
    at: Timestamp,
    delay_ms: u64,
    due_at: Timestamp,
    /// The publisher's first; the others are the worker's, which sends on what is early.
    publishes: Vec<Publish>,
    /// Queues that a message passes on its way, those of all publishes.
    hops: u64,
    /// The level that would make it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    /// What the worker waits for with the message in hand.
    rest_ms: u64,
    /// How much too late it comes out.
    late_ms: u64,
    /// Where it comes out.
    queue: String,
}

#[derive(Debug, Serialize)]
struct Publish {
    exchange: String,
    routing_key: String,
    headers: BTreeMap<&'static str, u32>,
    queues: Vec<Wait>,
    holds_ms: u64,
    /// How much earlier that is than the level is called.
    lead_ms: u64,
    times: u64,
}

#[derive(Debug, Serialize)]
struct Wait {
    queue: String,
    holds_ms: u64,
}

impl AskedOrder {
    fn new(id: &OrderId, reading: OrderReading) -> Self {
        let seen = reading.leading();
        let (status, due_at) = (seen.and_then(|seen| seen.status), seen.and_then(|it| it.due_at));
        Self { id: id.to_string(), status, due_at, answer: Answer::of(&reading), reading }
    }
}

impl Explanation {
    fn new(
        topology: &Topology,
        at: Timestamp,
        order: Option<AskedOrder>,
        way: Option<(&Timeout, Stages, Duration)>,
    ) -> Self {
        let way = way.map(|(timeout, stages, delay)| {
            let due_at = order.as_ref().and_then(|order| order.due_at);
            let after =
                || at.checked_add(delay.saturating_add(stages.late)).unwrap_or(Timestamp::MAX);
            let publishes: Vec<Publish> = stages.stages.into_iter().map(Publish::of).collect();
            let passed = |publish: &Publish| publish.queues.len() as u64 * publish.times;
            ExplainedWay {
                timeout: timeout.name.clone(),
                at,
                delay_ms: millis(delay),
                due_at: due_at.unwrap_or_else(after),
                hops: publishes.iter().map(passed).sum(),
                publishes,
                level: None,
                rest_ms: millis(stages.rest),
                late_ms: millis(stages.late),
                queue: business_queue(topology, timeout),
            }
        });
        Self { strategy: topology.strategy.as_str(), order, way }
    }
}

/// Where what is due waits for a worker, as one name.
fn business_queue(topology: &Topology, timeout: &Timeout) -> String {
    let base = topology.business_queue(timeout);
    if timeout.shards.is_some() { format!("{base}.shard-*") } else { base }
}

impl Publish {
    fn of(stage: Stage) -> Self {
        let Stage { route, hops, times } = stage;
        let wait = |queue: String, hold| Wait { queue, holds_ms: millis(hold) };
        Self {
            exchange: route.exchange,
            routing_key: route.routing_key,
            headers: route.x_delay.map(|ms| ("x-delay", ms)).into_iter().collect(),
            queues: hops.into_iter().map(|hop| wait(hop.queue, hop.hold)).collect(),
            holds_ms: millis(route.holds),
            lead_ms: millis(route.early),
            times,
        }
    }

    /// Each place where it waits.
    fn waits(&self) -> Vec<String> {
        let times = if self.times > 1 { format!(", {} times", self.times) } else { String::new() };
        let line = |holds_ms: u64, place: &str| format!("{:<6} in {place}{times}", shown(holds_ms));
        match &self.queues[..] {
            [] if self.holds_ms == 0 => Vec::new(),
            [] => vec![line(self.holds_ms, &self.exchange)],
            [level] if self.lead_ms > 0 => {
                let lead = shown(self.lead_ms);
                let line = line(self.holds_ms.saturating_add(self.lead_ms), &level.queue);
                vec![format!("{line}, lets go {lead} early")]
            }
            queues => queues.iter().map(|wait| line(wait.holds_ms, &wait.queue)).collect(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(order) = &self.order {
            order.reading.fmt(f)?;
        }
        if let (Some(_), Some(_)) = (&self.order, &self.way) {
            writeln!(f)?;
        }
        self.way.as_ref().map_or(Ok(()), |way| way.fmt(f, self.strategy))
    }
}

impl ExplainedWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>, strategy: &str) -> fmt::Result {
        let delay = shown(self.delay_ms);
        writeln!(f, "{delay} for `{}`, strategy `{strategy}`", self.timeout)?;
        for (index, publish) in self.publishes.iter().enumerate() {
            let who = if index == 0 { "publish to" } else { "sent on to" };
            writeln!(f, "  {who}   {}, routing key {}", publish.exchange, publish.routing_key)?;
            for (name, value) in &publish.headers {
                writeln!(f, "  header       {name}: {value}")?;
            }
            for wait in publish.waits() {
                writeln!(f, "  waits        {wait}")?;
            }
        }
        let hops = counted(self.hops, "hop");
        writeln!(f, "  comes out    of {}, after {hops}", self.queue)?;
        if let Some(level) = &self.level {
            writeln!(f, "  note         with a level \"{level}\" in delay.levels it is 1 hop")?;
        }
        if self.rest_ms > 0 {
            writeln!(f, "  held         {} by the worker", shown(self.rest_ms))?;
        }
        let late = if self.late_ms > 0 {
            format!(", {} late: nothing shorter is there", shown(self.late_ms))
        } else {
            String::new()
        };
        writeln!(f, "  due          {}{late}", self.due_at)
    }
}

fn shown(ms: u64) -> String {
    length(Duration::from_millis(ms))
}
