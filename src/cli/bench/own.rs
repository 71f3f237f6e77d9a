//! A schema, a folder and names of a benchmark's own, which all go at its end, also when it is interrupted.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::{
    bench::{
        contestant::{Contestant, Run},
        stage::{BenchError, Delays, Stage},
        usage::{Container, Meters},
    },
    broker::Management,
    cli::{exit::Failure, output::report_step, setup},
    config::{SecretUrl, Settings},
    store::Store,
};

/// For what the benchmark does itself: inserting, looking, and plain SQL.
const CONNECTIONS: usize = 8;

/// Which contestants are measured, and with what.
#[derive(Debug, clap::Args)]
pub(super) struct Who {
    /// Only these of the contestants, separated by commas
    #[arg(long, value_delimiter = ',', value_enum, value_name = "CONTESTANT")]
    only: Vec<Word>,
    #[command(flatten)]
    pub(super) measured: Measured,
}

/// Which programs are measured, and where CPU time is read.
#[derive(Debug, clap::Args)]
pub(super) struct Measured {
    /// Programs whose `overdue run` is measured, e.g. of two versions [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Container of the database, for its CPU time [default: the one that publishes its port]
    #[arg(long, value_name = "NAME")]
    database_container: Option<String>,
    /// Container of the broker, for its CPU time [default: the one that publishes its port]
    #[arg(long, value_name = "NAME")]
    broker_container: Option<String>,
}

/// A contestant, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Word {
    /// Our worker
    Overdue,
    /// Three of them, which share the work
    #[value(name = "overdue-x3")]
    OverdueX3,
    /// Our worker with `events.publish = false`
    #[value(name = "overdue-no-events")]
    OverdueNoEvents,
    /// Batches on two connections, without messages: the floor
    PlainSql,
    /// Looks in the database every 10 ms
    Poller,
    /// One message, one transaction, one ack
    Tutorial,
    /// A consumer that only acks
    Broker,
}

impl Who {
    /// Those of `all` that are asked for, in that order.
    pub(super) fn contestants(&self, all: &[Word]) -> Result<Vec<Contestant>, Failure> {
        let wanted = all.iter().filter(|word| self.only.is_empty() || self.only.contains(word));
        let mut contestants = Vec::new();
        for word in wanted {
            match word {
                Word::Overdue => contestants.extend(self.workers(Run::Usual)?),
                Word::OverdueX3 => contestants.extend(self.workers(Run::Several(3))?),
                Word::OverdueNoEvents => contestants.extend(self.workers(Run::WithoutEvents)?),
                Word::PlainSql => contestants.push(Contestant::PlainSql),
                Word::Poller => contestants.push(Contestant::Poller),
                Word::Tutorial => contestants.push(Contestant::Tutorial),
                Word::Broker => contestants.push(Contestant::Broker),
            }
        }
        if contestants.is_empty() {
            return Err(Failure::usage("none of the contestants in --only is measured here"));
        }
        Ok(contestants)
    }

    fn workers(&self, run: Run) -> Result<Vec<Contestant>, Failure> {
        let programs = self.measured.programs()?.into_iter();
        Ok(programs.map(|(program, label)| Contestant::Worker { program, label, run }).collect())
    }
}

impl Measured {
    /// Each program, and how it differs from the others where several are asked for.
    pub(super) fn programs(&self) -> Result<Vec<(PathBuf, Option<String>)>, Failure> {
        if self.program.is_empty() {
            return Ok(vec![(this_program()?, None)]);
        }
        let labelled = |program: &PathBuf| {
            let name = program.file_name().unwrap_or(program.as_os_str());
            (program.clone(), Some(name.to_string_lossy().into_owned()))
        };
        Ok(self.program.iter().map(labelled).collect())
    }

    async fn meters(&self, settings: &Settings) -> Result<Meters, Failure> {
        let database = (self.database_container.clone(), port(settings.database.url.expose()));
        let broker = (self.broker_container.clone(), port(settings.broker.url.expose()));
        let find = |(name, port): (Option<String>, Option<u16>)| match name {
            Some(name) => Container::named(&name),
            None => Container::publishing(port?),
        };
        // The engine is a program that is waited for.
        let found = tokio::task::spawn_blocking(move || Meters {
            database: find(database),
            broker: find(broker),
        });
        found.await.map_err(|error| Failure::failed(error.to_string()))
    }
}

/// The port of a URL with one host.
fn port(url: &str) -> Option<u16> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let (_, port) = authority.rsplit_once(':')?;
    port.parse().ok()
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))
}

/// Runs `measure` on a stage of its own, and takes the stage away.
pub(super) async fn on_own_stage<T>(
    settings: &Settings,
    measured: &Measured,
    delays: Delays,
    contestants: usize,
    measure: impl AsyncFnOnce(&Stage) -> Result<T, BenchError>,
) -> Result<T, Failure> {
    let stop = setup::stop_on_signals()?;
    let folder = TempDir::new().map_err(|error| {
        Failure::failed(format!("cannot make a folder for topologies: {error}"))
    })?;
    let stage = stage(settings, measured, delays, &folder).await?;
    report_step(&format!(
        "in {}, exchanges and queues called {}-*, and in schema {}",
        stage.management.address(),
        stage.name,
        schema()
    ));
    let ended = tokio::select! {
        ended = async {
            stage.store.init(&schema(), true).await?;
            Ok(measure(&stage).await?)
        } => ended,
        () = stop.requested() => Err(Failure::failed("interrupted")),
    };
    let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", schema());
    let dropped = stage.store.run_script("drop_schema", &drop).await;
    let removed = Stage::remove(&stage.management, &stage.name, contestants).await;
    let result = ended?;
    dropped?;
    removed?;
    Ok(result)
}

fn schema() -> String {
    format!("overdue_bench_{}", std::process::id())
}

async fn stage(
    settings: &Settings,
    measured: &Measured,
    delays: Delays,
    folder: &TempDir,
) -> Result<Stage, Failure> {
    let management: Management = setup::management(settings)?;
    Ok(Stage {
        address: setup::address(settings)?,
        management,
        store: Store::new(settings.database.url.expose(), &schema(), CONNECTIONS)?,
        name: format!("overdue-bench-{:08x}", rand::random::<u32>()),
        folder: folder.path().to_owned(),
        program: this_program()?,
        environment: environment(settings),
        meters: measured.meters(settings).await?,
        delays,
    })
}

/// What this process was given, by whatever layer, for another one. Passwords are in it, as they are in the environment of
/// most workers: only the same user can read it.
fn environment(settings: &Settings) -> Vec<(String, String)> {
    let management = settings.broker.management_url.as_ref().map(SecretUrl::expose);
    let all = [
        ("BROKER__URL", Some(settings.broker.url.expose().to_owned())),
        ("BROKER__MANAGEMENT_URL", management.map(str::to_owned)),
        ("DATABASE__URL", Some(settings.database.url.expose().to_owned())),
        ("DATABASE__SEARCH_PATH", Some(schema())),
        ("LOG__FILTER", Some("warn".to_owned())),
    ];
    let given = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.map(|(name, value)| (format!("OVERDUE_{name}"), value)).collect()
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Connect(error) => error.into(),
            BenchError::Management(error) => error.into(),
            BenchError::Change(error) => error.into(),
            BenchError::Publish(error) => error.into(),
            BenchError::Store(error) => error.into(),
            BenchError::Tutorial(error) => error.into(),
            BenchError::Route(error) => error.into(),
            BenchError::Consume(_)
            | BenchError::Look(_)
            | BenchError::Process(_)
            | BenchError::File(_)
            | BenchError::Topology(_)
            | BenchError::OrderId(_)
            | BenchError::Stuck { .. } => Self::failed(crate::text::error_chain(&error)),
        }
    }
}
