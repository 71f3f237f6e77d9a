//! `overdue publish`: due notices from the command line, or many as JSON lines.

mod input;
mod routes;

use std::{collections::BTreeSet, fs::File, io::IsTerminal};

use clap::Args;
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Deserialize;

use super::{exit::Failure, output::print, setup};
use input::InputLine;

use crate::{
    broker::Publisher,
    config::Settings,
    order::OrderId,
    text::printable_json,
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
    /// The order; without it, JSON lines from standard input (those that are not confirmed are printed again): {"order_id", "timeout"?, "level"? | "category"?, "due_at"?}
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
        if let Some(order_id) = &self.order_id {
            let message = self.single(&topology, order_id)?;
            routes::check(settings, &topology, &BTreeSet::from([message.routing_key.clone()]))
                .await?;
            Publisher::connect(&address, "overdue publish").await?.publish(message).await?;
            return print("published 1, all confirmed");
        }
        let file = input::keep(std::io::stdin().lock()).map_err(unreadable)?;
        // All of the input is checked before anything is sent.
        let (total, keys) = self.check(&topology, &file)?;
        routes::check(settings, &topology, &keys).await?;
        let publisher = Publisher::connect(&address, "overdue publish").await?;
        self.send_all(&topology, &publisher, &file, total).await
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

    /// How many messages the lines of the input make, and their routing keys.
    fn check(
        &self,
        topology: &Topology,
        file: &File,
    ) -> Result<(usize, BTreeSet<String>), Failure> {
        let (mut total, mut bad) = (0, 0);
        let mut keys = BTreeSet::new();
        let mut findings = Vec::new();
        for line in input::lines(file).map_err(unreadable)? {
            let InputLine { number, text } = line.map_err(unreadable)?;
            match text.and_then(|text| self.parse(topology, &text)) {
                Ok(message) => {
                    total += 1;
                    keys.insert(message.routing_key);
                }
                Err(reason) => {
                    bad += 1;
                    if findings.len() < SHOWN {
                        findings.push(format!("  line {number}: {reason}"));
                    }
                }
            }
        }
        if bad == 0 {
            return Ok((total, keys));
        }
        Err(Failure::configuration(format!(
            "{bad} lines of standard input cannot be published; nothing was sent\n{}",
            findings.join("\n")
        )))
    }

    fn parse(&self, topology: &Topology, text: &str) -> Result<Message, String> {
        let line = serde_json::from_str(text).map_err(|error| error.to_string())?;
        self.message(topology, line)
    }

    /// Prints each line that was not confirmed, so that it can be sent again.
    async fn send_all(
        &self,
        topology: &Topology,
        publisher: &Publisher,
        file: &File,
        total: usize,
    ) -> Result<(), Failure> {
        let bar = progress(total);
        let lines = input::lines(file).map_err(unreadable)?;
        let mut results = stream::iter(lines)
            .map(async |line| {
                let text = line?.text.map_err(std::io::Error::other)?;
                let message = self.parse(topology, &text).map_err(std::io::Error::other)?;
                Ok((text, publisher.publish(message).await))
            })
            .buffer_unordered(IN_FLIGHT);
        let (mut failed, mut first) = (0_usize, None);
        while let Some(result) = results.next().await {
            let (line, result) = result.map_err(unreadable)?;
            bar.inc(1);
            if let Err(error) = result {
                failed += 1;
                first.get_or_insert(error);
                print(printable_json(&line))?;
            }
        }
        bar.finish_and_clear();
        let Some(first) = first else { return print(format!("published {total}, all confirmed")) };
        let mut failure = Failure::from(first);
        failure.text = format!(
            "{failed} of {total} were not confirmed; their lines are on standard output, to be published again; \
             the first: {}",
            failure.text
        );
        Err(failure)
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

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: std::io::Error) -> Failure {
    Failure::configuration(format!("cannot read standard input: {error}"))
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
