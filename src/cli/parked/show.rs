//! `overdue parked show`: everything that is known of a message.

use std::fmt;

use clap::Args;
use serde::Serialize;

use super::{
    super::{
        exit::Failure,
        output::{Output, print, print_json},
        publish::line::now as clock,
        setup,
    },
    list::{Entry, ago, now},
    lot::{Found, Lots},
    select::Select,
};
use crate::{
    config::Settings,
    order::Outcome,
    parking::{Fate, fate, state},
    text::one_line,
};

/// Characters of a body that are shown to people.
const BODY: usize = 2_000;

/// Show messages with every header and the body; takes nothing out
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    #[command(flatten)]
    select: Select,
    /// Messages that are shown
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Show {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lots = Lots::open(settings).await?;
        let stop = setup::stop_on_signals()?;
        let limit = usize::from(self.limit);
        let (mut shown, mut matching, mut asked) = (Vec::new(), 0_u64, true);
        lots.read(&self.select.filter(), &stop, async |batch| {
            matching += u64::try_from(batch.found.len()).unwrap_or(u64::MAX);
            let room = limit - shown.len();
            let mut some = batch.found;
            some.truncate(room);
            let outcomes = now(&lots, &some, &mut asked).await;
            let each = some.into_iter().zip(outcomes);
            shown.extend(each.map(|(found, now)| (batch.queue.to_owned(), found, now)));
            Ok(())
        })
        .await?;
        let details: Vec<Details<'_>> = shown
            .iter()
            .map(|(queue, found, now)| Details::new(&lots, queue, found, now.as_ref()))
            .collect();
        match self.output {
            Output::Json => {
                let messages = serde_json::json!({
                    "version": 1, "messages": details, "matching": matching
                });
                print_json(&messages)
            }
            Output::Text => {
                for details in &details {
                    print(details)?;
                }
                print(match matching {
                    0 => "no message in the parking lot is like that".to_owned(),
                    _ => format!("{} of {matching} shown", details.len()),
                })
            }
        }
    }
}

/// One message.
#[derive(Serialize)]
struct Details<'a> {
    #[serde(flatten)]
    entry: Entry<'a>,
    /// What the database says of the order, in words.
    order_now_text: String,
    /// What `replay` would do with it.
    on_replay: String,
    headers: Vec<(String, String)>,
    /// None where it is over 64 KiB.
    body: Option<String>,
    #[serde(skip)]
    found: &'a Found,
}

impl<'a> Details<'a> {
    fn new(lots: &Lots, queue: &'a str, found: &'a Found, now: Option<&Outcome>) -> Self {
        let Found { message, received, .. } = found;
        let left_out = received.body_left_out().is_some();
        Self {
            entry: Entry::new(queue, message, now),
            order_now_text: order_now(now),
            on_replay: match fate(&lots.topology, &lots.routes, message, now) {
                Fate::Replay(route) => format!(
                    "is published to {} with the routing key `{}`",
                    route.exchange, route.routing_key
                ),
                Fate::Settle => "is taken out, as its order is final".to_owned(),
                Fate::Stay(why) => format!("stays: {why}"),
            },
            headers: received.shown_headers(),
            body: (!left_out).then(|| String::from_utf8_lossy(&received.body).into_owned()),
            found,
        }
    }
}

/// With what the effect says, where it fails.
fn order_now(now: Option<&Outcome>) -> String {
    match now {
        Some(Outcome::Failed { reason, .. }) => format!("{}: {reason}", state(now)),
        _ => state(now),
    }
}

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.found.message;
        writeln!(f, "{}", one_line(message.label()))?;
        let mut row = |name: &str, value: &str| writeln!(f, "  {name:<12} {}", one_line(value));
        row("timeout", message.timeout.as_deref().unwrap_or("-"))?;
        row("reason", &message.cause.to_string())?;
        let parked = message.parked_at.map_or_else(
            || "nobody wrote when".to_owned(),
            |at| format!("{}, at {at}", ago(at, clock())),
        );
        row("parked", &parked)?;
        row("attempts", &message.attempts.to_string())?;
        row("order now", &self.order_now_text)?;
        row("on replay", &self.on_replay)?;
        row("queue", self.entry.queue())?;
        row("routing key", &message.routing_key)?;
        row("message-id", message.message_id.as_deref().unwrap_or("-"))?;
        for (name, value) in &self.headers {
            row("header", &format!("{name}: {value}"))?;
        }
        let body = self.body.as_deref().unwrap_or("not read, it is too large");
        let mut shown: String = body.chars().take(BODY).collect();
        if shown.len() < body.len() {
            shown.push('…');
        }
        row(&format!("{} bytes", message.body_bytes), &shown)
    }
}
