//! `overdue publish`: due notices from the command line, or many as JSON lines.

mod input;
pub(super) mod line;
pub(super) mod routes;

use std::{fs::File, io::IsTerminal};

use clap::Args;
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};

use super::{exit::Failure, output::print, setup};
use input::InputLine;
use line::{Line, Ready, Wish, now};
use routes::{LevelRoutes, Ways};

use crate::{
    broker::Publisher,
    config::Settings,
    text::printable_json,
    topology::{
        Topology,
        route::{Delay, Route},
    },
    wire::Message,
};

/// Messages on their way at once; the publisher's own window is smaller than two of these.
const IN_FLIGHT: usize = 1_024;
/// Findings shown of an input with more of them.
const SHOWN: usize = 20;

/// Of each line on standard input.
const LINES: &str = "Without an order, JSON lines from standard input:\n  \
     {\"order_id\": \"4711\"}, and optionally \"timeout\"; \"level\", \"category\" or \"after\"; \"due_at\".\n  \
     What a line says beats the flags. Lines that are not confirmed are printed again.";

/// Publish due notices
#[derive(Debug, Args)]
#[command(after_help = LINES)]
pub(super) struct Publish {
    /// The order; without it, JSON lines from standard input
    order_id: Option<String>,
    #[command(flatten)]
    wish: Wish,
    /// Publish the bare order id as text, not JSON
    #[arg(long)]
    text: bool,
}

/// A message, and its way.
struct Prepared {
    route: Route,
    message: Message,
}

impl Publish {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let address = setup::address(settings)?;
        if let Some(order_id) = &self.order_id {
            let prepared = self.single(&topology, order_id)?;
            let routes = routes::look(settings, &topology).await?;
            Ways::of(&prepared.route).check(&routes)?;
            let publisher = Publisher::connect(&address, "overdue publish").await?;
            publisher.publish(prepared.message).await?;
            return print("published 1, all confirmed");
        }
        let file = input::keep(std::io::stdin().lock()).map_err(unreadable)?;
        // All of the input is checked before anything is sent.
        let (total, ways) = self.check(&topology, &file)?;
        let routes = routes::look(settings, &topology).await?;
        ways.check(&routes)?;
        let publisher = Publisher::connect(&address, "overdue publish").await?;
        self.send_all(&Target { topology, routes, publisher }, &file, total).await
    }

    fn single(&self, topology: &Topology, order_id: &str) -> Result<Prepared, Failure> {
        self.prepare(topology, Line::of(order_id)).map_err(Failure::configuration)
    }

    /// How many messages the lines of the input make, and their ways.
    fn check(&self, topology: &Topology, file: &File) -> Result<(usize, Ways), Failure> {
        let (mut total, mut bad) = (0, 0);
        let mut ways = Ways::default();
        let mut findings = Vec::new();
        for line in input::lines(file).map_err(unreadable)? {
            let InputLine { number, text } = line.map_err(unreadable)?;
            match text.and_then(|text| self.parse(topology, &text)) {
                Ok(prepared) => {
                    total += 1;
                    ways.add(&prepared.route);
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
            return Ok((total, ways));
        }
        Err(Failure::configuration(format!(
            "{bad} lines of standard input cannot be published; nothing was sent\n{}",
            findings.join("\n")
        )))
    }

    fn parse(&self, topology: &Topology, text: &str) -> Result<Prepared, String> {
        self.prepare(topology, Line::read(text)?)
    }

    /// Prints each line that was not confirmed, so that it can be sent again.
    async fn send_all(&self, target: &Target, file: &File, total: usize) -> Result<(), Failure> {
        let bar = progress(total);
        let lines = input::lines(file).map_err(unreadable)?;
        let mut results = stream::iter(lines)
            .map(async |line| {
                let text = line?.text.map_err(std::io::Error::other)?;
                // Again, because what is left until `due_at` has become less.
                let prepared =
                    self.parse(&target.topology, &text).map_err(std::io::Error::other)?;
                Ok((text, target.send(prepared).await))
            })
            .buffer_unordered(IN_FLIGHT);
        let (mut failed, mut first) = (0_usize, None);
        while let Some(result) = results.next().await {
            let (line, result) = result.map_err(unreadable)?;
            bar.inc(1);
            if let Err(failure) = result {
                failed += 1;
                first.get_or_insert(failure);
                print(printable_json(&line))?;
            }
        }
        bar.finish_and_clear();
        let Some(mut failure) = first else {
            return print(format!("published {total}, all confirmed"));
        };
        failure.text = format!(
            "{failed} of {total} were not confirmed; their lines are on standard output, to be published again; \
             the first: {}",
            failure.text
        );
        Err(failure)
    }

    fn prepare(&self, topology: &Topology, line: Line) -> Result<Prepared, String> {
        let Ready { timeout, delay, notice } = self.wish.with(line, now())?;
        let route = route(topology, timeout.as_deref(), &delay)?;
        let message = if self.text { Message::bare_order_id } else { Message::notice };
        Ok(Prepared { message: message(route.clone(), &notice), route })
    }
}

/// Where to.
struct Target {
    topology: Topology,
    routes: LevelRoutes,
    publisher: Publisher,
}

impl Target {
    /// What waits until a time may by now take another way than the one that was looked at.
    async fn send(&self, prepared: Prepared) -> Result<(), Failure> {
        if let Some(missing) = Ways::of(&prepared.route).missing(&self.routes) {
            return Err(Failure::configuration(format!("{missing}: run `overdue apply`")));
        }
        Ok(self.publisher.publish(prepared.message).await?)
    }
}

pub(super) fn route(
    topology: &Topology,
    timeout: Option<&str>,
    delay: &Delay,
) -> Result<Route, String> {
    let timeout = one_timeout(topology, timeout)?;
    topology.route(timeout, delay).map_err(|error| error.to_string())
}

/// The timeout that is named, or the only one.
pub(super) fn one_timeout<'a>(
    topology: &'a Topology,
    named: Option<&'a str>,
) -> Result<&'a str, String> {
    match (named, topology.timeouts.as_slice()) {
        (Some(timeout), _) => Ok(timeout),
        (None, [only]) => Ok(&only.name),
        (None, _) => Err("the topology has several timeouts: name one with --timeout".to_owned()),
    }
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
