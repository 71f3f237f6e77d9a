//! `overdue parked list`.

use std::{fmt, time::Duration};

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::{
    super::{
        exit::Failure,
        output::{Output, print, print_part, report},
        publish::line::now as clock,
        setup,
    },
    lot::{Found, Lots},
    select::Select,
};
use crate::{
    config::Settings,
    order::{OrderId, Outcome},
    parking::{ParkedMessage, Reasons, state, state_word},
    text::{about, counted, error_chain, one_line, printable_json},
};

/// Reasons that the end of the list names.
const REASONS: usize = 20;

/// What lies in the parking lot, why, and what its orders are now
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    #[command(flatten)]
    select: Select,
    /// Messages that are shown; 0 for all. All are counted
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u64,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl List {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lots = Lots::open(settings).await?;
        let stop = setup::stop_on_signals()?;
        let (mut reasons, mut shown, mut asked) = (Reasons::default(), 0, true);
        let limit = if self.limit == 0 { u64::MAX } else { self.limit };
        self.begin()?;
        let read = lots
            .read(&self.select.filter(), &stop, async |batch| {
                batch.found.iter().for_each(|found| reasons.add(&found.message.cause));
                let room = usize::try_from(limit - shown).unwrap_or(usize::MAX);
                let some = &batch.found[..batch.found.len().min(room)];
                let outcomes = now(&lots, some, &mut asked).await;
                for (found, now) in some.iter().zip(outcomes) {
                    self.entry(batch.queue, &found.message, now.as_ref(), shown == 0)?;
                    shown += 1;
                }
                Ok(())
            })
            .await?;
        let total = Total { read, shown, reasons, queues: &lots.queues };
        match self.output {
            Output::Text => print(total),
            Output::Json => print(total.json()),
        }
    }

    fn begin(&self) -> Result<(), Failure> {
        match self.output {
            Output::Text => Ok(()),
            Output::Json => print_part("{\n\"version\": 1,\n\"messages\": ["),
        }
    }

    fn entry(
        &self,
        queue: &str,
        message: &ParkedMessage,
        now: Option<&Outcome>,
        first: bool,
    ) -> Result<(), Failure> {
        match self.output {
            Output::Text => print(Line { message, now, at: clock() }),
            Output::Json => {
                let json = serde_json::to_string(&Entry::new(queue, message, now))
                    .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
                let separator = if first { "\n" } else { ",\n" };
                print_part(&format!("{separator}{}", printable_json(&json)))
            }
        }
    }
}

/// What the database says of each; where it does not answer, the list goes on without.
pub(super) async fn now(lots: &Lots, found: &[Found], asked: &mut bool) -> Vec<Option<Outcome>> {
    if *asked && !found.is_empty() {
        match lots.outcomes(found.iter().map(|found| &found.message)).await {
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

/// A message for programs.
#[derive(Serialize)]
pub(super) struct Entry<'a> {
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
}

impl<'a> Entry<'a> {
    pub(super) fn new(queue: &'a str, message: &'a ParkedMessage, now: Option<&Outcome>) -> Self {
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
        }
    }

    pub(super) const fn queue(&self) -> &str {
        self.queue
    }
}

/// A message for people: two lines, so that the reason has room.
struct Line<'a> {
    message: &'a ParkedMessage,
    now: Option<&'a Outcome>,
    at: Timestamp,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, now, at } = self;
        let order = one_line(message.label());
        let timeout = one_line(message.timeout.as_deref().unwrap_or("-"));
        let since = message
            .parked_at
            .map_or_else(String::new, |since| format!("parked {}", ago(since, *at)));
        let line = match message.order {
            Some(_) => format!("{order:<26} {timeout:<16} {since:<18} {}", state(*now)),
            None => format!("{order:<26} {timeout:<16} {since}"),
        };
        writeln!(f, "{}", line.trim_end())?;
        write!(f, "    {}", one_line(&message.cause))
    }
}

/// How long it has been there.
pub(super) fn ago(since: Timestamp, now: Timestamp) -> String {
    let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    format!("{} ago", about(age))
}

/// The end of a list.
struct Total<'a> {
    read: u64,
    shown: u64,
    reasons: Reasons,
    queues: &'a [String],
}

impl Total<'_> {
    /// The rest of the object that [`List::begin`] began.
    fn json(&self) -> String {
        let (reasons, others) = self.reasons.most_frequent(usize::MAX);
        let reasons: Vec<_> = reasons
            .into_iter()
            .map(|(reason, messages)| json!({ "reason": reason, "messages": messages }))
            .collect();
        let (queues, total) = (json!(self.queues), self.reasons.total());
        let read = self.read;
        let reasons = json!(reasons).to_string();
        format!(
            "\n],\n\"queues\": {queues},\n\"read\": {read},\n\"matching\": {total},\n\"reasons\": {},\n\
             \"other_reasons\": {others}\n}}",
            printable_json(&reasons)
        )
    }
}

impl fmt::Display for Total<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.queues.join(", ");
        let total = self.reasons.total();
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
        let (reasons, others) = self.reasons.most_frequent(REASONS);
        for (reason, count) in reasons {
            write!(f, "\n{count:>8}  {}", one_line(reason))?;
        }
        if others > 0 {
            write!(f, "\n{others:>8}  for other reasons")?;
        }
        Ok(())
    }
}
