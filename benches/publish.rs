//! Publishing with confirms: the AMQP client by itself, this program's publisher, its command, and a script in Python, one
//! after the other in each round.
//!
//! What counts is from nothing, no connection and no process, to the last confirm. The messages wait in a level and are counted
//! and purged in between.

mod support;

use std::{
    fmt::Write as _,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use lapin::options::QueuePurgeOptions;
use overdue::{Delay, DueNotice, Message, OrderId, Publisher, Topology, internals::broker::Link};
use support::{
    Benchmark, Result,
    options::Options,
    report::Report,
    rivals::{RawClient, WINDOW},
    say,
    shop::per_second,
    stage::Stage,
};

const TOPOLOGY: &str =
    "name = \"bench\"\ndelay.levels = [\"1h\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1h\"\n";

/// What publishing with confirms costs
#[derive(Debug, Parser)]
struct Publish {
    /// Notices of a round
    #[arg(long, default_value_t = 20_000)]
    messages: usize,
    /// A Python that has pika; without it the script is left out
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Publish>()
}

/// Who publishes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Client,
    Publisher,
    Command,
    Script,
}

impl Way {
    const fn title(self) -> &'static str {
        match self {
            Self::Client => "lapin alone",
            Self::Publisher => "overdue::Publisher",
            Self::Command => "overdue publish",
            Self::Script => "pika script",
        }
    }
}

impl Benchmark for Publish {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        self.messages = 200;
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let (count, rounds) = (self.messages.max(1), self.options.rounds_or(5));
        let what = format!(
            "{count} notices, persistent, mandatory and confirmed, at most {WINDOW} unconfirmed; medians of {rounds} rounds"
        );
        let mut report = Report::new("publish", what, stage);
        let prepared = Prepared::make(stage, self.python.as_deref(), count).await?;
        let mut ways = vec![Way::Client, Way::Publisher, Way::Command];
        ways.extend(self.python.is_some().then_some(Way::Script));
        report.show(ways.iter().map(|way| way.title()));
        for number in 0..=rounds {
            for step in 0..ways.len() {
                let way = ways[(step + number) % ways.len()];
                say(&format!("round {number} of {rounds}: {}", way.title()));
                let began = Instant::now();
                prepared.publish(stage, way).await?;
                let took = began.elapsed();
                let arrived = prepared.purge(stage).await?;
                if arrived != count {
                    report.wrong(way.title(), [format!("{arrived} of {count} messages arrived")]);
                }
                // In the first, connections are opened and files made.
                if number > 0 {
                    report.add(way.title(), [("messages_per_s", per_second(count, took))]);
                }
            }
        }
        for way in &ways[1..] {
            report.compare("messages_per_s", way.title(), Way::Client.title());
        }
        Ok(report)
    }
}

/// The same orders for everyone.
struct Prepared {
    topology: Topology,
    messages: Vec<Message>,
    /// What is run for `overdue publish`, and for the script.
    command: Vec<String>,
    script: Vec<String>,
    /// What both read.
    lines: PathBuf,
}

impl Prepared {
    async fn make(stage: &Stage, python: Option<&Path>, count: usize) -> Result<Self> {
        let (topology, file) = stage.topology(TOPOLOGY).await?;
        let route = topology.route("unpaid", &Delay::Usual)?;
        let (mut messages, mut text) = (Vec::with_capacity(count), String::new());
        for number in 0..count {
            let order_id = OrderId::parse(&format!("order-{number}"))?;
            writeln!(text, "{{\"order_id\":\"{order_id}\"}}")?;
            let notice = DueNotice { order_id, due_at: None };
            messages.push(Message::notice(route.clone(), &notice));
        }
        let lines = stage.folder.path().join("lines");
        std::fs::write(&lines, text)?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/publish.py");
        let python = python.map(|python| python.display().to_string()).unwrap_or_default();
        let broker = &stage.environment[0].1;
        let script = [&python, script, broker, &route.exchange, &route.routing_key];
        let mut script = script.map(str::to_owned).to_vec();
        script.push(WINDOW.to_string());
        let command = [env!("CARGO_BIN_EXE_overdue"), "--topology", &file, "publish"];
        let command = command.map(str::to_owned).to_vec();
        Ok(Self { topology, messages, command, script, lines })
    }

    async fn publish(&self, stage: &Stage, way: Way) -> Result<()> {
        match way {
            Way::Client => {
                let client = RawClient::open(&stage.address).await?;
                client.publish(&self.messages).await?;
                client.close().await;
                Ok(())
            }
            Way::Publisher => {
                let publisher = Publisher::connect(&stage.address, "bench: publisher").await?;
                let publish = |message: &Message| publisher.publish(message.clone());
                let publishing = stream::iter(self.messages.iter().map(publish));
                Ok(publishing.buffer_unordered(WINDOW).try_for_each(async |()| Ok(())).await?)
            }
            Way::Command => self.run(stage, &self.command).await,
            Way::Script => self.run(stage, &self.script).await,
        }
    }

    /// Runs a program to its end.
    async fn run(&self, stage: &Stage, words: &[String]) -> Result<()> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(stage.environment.iter().cloned());
        command.stdin(File::open(&self.lines)?).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{} failed: {}", words[0], String::from_utf8_lossy(&output.stderr)).into())
    }

    /// How many there were.
    async fn purge(&self, stage: &Stage) -> Result<usize> {
        let link = Link::open(&stage.address, "bench: purging").await?;
        let channel = link.channel().await?;
        let mut purged = 0;
        for (_, queue) in self.topology.delay_queues() {
            let options = QueuePurgeOptions::default();
            purged += channel.queue_purge(queue.as_str().into(), options).await?;
        }
        link.close().await;
        Ok(usize::try_from(purged)?)
    }
}
