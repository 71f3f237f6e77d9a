//! What is to be published: flags, and a line of JSON that beats them.

use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    order::OrderId,
    topology::{after::After, route::Delay},
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
    /// Any delay, e.g. 37m: exactly so with a ladder or the plugin; otherwise the longest level that fits, and the worker sends it on for the rest
    #[arg(long, value_name = "DELAY", allow_hyphen_values = true)]
    after: Option<After>,
    /// When it is due, e.g. 2026-11-20T10:30:00Z: with nothing else the notice waits until then; otherwise a hint, the database decides
    #[arg(long, value_name = "TIME")]
    due_at: Option<Timestamp>,
}

/// A line of standard input.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    order_id: String,
    timeout: Option<String>,
    level: Option<String>,
    category: Option<String>,
    after: Option<String>,
    due_at: Option<Timestamp>,
}

/// All that a notice needs but its route.
pub(super) struct Ready {
    pub(super) timeout: Option<String>,
    pub(super) delay: Delay,
    pub(super) notice: DueNotice,
}

impl Line {
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

/// The present, for what waits until a time.
#[expect(
    clippy::disallowed_methods,
    reason = "it says how long to wait; the database says whether it is due"
)]
pub(in crate::cli) fn now() -> Timestamp {
    Timestamp::now()
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

    pub(in crate::cli) const fn after(&self) -> Option<After> {
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
