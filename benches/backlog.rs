//! A backlog: how millions of messages that wait are published, what they cost the broker, and what they do to everything else:
//! short delays beside them, a restart, a change of a level, and publishing all of them again from the database.
//!
//! Half of them wait in three levels, the other half in a ladder. With `--broker-container` the broker is restarted, so it has to
//! be one that nobody else uses.

mod support;

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream, stream::FuturesUnordered};
use overdue::{
    Delay, DueNotice, Message, OrderId, Publisher, Topology, TopologyChange,
    internals::broker::{Link, consume::Subscription},
};
use reqwest::Url;
use support::{
    Benchmark, Result,
    options::Options,
    report::Report,
    say,
    shop::{per_second, percentiles},
    stage::Stage,
    until,
};

const LEVELS: &str = "name = \"levels\"\ndelay.levels = [\"2s\", \"1h\", \"2h\", \"1d\"]\n\
    [[timeout]]\nname = \"unpaid\"\nafter = \"1h\"\neffect = \"close\"\n[retry]\nafter = [\"2s\"]\n";
const LADDER: &str = "name = \"ladder\"\n[delay]\nstrategy = \"ladder\"\n[delay.ladder]\nmax = \"2d\"\n\
    [[timeout]]\nname = \"unpaid\"\nafter = \"1h\"\neffect = \"close\"\n";
/// The level that changes, and what it becomes.
const CHANGED: [&str; 2] = ["\"1d\"", "\"20h\""];
/// The levels of the backlog, in turns.
const LONG: [&str; 3] = ["1h", "2h", "1d"];
/// Seconds of the ladder's delays, from an hour on.
const SPREAD_S: u64 = 82_800;
const ORDERS: &str = include_str!("sql/backlog.sql");
/// Messages on their way to the broker at once.
const AT_ONCE: usize = 2_000;
/// Short ones are published so often, for as long as this where nothing else is measured.
const SHORT_EVERY: Duration = Duration::from_millis(50);
const SPELL: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a backlog costs, and what it does to everything else
#[derive(Debug, Parser)]
struct Backlog {
    /// Messages that wait
    #[arg(long, default_value_t = 200_000)]
    messages: usize,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Backlog>()
}

impl Benchmark for Backlog {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        self.messages = 200;
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let count = self.messages.max(2);
        let what = format!(
            "{count} messages that wait, half of them in three levels and half in a ladder; one round. short: delays of 2 s, 20 per second"
        );
        let mut report = Report::new("backlog", what, stage);
        let (levels, file) = stage.topology(LEVELS).await?;
        let (ladder, _) = stage.topology(LADDER).await?;
        let run = Run { stage, options: &self.options, levels: &levels, ladder: &ladder };
        let spell = if self.options.quick { SHORT_EVERY } else { SPELL };

        say("short ones alone");
        let ((), late) = run.with_short_ones(slept(spell)).await?;
        report.add("short, alone", percentiles(["p50_ms", "p99_ms"], late));
        let before = run.broker_use().await?;

        say("publishing");
        let (took, late) = run.with_short_ones(run.publish(count)).await?;
        for (name, took) in ["levels", "ladder"].into_iter().zip(took) {
            report.add(name, [("per_s", per_second(count / 2, took))]);
        }
        report.add("short, while they are published", percentiles(["p50_ms", "p99_ms"], late));
        run.until_waiting(count).await?;

        say("all of them wait");
        let ((), late) = run.with_short_ones(slept(spell)).await?;
        report.add("short, while they wait", percentiles(["p50_ms", "p99_ms"], late));
        let after = run.broker_use().await?;
        let each = |before: f64, after: f64| {
            (after - before) / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
        };
        report.add("the broker", [("memory_bytes_each", each(before.0, after.0))]);
        if let Some((before, after)) = before.1.zip(after.1) {
            report.add("the broker", [("disk_bytes_each", each(before, after))]);
        }

        if let Some(container) = self.options.broker_container.first() {
            say("restart");
            let began = Instant::now();
            run.restart(container).await?;
            report.add("restart, until it publishes", [("took_s", began.elapsed().as_secs_f64())]);
            let ((), late) = run.with_short_ones(slept(spell)).await?;
            report.add("short, after the restart", percentiles(["p50_ms", "p99_ms"], late));
            run.until_waiting(count).await?;
        }

        say("a changed level");
        let changed = LEVELS.replace(CHANGED[0], CHANGED[1]);
        let changed = Topology::parse(&changed).map_err(|wrong| format!("{wrong:?}"))?;
        let began = Instant::now();
        let plan = TopologyChange::new(&stage.management, &changed).apply().await?;
        report.add("apply of a changed level", [("took_s", began.elapsed().as_secs_f64())]);
        if plan.lost() > 0 {
            report.wrong("apply", [format!("{} messages are lost", plan.lost())]);
        }
        run.until_waiting(count).await?;

        say("rebuild");
        stage.topology(LEVELS).await?;
        let began = Instant::now();
        run.purge().await?;
        report.add("purge", [("took_s", began.elapsed().as_secs_f64())]);
        let client = stage.store.client().await?;
        client.batch_execute("SET statement_timeout = 0").await?;
        client.execute(ORDERS, &[&i64::try_from(count)?]).await?;
        client.batch_execute("VACUUM (ANALYZE) orders").await?;
        let began = Instant::now();
        let ((), late) = run.with_short_ones(run.rebuild(file)).await?;
        let took = began.elapsed();
        report.add(
            "rebuild of all of them",
            [("per_s", per_second(count, took)), ("took_s", took.as_secs_f64())],
        );
        report.add("short, during the rebuild", percentiles(["p50_ms", "p99_ms"], late));
        run.until_waiting(count).await?;
        Ok(report)
    }
}

async fn slept(spell: Duration) -> Result<()> {
    tokio::time::sleep(spell).await;
    Ok(())
}

/// One broker with both topologies.
struct Run<'a> {
    stage: &'a Stage,
    options: &'a Options,
    levels: &'a Topology,
    ladder: &'a Topology,
}

impl Run<'_> {
    /// Half into levels, then half into the ladder; how long each took.
    async fn publish(&self, count: usize) -> Result<[Duration; 2]> {
        let publisher = Publisher::connect(&self.stage.address, "bench: publishing").await?;
        let mut took = [Duration::ZERO; 2];
        for (half, took) in took.iter_mut().enumerate() {
            let began = Instant::now();
            let sent = stream::iter((half..count).step_by(2)).map(async |index| {
                let message =
                    if half == 0 { self.to_a_level(index) } else { self.to_the_ladder(index) };
                Result::Ok(publisher.publish(message?).await?)
            });
            sent.buffer_unordered(AT_ONCE).try_for_each(async |()| Ok(())).await?;
            *took = began.elapsed();
        }
        Ok(took)
    }

    fn to_a_level(&self, index: usize) -> Result<Message> {
        let level = LONG[index / 2 % LONG.len()].to_owned();
        notice(self.levels, &Delay::Level(level), &format!("backlog-{index}"))
    }

    fn to_the_ladder(&self, index: usize) -> Result<Message> {
        // A number without a common divisor: neighbours have other delays.
        let seconds = 3_600 + u64::try_from(index)? * 7_919 % SPREAD_S;
        notice(
            self.ladder,
            &Delay::exactly(Duration::from_secs(seconds)),
            &format!("backlog-{index}"),
        )
    }

    /// Publishes short delays and receives them for as long as something else takes; how late each was.
    async fn with_short_ones<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(T, Vec<Duration>)> {
        let sender = Publisher::connect(&self.stage.address, "bench: short").await?;
        let link = Link::open(&self.stage.address, "bench: receiving").await?;
        let queue = self.levels.business_queue(&self.levels.timeouts[0]);
        let mut subscription = Subscription::open(&link, &queue, u16::try_from(AT_ONCE)?).await?;
        let (mut due, mut late, mut number) = (HashMap::new(), Vec::new(), 0_u64);
        let (mut publishing, mut every) =
            (FuturesUnordered::new(), tokio::time::interval(SHORT_EVERY));
        let mut work = std::pin::pin!(work);
        let mut done = None;
        while done.is_none() || !due.is_empty() {
            tokio::select! {
                worked = &mut work, if done.is_none() => done = Some(worked?),
                _ = every.tick(), if done.is_none() => {
                    number += 1;
                    let id = format!("short-{number}");
                    let route = self.levels.route("unpaid", &Delay::Level("2s".to_owned()))?;
                    due.insert(id.clone(), Instant::now() + route.holds);
                    let message = Message::notice(route, &DueNotice { order_id: OrderId::parse(&id)?, due_at: None });
                    publishing.push(sender.publish(message));
                }
                Some(published) = publishing.next() => published?,
                delivery = subscription.next() => {
                    let delivery = delivery?;
                    let id = delivery.notice()?.order_id;
                    let due = due.remove(id.as_str());
                    late.extend(due.map(|due| Instant::now().saturating_duration_since(due)));
                    subscription.ack_through(delivery.tag).await?;
                }
            }
        }
        drop(publishing);
        link.close().await;
        Ok((done.ok_or("nothing was done")?, late))
    }

    /// The broker has counted so many messages.
    async fn until_waiting(&self, count: usize) -> Result<()> {
        let count = u64::try_from(count)?;
        until("as many messages as were published", LOOK_EVERY, async || {
            let counted = self.stage.management.queue_stats().await;
            let waiting: u64 =
                counted.map_or(0, |all| all.values().filter_map(|queue| queue.messages).sum());
            Ok((waiting == count).then_some(()))
        })
        .await
    }

    /// Bytes of memory, as the broker counts them, and of its disk, where its container is known.
    async fn broker_use(&self) -> Result<(f64, Option<f64>)> {
        let nodes: serde_json::Value =
            self.call(reqwest::Method::GET, "/api/nodes").await?.json().await?;
        let memory = nodes[0]["mem_used"]
            .as_f64()
            .ok_or("the broker does not say how much memory it uses")?;
        let disk = self.options.broker_container.first().and_then(|container| {
            let used = docker(&["exec", container, "du", "-sk", "/var/lib/rabbitmq"]).ok()?;
            used.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1_024.0)
        });
        Ok((memory, disk))
    }

    async fn restart(&self, container: &str) -> Result<()> {
        docker(&["restart", "--time", "120", container])?;
        until("the broker serves again", LOOK_EVERY, async || {
            let Ok(publisher) = Publisher::connect(&self.stage.address, "bench: looking").await
            else {
                return Ok(None);
            };
            let message = notice(self.levels, &Delay::Level("2s".to_owned()), "looking")?;
            Ok(publisher.publish(message).await.ok())
        })
        .await
    }

    /// Empties every queue.
    async fn purge(&self) -> Result<()> {
        for queue in self.stage.management.queue_stats().await?.into_keys() {
            self.call(
                reqwest::Method::DELETE,
                &format!("/api/queues/{}/{queue}/contents", self.stage.name),
            )
            .await?;
        }
        Ok(())
    }

    async fn call(&self, how: reqwest::Method, path: &str) -> Result<reqwest::Response> {
        let mut url = Url::parse(&self.options.management_url)?;
        url.set_path(path);
        Ok(reqwest::Client::new().request(how, url).send().await?.error_for_status()?)
    }

    async fn rebuild(&self, topology: String) -> Result<()> {
        let program: PathBuf = self.options.programs().swap_remove(0).0;
        let environment = self.stage.environment.clone();
        let run = move || {
            let mut command = Command::new(program);
            command.args(["rebuild", "--yes", "--rate", "1000000", "--topology", &topology]);
            command.envs(environment).stdin(Stdio::null()).stdout(Stdio::null()).status()
        };
        let status = tokio::task::spawn_blocking(run).await??;
        status
            .success()
            .then_some(())
            .ok_or_else(|| format!("overdue rebuild ended with {status}").into())
    }
}

fn notice(topology: &Topology, delay: &Delay, id: &str) -> Result<Message> {
    let route = topology.route("unpaid", delay)?;
    Ok(Message::notice(route, &DueNotice { order_id: OrderId::parse(id)?, due_at: None }))
}

fn docker(arguments: &[&str]) -> Result<String> {
    let output = Command::new("docker").args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
