//! `overdue publish`: publishes one due notice, or many from lines of JSON.

use std::{fmt, future::ready, mem::replace, pin::pin};

use clap::Args;
use futures_util::{Stream, StreamExt};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use tokio::io;
use tokio_util::{
    bytes::Bytes,
    codec::{
        AnyDelimiterCodec,
        AnyDelimiterCodecError::{Io, MaxChunkLengthExceeded},
        FramedRead,
    },
};

use super::{
    exit::{self, Failure},
    output::Output,
    setup::{self, now},
};
use crate::{
    administration::{ManagementError, apply::has_exchange_types},
    config::Settings,
    messaging::Publisher,
    order::OrderId,
    text::counted,
    topology::{
        Topology,
        level::{Interval, Level},
        level_routes::LevelRoutes,
        route::{Delay, Route},
    },
    wire::{DueNotice, Message},
};

/// Messages published at the same time; the publisher's own window is smaller than two of these.
const IN_FLIGHT: usize = 1_024;
/// A due notice has about a hundred bytes; a longer line is not a notice.
const MAX_LINE_BYTES: usize = 64 * 1024;

const LINES: &str = "Without an order, lines of JSON from standard input:\n  \
     {\"order_id\": \"4711\"}, and optionally \"timeout\"; \"level\", \"category\" or \"after\"; \"due_at\".\n  \
     What a line says beats the flags. The numbers of refused lines are printed at the end.";

/// Publish due notices: one, or lines of JSON from standard input
#[derive(Debug, Args)]
#[command(after_help = LINES)]
pub(super) struct Publish {
    #[command(flatten)]
    wish: Wish,
    /// Publish the order id alone as text, not JSON
    #[arg(long)]
    text: bool,
    /// Print exchange, routing key and level of the notice, without asking a broker, and publish nothing
    #[arg(long, requires = "order_id")]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

/// A notice, by flags or by a line of JSON.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    /// The order; without it the command reads lines of JSON from standard input
    #[serde(deserialize_with = "text_or_number")]
    order_id: Option<String>,
    /// The timeout [default: the topology's only one]
    #[arg(long)]
    timeout: Option<String>,
    /// The delay level, instead of the timeout's usual one
    #[arg(long, conflicts_with_all = ["category", "after"])]
    level: Option<String>,
    /// The order's category, which has a level of its own
    #[arg(long, conflicts_with = "after")]
    category: Option<String>,
    /// Any delay, e.g. 37m; without a ladder a worker delays the notice again for the rest of the time
    #[arg(long, value_name = "DELAY", allow_hyphen_values = true)]
    after: Option<Interval>,
    /// Time at which the order is due, e.g. 2026-11-20T10:30:00Z; with a delay it is a hint, and the database decides
    #[arg(long, value_name = "TIME")]
    due_at: Option<Timestamp>,
}

/// Reads an order id as text, or as a whole number of 64 bits, as in a notice.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(id) => Ok(Some(id)),
        Value::Number(number) if number.is_i64() || number.is_u64() => Ok(Some(number.to_string())),
        _ => Err(D::Error::custom("`order_id` has to be text or a whole number of 64 bits")),
    }
}

impl Wish {
    /// The notice and its route; `flags` are the defaults for fields that `self` leaves out.
    fn message(&self, flags: &Publish, topology: &Topology) -> Result<(Route, Message), Failure> {
        let wish = &flags.wish;
        let id = self.order_id.as_deref().unwrap_or_default();
        let order_id =
            OrderId::parse(id).map_err(|error| Failure::configuration(error.to_string()))?;
        let due_at = self.due_at.or(wish.due_at);
        let until = || due_at.map(|due_at| Delay::until(due_at, now()));
        let delay = self.delay()?.or(wish.delay()?).or_else(until).unwrap_or_default();
        let named = self.timeout.as_ref().or(wish.timeout.as_ref());
        let timeout = match (named, &*topology.timeouts) {
            (Some(timeout), _) => timeout,
            (None, [only]) => &only.name,
            (None, _) => {
                let why = "the topology has several timeouts: name one with --timeout";
                return Err(Failure::configuration(why));
            }
        };
        let route = topology.route(timeout, &delay)?;
        let message = if flags.text { Message::bare_order_id } else { Message::notice };
        Ok((route.clone(), message(route, &DueNotice { order_id, due_at })))
    }

    /// The delay that the line or the flags name.
    fn delay(&self) -> Result<Option<Delay>, Failure> {
        match (&self.level, &self.category, self.after) {
            (None, None, None) => Ok(None),
            (Some(level), None, None) => Ok(Some(Delay::level(level))),
            (None, Some(category), None) => Ok(Some(Delay::Category(category.clone()))),
            (None, None, Some(after)) => Ok(Some(Delay::exactly(after.as_duration()))),
            _ => Err(Failure::configuration("level, category and after exclude each other")),
        }
    }
}

/// Results of the lines.
#[derive(Serialize)]
struct Answer {
    published: usize,
    refused: Vec<Refused>,
}

/// A line whose notice the broker has not confirmed.
#[derive(Serialize)]
struct Refused {
    line: usize,
    reason: String,
    #[serde(skip)]
    code: u8,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Refused { line, reason, .. } in &self.refused {
            writeln!(f, "line {line}: {reason}")?;
        }
        write!(f, "published {}, refused {}", self.published, self.refused.len())
    }
}

/// The route of a notice.
#[derive(Serialize)]
struct Way<'a> {
    exchange: &'a str,
    routing_key: &'a str,
    /// The level that delays the notice; ladder and delayed-exchange have none.
    level: Option<&'a str>,
    /// The delay in milliseconds, for the exchange of the delayed message plugin.
    #[serde(rename = "x-delay", skip_serializing_if = "Option::is_none")]
    x_delay: Option<u32>,
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exchange     {}", self.exchange)?;
        writeln!(f, "routing key  {}", self.routing_key)?;
        if let Some(level) = self.level {
            writeln!(f, "level        {level}")?;
        }
        self.x_delay.map_or(Ok(()), |ms| writeln!(f, "x-delay      {ms}"))
    }
}

impl Publish {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let single = self.wish.order_id.as_ref().map(|_| self.wish.message(&self, &topology));
        let single = single.transpose()?;
        if let (true, Some((route, _))) = (self.dry_run, &single) {
            let Route { exchange, routing_key, x_delay, .. } = route;
            let level = routing_key.split('.').next().and_then(|word| topology.level(word));
            let level = level.map(Level::name);
            return self.output.print(&Way { exchange, routing_key, level, x_delay: *x_delay });
        }
        let routes = level_routes(settings, &topology).await?;
        if let Some((route, _)) = &single {
            check(route, &routes)?;
        }
        let publisher = Publisher::connect(&setup::address(settings)?, "overdue publish").await?;
        if let Some((_, message)) = single {
            publisher.publish(message).await?;
            return self.output.print(&Answer { published: 1, refused: Vec::new() });
        }
        let sent = lines(&publisher).map(async |(line, text)| {
            let sending = async {
                let (route, message) = read(&text?)?.message(&self, &topology)?;
                check(&route, &routes)?;
                Ok::<_, Failure>(publisher.publish(message).await?)
            };
            (line, sending.await)
        });
        let mut sent = pin!(sent.buffer_unordered(IN_FLIGHT));
        let mut answer = Answer { published: 0, refused: Vec::new() };
        while let Some((line, result)) = sent.next().await {
            match result {
                Ok(()) => answer.published += 1,
                Err(Failure { code, text: reason }) => {
                    answer.refused.push(Refused { line, reason, code });
                }
            }
        }
        answer.refused.sort_by_key(|refused| refused.line);
        self.output.print(&answer)?;
        let Some(Refused { code, .. }) = answer.refused.first() else { return Ok(()) };
        let text = format!("{} refused", counted(answer.refused.len(), "line"));
        Err(Failure { code: *code, text })
    }
}

/// Lines that are not blank, with their numbers. Ends after the first line that cannot be read, or cannot be sent because the
/// connection is closed.
fn lines(publisher: &Publisher) -> impl Stream<Item = (usize, Result<Bytes, Failure>)> {
    let codec = AnyDelimiterCodec::new_with_max_length(b"\n".into(), b"".into(), MAX_LINE_BYTES);
    let lines = FramedRead::new(io::stdin(), codec).enumerate().scan(false, |over, (n, line)| {
        let failure = match line {
            _ if publisher.is_closed() => {
                Failure { code: exit::UNAVAILABLE, text: "the connection is gone".to_owned() }
            }
            Ok(line) => return ready((!*over).then_some((n + 1, Ok(line)))),
            Err(MaxChunkLengthExceeded) => Failure::configuration("it has more than 64 KiB"),
            Err(Io(error)) => Failure::failed(format!("cannot read standard input: {error}")),
        };
        let text = format!("neither it nor a later line was sent: {failure}");
        ready((!replace(over, true)).then_some((n + 1, Err(Failure { text, ..failure }))))
    });
    lines.filter(|(_, line)| ready(!line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty())))
}

fn read(line: &[u8]) -> Result<Wish, Failure> {
    serde_json::from_slice(line.trim_ascii()).map_err(|error| {
        Failure::configuration(error.to_string().replace(" at line 1 column ", " at column "))
    })
}

/// Fails if the broker lacks a queue on the route of the notice: the broker would confirm and park it.
fn check(route: &Route, routes: &LevelRoutes) -> Result<(), Failure> {
    let Route { exchange, routing_key, .. } = route;
    let timeout = routing_key.rsplit('.').next().unwrap_or_default();
    let lacks = if !routes.leads(route) {
        format!("`{exchange}` leads `{routing_key}` to no level")
    } else if !routes.has_queue(timeout) {
        format!("no queue of `{timeout}` gets what is due")
    } else {
        return Ok(());
    };
    Err(Failure::configuration(format!(
        "on the broker {lacks}, a message would be parked: run `overdue apply`, or publish with another delay"
    )))
}

/// The levels that the broker routes to, and the timeouts that have a queue. For any other level or timeout, an alternate
/// exchange parks the message, and the broker confirms it: AMQP reports no error.
///
/// A user without the right to read the bindings publishes without this check.
pub(super) async fn level_routes(
    settings: &Settings,
    topology: &Topology,
) -> Result<LevelRoutes, Failure> {
    let management = setup::management(settings)?;
    let routes = management.level_routes(topology).await.unwrap_or_default();
    if routes.absent().next().is_some()
        // The broker lacks the type of an exchange, so `overdue apply` would not help. If the user may not list the types, the
        // error of publishing reports it.
        && let Err(error @ ManagementError::NoExchangeType { .. }) =
            has_exchange_types(&management, topology).await
    {
        return Err(error.into());
    }
    Ok(routes)
}
