//! `overdue publish`: due notices from the command line, or many as JSON lines.

pub(super) mod line;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write},
};

use clap::Args;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::Value;

use super::{
    exit::Failure,
    output::{JsonList, Output, print},
    progress::Progress,
    setup::{self, now},
};
use crate::{
    administration::{Management, ManagementError, apply::has_exchange_types},
    config::Settings,
    messaging::{Link, Publisher, passive},
    text::printable_json,
    topology::{Topology, level_routes::LevelRoutes, route::Route},
    wire::Message,
};
use line::{Line, Ready, Wish};

/// Messages on their way at once; the publisher's own window is smaller than two of these.
const IN_FLIGHT: usize = 1_024;
/// Findings shown of an input with more of them.
const SHOWN: usize = 20;
/// A due notice has a hundred bytes; a longer line is not one.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Of each line on standard input.
const LINES: &str = "Without an order, JSON lines from standard input:\n  \
     {\"order_id\": \"4711\"}, and optionally \"timeout\"; \"level\", \"category\" or \"after\"; \"due_at\".\n  \
     What a line says beats the flags. Lines that are not confirmed are printed again.";

/// Publish due notices: one, or many as JSON lines from standard input
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
    #[command(flatten)]
    output: Output,
}

/// How many were confirmed; the lines of the others stand before it.
#[derive(Serialize)]
struct Published {
    total: usize,
    confirmed: usize,
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
            let routes = level_routes(settings, &topology).await?;
            Ways::of(&prepared.route).check(&routes)?;
            let publisher = Publisher::connect(&address, "overdue publish").await?;
            publisher.publish(prepared.message).await?;
            let list = self.list()?;
            return confirmed(list, 1);
        }
        let file = keep(io::stdin().lock()).map_err(unreadable)?;
        // All of the input is checked before anything is sent.
        let (total, ways) = self.check(&topology, &file)?;
        let routes = level_routes(settings, &topology).await?;
        ways.check(&routes)?;
        let publisher = Publisher::connect(&address, "overdue publish").await?;
        self.send_all(&Destination { topology, routes, publisher }, &file, total).await
    }

    fn single(&self, topology: &Topology, order_id: &str) -> Result<Prepared, Failure> {
        self.prepare(topology, Line::of(order_id)).map_err(Failure::configuration)
    }

    /// How many messages the lines of the input make, and their ways.
    fn check(&self, topology: &Topology, file: &File) -> Result<(usize, Ways), Failure> {
        let (mut total, mut bad) = (0, 0);
        let mut ways = Ways::default();
        let mut findings = Vec::new();
        for line in lines(file).map_err(unreadable)? {
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

    /// Of the lines that are not confirmed; people get them as they are.
    fn list(&self) -> Result<Option<JsonList>, Failure> {
        self.output.is_json().then(|| JsonList::begin("not_confirmed")).transpose()
    }

    /// Prints each line that was not confirmed, so that it can be sent again.
    async fn send_all(
        &self,
        target: &Destination,
        file: &File,
        total: usize,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new("confirmed", u64::try_from(total).ok());
        let mut list = self.list()?;
        let lines = lines(file).map_err(unreadable)?;
        let mut results = stream::iter(lines)
            .map(async |line| {
                let text = line?.text.map_err(io::Error::other)?;
                // Again, because what is left until `due_at` has become less.
                let prepared = self.parse(&target.topology, &text).map_err(io::Error::other)?;
                Ok((text, target.send(prepared).await))
            })
            .buffer_unordered(IN_FLIGHT);
        let (mut failed, mut first) = (0_usize, None);
        while let Some(result) = results.next().await {
            let (line, result) = result.map_err(unreadable)?;
            let Err(failure) = result else {
                progress.add(1);
                continue;
            };
            failed += 1;
            first.get_or_insert(failure);
            match &mut list {
                Some(list) => {
                    list.entry(&serde_json::from_str::<Value>(&line).unwrap_or_default())?;
                }
                None => print(printable_json(&line))?,
            }
        }
        drop(progress);
        let Some(mut failure) = first else { return confirmed(list, total) };
        if let Some(list) = list {
            list.end(&Published { total, confirmed: total - failed })?;
        }
        failure.text = format!(
            "{failed} of {total} were not confirmed; their lines are on standard output, to be published again; \
             the first: {}",
            failure.text
        );
        Err(failure)
    }

    fn prepare(&self, topology: &Topology, line: Line) -> Result<Prepared, String> {
        let Ready { timeout, delay, notice } = self.wish.with(line, now())?;
        let timeout = one_timeout(topology, timeout.as_deref())?;
        let route = topology.route(timeout, &delay).map_err(|error| error.to_string())?;
        let message = if self.text { Message::bare_order_id } else { Message::notice };
        Ok(Prepared { message: message(route.clone(), &notice), route })
    }
}

/// Where to.
struct Destination {
    topology: Topology,
    routes: LevelRoutes,
    publisher: Publisher,
}

impl Destination {
    /// What waits until a time may by now take another way than the one that was looked at.
    async fn send(&self, prepared: Prepared) -> Result<(), Failure> {
        if let Some(missing) = Ways::of(&prepared.route).missing(&self.routes) {
            return Err(Failure::configuration(format!("{missing}: run `overdue apply`")));
        }
        Ok(self.publisher.publish(prepared.message).await?)
    }
}

/// The answer if all of them are confirmed.
fn confirmed(list: Option<JsonList>, total: usize) -> Result<(), Failure> {
    match list {
        Some(list) => list.end(&Published { total, confirmed: total }),
        None => print(format!("published {total}, all confirmed")),
    }
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
fn unreadable(error: io::Error) -> Failure {
    Failure::configuration(format!("cannot read standard input: {error}"))
}

/// One line that is not empty.
struct InputLine {
    /// From 1.
    number: usize,
    /// Without the line break; or why it cannot be used.
    text: Result<String, String>,
}

/// Copies the input to a file without a name, which is gone with the process.
fn keep(mut input: impl Read) -> io::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    io::copy(&mut input, &mut file)?;
    file.flush()?;
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The lines of a file, from its beginning.
fn lines(file: &File) -> io::Result<impl Iterator<Item = io::Result<InputLine>>> {
    let mut reader = BufReader::new(file);
    reader.rewind()?;
    let mut number = 0;
    Ok(std::iter::from_fn(move || {
        loop {
            number += 1;
            match line(&mut reader) {
                Ok(None) => return None,
                Ok(Some(Ok(text))) if text.trim().is_empty() => {}
                Ok(Some(text)) => return Some(Ok(InputLine { number, text })),
                Err(error) => return Some(Err(error)),
            }
        }
    }))
}

/// The next line; none at the end.
fn line(reader: &mut impl BufRead) -> io::Result<Option<Result<String, String>>> {
    let mut bytes = Vec::new();
    if reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 == MAX_LINE_BYTES {
        reader.skip_until(b'\n')?;
        return Ok(Some(Err(format!("it has more than {} KiB", MAX_LINE_BYTES / 1024))));
    }
    Ok(Some(String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())))
}

/// Which levels the broker routes to, and which timeouts have a queue: a message for what it does not have is confirmed and
/// parked by an alternate exchange, and AMQP does not say so.
///
/// Looks at the bindings, and where the user may not read them asks for the queues. What can be found out neither way
/// is published: the broker answers for it.
pub(super) async fn level_routes(
    settings: &Settings,
    topology: &Topology,
) -> Result<LevelRoutes, Failure> {
    let management = setup::management(settings)?;
    if let Ok(routes) = management.level_routes(topology).await {
        if routes.absent().next().is_some() {
            can_be_there(&management, topology).await?;
        }
        return Ok(routes);
    }
    let link = Link::open(management.address(), "overdue publish: routes").await?;
    let routes = passive::probed_level_routes(&link, topology).await;
    link.close().await;
    // To whom the broker does not say it: the alternate exchange parks what no level takes.
    Ok(routes.unwrap_or_default())
}

/// An exchange that is not there may be one that this broker cannot have: `overdue apply` would not help.
async fn can_be_there(management: &Management, topology: &Topology) -> Result<(), Failure> {
    match has_exchange_types(management, topology).await {
        Err(error @ ManagementError::NoExchangeType { .. }) => Err(error.into()),
        // Who may not ask hears it from the broker.
        _ => Ok(()),
    }
}

/// The ways of many messages, in the memory of a few: as many as there are queues, routing keys to one queue, and timeouts.
#[derive(Debug, Default)]
struct Ways {
    keys: BTreeSet<String>,
    queues: BTreeSet<String>,
    timeouts: BTreeSet<String>,
}

impl Ways {
    fn of(route: &Route) -> Self {
        let mut ways = Self::default();
        ways.add(route);
        ways
    }

    fn add(&mut self, route: &Route) {
        if route.queues.len() <= 1 && !self.keys.contains(&route.routing_key) {
            self.keys.insert(route.routing_key.clone());
        }
        for queue in &route.queues {
            if !self.queues.contains(queue) {
                self.queues.insert(queue.clone());
            }
        }
        let timeout = route.routing_key.rsplit('.').next().unwrap_or_default();
        if !self.timeouts.contains(timeout) {
            self.timeouts.insert(timeout.to_owned());
        }
    }

    /// What the broker lacks, so that a message would be parked.
    fn missing(&self, routes: &LevelRoutes) -> Option<String> {
        if let Some(queue) = self.queues.iter().find(|queue| !routes.leads_to(queue)) {
            return Some(format!(
                "the broker routes nothing to `{queue}`, a message would be parked"
            ));
        }
        let key = self.keys.iter().find(|key| !routes.leads_by(key))?;
        let level = key.split('.').next().unwrap_or(key);
        Some(format!(
            "the broker has no level `{level}` that takes `{key}`, a message would be parked"
        ))
    }

    /// Whether all of them would wait on the broker, and come to a worker then.
    fn check(&self, routes: &LevelRoutes) -> Result<(), Failure> {
        if let Some(missing) = self.missing(routes) {
            return Err(Failure::configuration(format!(
                "{missing}; nothing was sent: run `overdue apply`, or publish with another delay"
            )));
        }
        let queueless = self.timeouts.iter().find(|timeout| !routes.has_queue(timeout));
        queueless.map_or(Ok(()), |timeout| {
            Err(Failure::configuration(format!(
                "on the broker no queue of `{timeout}` gets what is due, a message would be parked; nothing was sent: \
                 run `overdue apply`"
            )))
        })
    }
}
