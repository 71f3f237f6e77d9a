//! The command line: types, and one match. Data on standard output, everything else on standard error.

mod apply;
mod bench;
mod check;
mod database;
mod demo;
mod doctor;
mod drill;
pub(crate) mod exit;
mod exit_plugin;
mod explain;
mod export;
mod graph;
mod output;
mod permissions;
mod plan;
mod program;
mod publish;
mod run;
mod schema;
mod setup;
mod unblock;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Flags, LogSettings, SecretUrl, Settings};
use exit::Failure;
pub use program::main;

/// Closes what was not done in time: delay topologies on plain RabbitMQ, overdue orders in PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "overdue", version, arg_required_else_help = true, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// They are global, so every command has them; under a heading of their own they do not stand between the options
/// of a command that asks nobody.
const CONNECTIONS: &str = "Connections (for commands that ask broker or database)";

#[derive(Clone, Debug, Args)]
struct Global {
    /// The topology file [default: topology.toml]
    #[arg(long, global = true, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// A settings file other than overdue.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// AMQP URI of the broker, also OVERDUE_BROKER__URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTIONS)]
    broker_url: Option<SecretUrl>,
    /// A file with the AMQP URI, so that no password stands in a command line
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTIONS, conflicts_with = "broker_url")]
    broker_url_file: Option<PathBuf>,
    /// URL of the management API, also OVERDUE_BROKER__MANAGEMENT_URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTIONS)]
    management_url: Option<SecretUrl>,
    /// A file with the URL of the management API
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTIONS, conflicts_with = "management_url")]
    management_url_file: Option<PathBuf>,
    /// URL of the database, also OVERDUE_DATABASE__URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTIONS)]
    database_url: Option<SecretUrl>,
    /// A file with the URL of the database
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTIONS, conflicts_with = "database_url")]
    database_url_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the topology file, without a broker
    Check(check::Check),
    /// Print the JSON Schema of the topology file, for editors, or of a plan
    Schema(schema::Schema),
    /// Draw the topology, with --live what waits in it
    Graph(graph::Graph),
    /// Show what would change on the broker, and what waits there
    Plan(plan::PlanArgs),
    /// Bring the topology to the broker; again and again without effect
    Apply(apply::Apply),
    /// Look for differences from the topology, policies that override it, and dead letters that are stuck
    Verify(verify::Verify),
    /// Free the dead letters of a queue, once what held them is fixed
    Unblock(unblock::Unblock),
    /// Look at broker, database and machine, and say what to fix
    Doctor(doctor::Doctor),
    /// Declare the topology, then close overdue orders until SIGTERM
    Run(run::Run),
    /// Publish due notices: one, or many as JSON lines from standard input
    Publish(publish::Publish),
    /// Show the way of a notice: exchange, routing key, queues, and when it is due; without a broker
    Explain(explain::Explain),
    /// Play orders, payments and deadlines against a real worker, and check every invariant
    Demo(demo::Demo),
    /// The same with real orders at many times their speed
    Drill(drill::Drill),
    /// Measure
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Prepare the database
    #[command(subcommand)]
    Database(database::Database),
    /// Print the least rights of publisher, worker and topology administrator
    Permissions(permissions::Permissions),
    /// Print the topology for other tools: definitions, rabbitmqadmin, Terraform, Kubernetes
    Export(export::Export),
    /// Guide the way from an exchange of the delayed message plugin to one that needs no plugin
    ExitPlugin(exit_plugin::ExitPlugin),
    /// Show the settings in effect, as TOML, without passwords
    Config,
}

/// Writes the failure of a command to standard error.
pub(crate) fn report_failure(failure: &Failure) {
    output::report(format!("error: {failure}"));
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// What went wrong, with the exit code and the next step.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let settings = self.settings()?;
        crate::telemetry::install(&self.log(&settings)).map_err(Failure::configuration)?;
        match self.command {
            Command::Check(check) => check.run(&settings),
            Command::Schema(schema) => schema.run(),
            Command::Graph(graph) => graph.run(&settings).await,
            Command::Plan(plan) => plan.run(&settings).await,
            Command::Apply(apply) => apply.run(&settings).await,
            Command::Verify(verify) => verify.run(&settings).await,
            Command::Unblock(unblock) => unblock.run(&settings).await,
            Command::Doctor(doctor) => doctor.run(&settings).await,
            Command::Run(run) => run.run(&settings).await,
            Command::Publish(publish) => publish.run(&settings).await,
            Command::Explain(explain) => explain.run(&settings).await,
            Command::Demo(demo) => demo.run(&settings).await,
            Command::Drill(drill) => drill.run(&settings).await,
            Command::Bench(bench) => bench.run(&settings).await,
            Command::Database(database) => database.run(&settings).await,
            Command::Permissions(permissions) => permissions.run(&settings),
            Command::Export(export) => export.run(&settings),
            Command::ExitPlugin(exit) => exit.run(&settings).await,
            Command::Config => setup::show(&settings),
        }
    }

    /// Commands that end with a report say less on the way, unless the settings ask for something else.
    fn log(&self, settings: &Settings) -> LogSettings {
        let mut log = settings.log.clone();
        let reports =
            matches!(self.command, Command::Demo(_) | Command::Drill(_) | Command::Bench(_));
        if reports && log.filter == Settings::default().log.filter {
            "warn".clone_into(&mut log.filter);
        }
        log
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let global = self.global.clone();
        let flags = Flags {
            topology: global.topology,
            broker_url: url("--broker-url", global.broker_url, global.broker_url_file)?,
            management_url: url(
                "--management-url",
                global.management_url,
                global.management_url_file,
            )?,
            database_url: url("--database-url", global.database_url, global.database_url_file)?,
        };
        Ok(Settings::load(global.config.as_deref(), &flags)?)
    }
}

/// A URL from its flag or from the file that is named instead.
fn url(
    flag: &str,
    given: Option<SecretUrl>,
    file: Option<PathBuf>,
) -> Result<Option<SecretUrl>, Failure> {
    let Some(path) = file else {
        if given.as_ref().is_some_and(SecretUrl::has_password) {
            output::report(format!(
                "warning: the password in {flag} can be read by everybody who lists processes; use {flag}-file, or the \
                 environment"
            ));
        }
        return Ok(given);
    };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::configuration(format!("cannot read {flag}-file {}: {error}", path.display()))
    })?;
    let text = text.trim();
    if text.is_empty() || text.lines().count() > 1 {
        let path = path.display();
        return Err(Failure::configuration(format!(
            "{flag}-file {path} has to be one line, a URL"
        )));
    }
    Ok(Some(text.to_owned().into()))
}
