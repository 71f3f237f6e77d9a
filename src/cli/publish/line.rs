//! What is to be published: flags, and a line of JSON that beats them.

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{
    order::OrderId,
    topology::{level::Interval, route::Delay},
    wire::DueNotice,
};

/// Which timeout, and how long.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct Wish {
    /// The timeout [default: the topology's only one]
    #[arg(long)]
    pub(in crate::cli) timeout: Option<String>,
    /// The delay level, instead of the timeout's usual one
    #[arg(long, conflicts_with_all = ["category", "after"])]
    level: Option<String>,
    /// The order's category, which has a level of its own
    #[arg(long, conflicts_with = "after")]
    category: Option<String>,
    /// Any delay, e.g. 37m; where only levels are there, a worker sends the notice on for the rest
    #[arg(long, value_name = "DELAY", allow_hyphen_values = true)]
    after: Option<Interval>,
    /// When it is due, e.g. 2026-11-20T10:30:00Z; beside a delay it is a hint, the database decides
    #[arg(long, value_name = "TIME", value_parser = time)]
    due_at: Option<Timestamp>,
}

/// A line of standard input.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    #[serde(deserialize_with = "text_or_number")]
    order_id: String,
    timeout: Option<String>,
    level: Option<String>,
    category: Option<String>,
    #[serde(default, deserialize_with = "after")]
    after: Option<String>,
    #[serde(default, deserialize_with = "due_at")]
    due_at: Option<Timestamp>,
}

/// A time as people write it.
pub(in crate::cli) fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("`{text}` is not a time like 2026-11-20T10:30:00Z"))
}

fn after<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(after) => Ok(Some(after)),
        other => Err(D::Error::custom(format!("`after`: `{other}` is not text like \"37m\""))),
    }
}

fn due_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => time(&text).map(Some),
        other => time(&other.to_string()).map(Some),
    }
    .map_err(|error| D::Error::custom(format!("`due_at`: {error}")))
}

/// An order id as a text, or as a whole number of 64 bits, as in a notice.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(id) => Ok(id),
        Value::Number(number) if number.is_i64() || number.is_u64() => Ok(number.to_string()),
        _ => Err(D::Error::custom("`order_id` has to be text or a whole number of 64 bits")),
    }
}

/// All that a notice needs but its route.
pub(super) struct Ready {
    pub(super) timeout: Option<String>,
    pub(super) delay: Delay,
    pub(super) notice: DueNotice,
}

impl Line {
    /// A line of JSON.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| {
            let (said, column) = (error.to_string(), error.column());
            // It is one line of many, whose number is known.
            let place = format!(" at line {} column {column}", error.line());
            let said = said.strip_suffix(&place).unwrap_or(&said);
            if error.is_data() {
                said.to_owned()
            } else {
                format!("not JSON: {said} at column {column}")
            }
        })
    }

    /// Nothing but the order.
    pub(super) fn of(order_id: &str) -> Self {
        Self { order_id: order_id.to_owned(), ..Self::default() }
    }

    /// The delay that it names, if it does.
    fn delay(&mut self) -> Result<Option<Delay>, String> {
        match (self.level.take(), self.category.take(), self.after.take()) {
            (None, None, None) => Ok(None),
            (Some(level), None, None) => Ok(Some(Delay::Level(level))),
            (None, Some(category), None) => Ok(Some(Delay::Category(category))),
            (None, None, Some(after)) => {
                Delay::after(&after).map(Some).map_err(|error| format!("`after`: {error}"))
            }
            _ => Err("level, category and after exclude each other".to_owned()),
        }
    }
}

impl Wish {
    /// What a line says beats what the flags say.
    pub(super) fn with(&self, mut line: Line, now: Timestamp) -> Result<Ready, String> {
        let order_id = OrderId::parse(&line.order_id).map_err(|error| error.to_string())?;
        let due_at = line.due_at.or(self.due_at);
        let delay = line.delay()?.unwrap_or_else(|| self.delay(due_at, now));
        let timeout = line.timeout.or_else(|| self.timeout.clone());
        Ok(Ready { timeout, delay, notice: DueNotice { order_id, due_at } })
    }

    pub(in crate::cli) const fn due_at(&self) -> Option<Timestamp> {
        self.due_at
    }

    pub(in crate::cli) const fn after(&self) -> Option<Interval> {
        self.after
    }

    /// By the flags; where they name no delay, until `due_at`.
    pub(in crate::cli) fn delay(&self, due_at: Option<Timestamp>, now: Timestamp) -> Delay {
        match (&self.level, &self.category, self.after, due_at) {
            (Some(level), _, _, _) => Delay::Level(level.clone()),
            (_, Some(category), _, _) => Delay::Category(category.clone()),
            (_, _, Some(after), _) => Delay::exactly(after.as_duration()),
            (_, _, _, Some(due_at)) => Delay::until(due_at, now),
            (None, None, None, None) => Delay::Usual,
        }
    }
}
