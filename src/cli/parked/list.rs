//! `overdue parked list`.

use std::{fmt, time::Duration};

use clap::Args;
use jiff::Timestamp;

use super::{
    super::{
        exit::Failure,
        output::{JsonList, Output, print, report},
        setup::{self, now},
    },
    Select, lots,
};
use crate::{
    config::Settings,
    oncall::parked::{Entry, ListEnd, Listed, ReasonCount},
    text::{about, counted, one_line},
    wire::in_a_line,
};

const REASONS: usize = 20;
/// The most characters of a body that are printed.
const BODY: usize = 2_000;

/// List parked messages, with the reason and the state of the order
///
/// The messages stay in the parking lot.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    #[command(flatten)]
    select: Select,
    /// Show at most this number of messages, 0 for all; all are counted
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u64,
    /// Show every header, the body, and what a replay would do with the message
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: Output,
}

impl List {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lots = lots(settings).await?;
        let stop = setup::stop_on_signals()?;
        let limit = if self.limit == 0 { u64::MAX } else { self.limit };
        let listed = Listed { filter: self.select.filter(), limit, full: self.full };
        let mut list =
            if self.output.is_json() { Some(JsonList::begin("messages")?) } else { None };
        let end = lots
            .list(&listed, &stop, |entry| match &mut list {
                Some(list) => list.entry(&entry),
                None => print(entry),
            })
            .await?;
        if let Some(why) = &end.not_looked_up {
            report(format!("warning: the orders are not looked up: {why}"));
        }
        match list {
            Some(list) => list.end(&end)?,
            None => print(&end)?,
        }
        if end.stopped {
            let about = counted(end.waiting.max(end.read), "message");
            return Err(Failure::failed(format!(
                "stopped: {} of about {about} were read",
                end.read
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    /// Writes two lines, so that the reason has room; with `full`, a line for each known fact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (order, timeout) =
            (one_line(&self.label), one_line(self.timeout.as_deref().unwrap_or("-")));
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
        let unknown = || "time unknown".to_owned();
        row("parked", &self.parked_at.map_or_else(unknown, |at| format!("{}, at {at}", ago(at))))?;
        row("attempts", &self.attempts.to_string())?;
        row("order now", &full.order_now_text)?;
        row("on replay", &full.on_replay)?;
        row("queue", &self.queue)?;
        row("routing key", &self.routing_key)?;
        row("message-id", self.message_id.as_deref().unwrap_or("-"))?;
        for (name, value) in &full.headers {
            row("header", &format!("{name}: {}", in_a_line(value)))?;
        }
        let body = full.body.as_deref().unwrap_or("not read, it is too large");
        let mut shown: String = body.chars().take(BODY).collect();
        if shown.len() < body.len() {
            shown.push('…');
        }
        row(&format!("{} bytes", self.body_bytes), &shown)
    }
}

/// The age of the message in the parking lot.
fn ago(since: Timestamp) -> String {
    let age = Duration::try_from(now().duration_since(since)).unwrap_or_default();
    format!("{} ago", about(age))
}

impl fmt::Display for ListEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queues, total) = (self.queues.join(", "), self.matching);
        // A stop is reported as an error.
        let more = if self.stopped { 0 } else { self.waiting.saturating_sub(self.read) };
        if self.read == 0 && more == 0 && !self.stopped {
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
        for ReasonCount { reason, messages } in self.reasons.iter().take(REASONS) {
            write!(f, "\n{messages:>8}  {}", one_line(reason))?;
        }
        let rest: u64 = self.reasons.iter().skip(REASONS).map(|it| it.messages).sum();
        if rest + self.other_reasons > 0 {
            write!(f, "\n{:>8}  for other reasons", rest + self.other_reasons)?;
        }
        if more > 0 {
            write!(
                f,
                "\n{more} more were there when the broker last counted: another client reads them now, or has taken them out"
            )?;
        }
        Ok(())
    }
}
