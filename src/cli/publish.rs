//! `overdue publish`: due notices from the command line, or many as JSON lines.

use std::io::{BufRead, IsTerminal};

use clap::Args;
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Deserialize;

use super::{exit::Failure, output::print, setup};
use crate::{
    broker::{PublishError, Publisher},
    config::Settings,
    order::OrderId,
    topology::{
        Topology,
        route::{Delay, Route},
    },
    wire::{DueNotice, Message},
};

/// Messages on their way at once; the publisher's own window is smaller than two of these.
const IN_FLIGHT: usize = 1_024;
/// Findings shown of an input with more of them.
const SHOWN: usize = 20;

/// Publish due notices
#[derive(Debug, Args)]
pub(super) struct Publish {
    /// The order; without it, JSON lines from standard input: {"order_id", "timeout"?, "level"? | "category"?, "due_at"?}
    order_id: Option<String>,
    /// The timeout [default: the topology's only one]
    #[arg(long)]
    timeout: Option<String>,
    /// The delay level, instead of the timeout's usual one
    #[arg(long, conflicts_with = "category")]
    level: Option<String>,
    /// The order's category, which has a level of its own
    #[arg(long)]
    category: Option<String>,
    /// When it is due, e.g. 2026-11-20T10:30:00Z; a hint, the database decides
    #[arg(long)]
    due_at: Option<Timestamp>,
    /// Publish the bare order id as text, not JSON
    #[arg(long)]
    text: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    order_id: String,
    timeout: Option<String>,
    level: Option<String>,
    category: Option<String>,
    due_at: Option<Timestamp>,
}

impl Publish {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let address = setup::address(settings)?;
        // All of the input is checked before anything is sent.
        let messages = match &self.order_id {
            Some(order_id) => vec![self.single(&topology, order_id)?],
            None => self.lines(&topology, std::io::stdin().lock())?,
        };
        let publisher = Publisher::connect(&address, "overdue publish").await?;
        send_all(&publisher, messages).await
    }

    fn single(&self, topology: &Topology, order_id: &str) -> Result<Message, Failure> {
        let line = Line {
            order_id: order_id.to_owned(),
            timeout: None,
            level: None,
            category: None,
            due_at: None,
        };
        self.message(topology, line).map_err(Failure::configuration)
    }

    fn lines(&self, topology: &Topology, input: impl BufRead) -> Result<Vec<Message>, Failure> {
        let mut messages = Vec::new();
        let mut findings = Vec::new();
        for (number, line) in input.lines().enumerate().map(|(index, line)| (index + 1, line)) {
            let line = line.map_err(|error| {
                Failure::configuration(format!(
                    "cannot read line {number} of standard input: {error}"
                ))
            })?;
            if line.trim().is_empty() {
                continue;
            }
            let parsed = serde_json::from_str(&line).map_err(|error| error.to_string());
            match parsed.and_then(|line| self.message(topology, line)) {
                Ok(message) => messages.push(message),
                Err(reason) => findings.push(format!("  line {number}: {reason}")),
            }
        }
        if findings.is_empty() {
            return Ok(messages);
        }
        let count = findings.len();
        findings.truncate(SHOWN);
        Err(Failure::configuration(format!(
            "{count} lines of standard input cannot be published; nothing was sent\n{}",
            findings.join("\n")
        )))
    }

    /// What a line says beats what the flags say.
    fn message(&self, topology: &Topology, line: Line) -> Result<Message, String> {
        let order_id = OrderId::parse(&line.order_id).map_err(|error| error.to_string())?;
        let delay = match (line.level, line.category) {
            (Some(_), Some(_)) => return Err("level and category exclude each other".to_owned()),
            (Some(level), None) => Delay::Level(level),
            (None, Some(category)) => Delay::Category(category),
            (None, None) => self.delay(),
        };
        let timeout = line.timeout.as_deref().or(self.timeout.as_deref());
        let route = route(topology, timeout, &delay)?;
        let notice = DueNotice { order_id, due_at: line.due_at.or(self.due_at) };
        let message = if self.text { Message::bare_order_id } else { Message::notice };
        Ok(message(route, &notice))
    }

    fn delay(&self) -> Delay {
        match (&self.level, &self.category) {
            (Some(level), _) => Delay::Level(level.clone()),
            (None, Some(category)) => Delay::Category(category.clone()),
            (None, None) => Delay::Usual,
        }
    }
}

fn route(topology: &Topology, timeout: Option<&str>, delay: &Delay) -> Result<Route, String> {
    let timeout = match (timeout, topology.timeouts.as_slice()) {
        (Some(timeout), _) => timeout,
        (None, [only]) => &only.name,
        (None, _) => {
            return Err("the topology has several timeouts: name one with --timeout".to_owned());
        }
    };
    topology.route(timeout, delay).map_err(|error| error.to_string())
}

async fn send_all(publisher: &Publisher, messages: Vec<Message>) -> Result<(), Failure> {
    let total = messages.len();
    let bar = progress(total);
    let mut results = stream::iter(messages)
        .map(|message| publisher.publish(message))
        .buffer_unordered(IN_FLIGHT);
    let mut failures: Vec<PublishError> = Vec::new();
    while let Some(result) = results.next().await {
        bar.inc(1);
        failures.extend(result.err());
    }
    bar.finish_and_clear();
    let failed = failures.len();
    match failures.into_iter().next() {
        None => print(format!("published {total}, all confirmed")),
        Some(first) if total == 1 => Err(first.into()),
        Some(first) => {
            let mut failure = Failure::from(first);
            failure.text =
                format!("{failed} of {total} were not confirmed; the first: {}", failure.text);
            Err(failure)
        }
    }
}

/// A bar where a person watches and there is something to watch.
fn progress(total: usize) -> ProgressBar {
    if total < 100 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} confirmed, {per_sec}, {eta} left");
    let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
    style.map_or_else(|_| ProgressBar::hidden(), |style| bar.with_style(style))
}
