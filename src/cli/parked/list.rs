//! `overdue parked list`.

use std::{fmt, time::Duration};

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    super::{
        exit::Failure,
        output::{JsonList, Output, print, report},
        setup::{self, now},
    },
    Found, Lots, Select,
};
use crate::{
    config::Settings,
    order::{OrderId, Outcome},
    parking::{Fate, ParkedMessage, Reasons, fate, state, state_word},
    text::{about, counted, error_chain, one_line},
};

/// Reasons that the end of the list names.
const REASONS: usize = 20;
/// Characters of a body that are shown to people.
const BODY: usize = 2_000;

/// What lies in the parking lot, why, and what its orders are now; takes nothing out
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    #[command(flatten)]
    select: Select,
    /// Messages that are shown; 0 for all. All are counted
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u64,
    /// Each with every header, the body, and what a replay would do with it
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: Output,
}

impl List {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lots = Lots::open(settings).await?;
        let stop = setup::stop_on_signals()?;
        let (mut reasons, mut shown, mut asked) = (Reasons::default(), 0, true);
        let limit = if self.limit == 0 { u64::MAX } else { self.limit };
        let mut list =
            if self.output.is_json() { Some(JsonList::begin("messages")?) } else { None };
        let read = lots
            .read(&self.select.filter(), &stop, async |batch| {
                batch.found.iter().for_each(|found| reasons.add(&found.message.cause));
                let room = usize::try_from(limit - shown).unwrap_or(usize::MAX);
                let some = &batch.found[..batch.found.len().min(room)];
                let outcomes = outcomes(&lots, some, &mut asked).await;
                for (found, now) in some.iter().zip(&outcomes) {
                    let mut entry = Entry::new(batch.queue, &found.message, now.as_ref());
                    entry.full = self.full.then(|| Full::new(&lots, found, now.as_ref()));
                    match &mut list {
                        Some(list) => list.entry(&entry)?,
                        None => print(entry)?,
                    }
                    shown += 1;
                }
                Ok(())
            })
            .await?;
        let total = Total::new(read, shown, &reasons, &lots.queues);
        match list {
            Some(list) => list.end(&total),
            None => print(total),
        }
    }
}

/// What the database says of each; if it does not answer, the list goes on without.
async fn outcomes(lots: &Lots, found: &[Found], asked: &mut bool) -> Vec<Option<Outcome>> {
    if *asked && !found.is_empty() {
        match lots.outcomes(found).await {
            Ok(outcomes) => return outcomes,
            Err(error) => {
                *asked = false;
                let why = one_line(error_chain(&error));
                report(format!("warning: the orders are not looked up: {why}"));
            }
        }
    }
    vec![None; found.len()]
}

/// A message.
#[derive(Serialize)]
struct Entry<'a> {
    queue: &'a str,
    order: Option<&'a str>,
    timeout: Option<&'a str>,
    reason: String,
    parked_at: Option<Timestamp>,
    attempts: u32,
    /// `overdue`, `not_due`, `final`, `guarded`, `locked`, `unknown` or `effect_fails`.
    order_now: Option<&'static str>,
    routing_key: &'a str,
    message_id: Option<&'a str>,
    body_bytes: usize,
    #[serde(flatten)]
    full: Option<Full>,
    #[serde(skip)]
    label: &'a str,
    #[serde(skip)]
    state: String,
}

/// What `--full` adds.
#[derive(Serialize)]
struct Full {
    /// What the database says of the order, with what the effect says if it fails.
    order_now_text: String,
    /// What `replay` would do with it.
    on_replay: String,
    headers: Vec<(String, String)>,
    /// None if it has more than 64 KiB.
    body: Option<String>,
}

impl<'a> Entry<'a> {
    fn new(queue: &'a str, message: &'a ParkedMessage, now: Option<&Outcome>) -> Self {
        Self {
            queue,
            order: message.order.as_ref().map(OrderId::as_str),
            timeout: message.timeout.as_deref(),
            reason: message.cause.to_string(),
            parked_at: message.parked_at,
            attempts: message.attempts,
            order_now: now.map(state_word),
            routing_key: &message.routing_key,
            message_id: message.message_id.as_deref(),
            body_bytes: message.body_bytes,
            full: None,
            label: message.label(),
            state: if message.order.is_some() { state(now) } else { String::new() },
        }
    }
}

impl Full {
    fn new(lots: &Lots, found: &Found, now: Option<&Outcome>) -> Self {
        let Found { message, received, .. } = found;
        let left_out = received.body_left_out().is_some();
        Self {
            order_now_text: match now {
                Some(Outcome::Failed { reason, .. }) => format!("{}: {reason}", state(now)),
                _ => state(now),
            },
            on_replay: match fate(&lots.services.topology, &lots.routes, message, now) {
                Fate::Replay(route) => format!(
                    "is published to {} with the routing key `{}`",
                    route.exchange, route.routing_key
                ),
                Fate::Settle => "is taken out, as its order is final".to_owned(),
                Fate::Stay(why) => format!("stays: {why}"),
            },
            headers: received.shown_headers(),
            body: (!left_out).then(|| String::from_utf8_lossy(&received.body).into_owned()),
        }
    }
}

impl fmt::Display for Entry<'_> {
    /// Two lines, so that the reason has room; or a line for each thing that is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (order, timeout) = (one_line(self.label), one_line(self.timeout.unwrap_or("-")));
        let Some(full) = &self.full else {
            let since = self.parked_at.map_or_else(String::new, |at| format!("parked {}", ago(at)));
            let line = format!("{order:<26} {timeout:<16} {since:<18} {}", self.state);
            writeln!(f, "{}", line.trim_end())?;
            return write!(f, "    {}", one_line(&self.reason));
        };
        writeln!(f, "{order}")?;
        let mut row = |name: &str, value: &str| writeln!(f, "  {name:<12} {}", one_line(value));
        row("timeout", &timeout)?;
        row("reason", &self.reason)?;
        let unknown = || "nobody wrote when".to_owned();
        row("parked", &self.parked_at.map_or_else(unknown, |at| format!("{}, at {at}", ago(at))))?;
        row("attempts", &self.attempts.to_string())?;
        row("order now", &full.order_now_text)?;
        row("on replay", &full.on_replay)?;
        row("queue", self.queue)?;
        row("routing key", self.routing_key)?;
        row("message-id", self.message_id.unwrap_or("-"))?;
        for (name, value) in &full.headers {
            row("header", &format!("{name}: {value}"))?;
        }
        let body = full.body.as_deref().unwrap_or("not read, it is too large");
        let mut shown: String = body.chars().take(BODY).collect();
        if shown.len() < body.len() {
            shown.push('…');
        }
        row(&format!("{} bytes", self.body_bytes), &shown)
    }
}

/// How long it has been there.
fn ago(since: Timestamp) -> String {
    let age = Duration::try_from(now().duration_since(since)).unwrap_or_default();
    format!("{} ago", about(age))
}

/// The end of a list.
#[derive(Serialize)]
struct Total<'a> {
    queues: &'a [String],
    read: u64,
    matching: u64,
    reasons: Vec<Reason<'a>>,
    other_reasons: u64,
    #[serde(skip)]
    shown: u64,
}

#[derive(Serialize)]
struct Reason<'a> {
    reason: &'a str,
    messages: u64,
}

impl<'a> Total<'a> {
    fn new(read: u64, shown: u64, reasons: &'a Reasons, queues: &'a [String]) -> Self {
        let (each, others) = reasons.most_frequent(usize::MAX);
        let each = each.into_iter().map(|(reason, messages)| Reason { reason, messages });
        Self {
            queues,
            read,
            matching: reasons.total(),
            reasons: each.collect(),
            other_reasons: others,
            shown,
        }
    }
}

impl fmt::Display for Total<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queues, total) = (self.queues.join(", "), self.matching);
        if self.read == 0 {
            return write!(f, "{queues} is empty");
        }
        if self.shown > 0 {
            writeln!(f)?;
        }
        let of = if total == self.read {
            counted(total, "message")
        } else {
            format!("{total} of {}", counted(self.read, "message"))
        };
        let shown =
            if self.shown < total { format!(", {} shown", self.shown) } else { String::new() };
        write!(f, "{of} in {queues}{shown}")?;
        for Reason { reason, messages } in self.reasons.iter().take(REASONS) {
            write!(f, "\n{messages:>8}  {}", one_line(reason))?;
        }
        let rest: u64 = self.reasons.iter().skip(REASONS).map(|it| it.messages).sum();
        if rest + self.other_reasons > 0 {
            write!(f, "\n{:>8}  for other reasons", rest + self.other_reasons)?;
        }
        Ok(())
    }
}
