//! The command line: types, and one match. Data on standard output, everything else on standard error.

mod alert;
mod apply;
mod check;
mod completions;
mod confirm;
mod database;
mod demo;
mod doctor;
mod drill;
mod effect;
pub(crate) mod exit;
mod exit_plugin;
mod explain;
mod export;
mod global;
mod graph;
mod health;
mod init;
mod output;
mod pace;
mod parked;
mod permissions;
mod plan;
mod program;
mod progress;
mod publish;
mod rebuild;
mod run;
mod schema;
mod setup;
mod status;
mod unblock;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    config::{LogSettings, Settings},
    telemetry::{self, Writing},
};
use exit::Failure;
use global::Global;
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
    /// Ask the worker of this machine whether it is ready: exit code 0, or 1 and one line
    Health(health::Health),
    /// One screen: are orders closed on time, if not why, and what to type
    Status(status::Status),
    /// Look into the parking lot, put messages back, drop them
    #[command(subcommand)]
    Parked(parked::Parked),
    /// Publish a notice for every open order: the broker has lost them, or is a new one; shows them first, and asks
    Rebuild(rebuild::Rebuild),
    /// Messages about what is wrong, to webhooks and by mail
    #[command(subcommand)]
    Alert(alert::Alert),
    /// Publish due notices: one, or many as JSON lines from standard input
    Publish(publish::Publish),
    /// Show the way of a notice: exchange, routing key, queues, and when it is due; without a broker
    Explain(explain::Explain),
    /// Look at the SQL of effects
    #[command(subcommand)]
    Effect(effect::EffectCommand),
    /// Write topology.toml, overdue.toml and the SQL of an effect to start from
    Init(init::Init),
    /// Play orders, payments and deadlines against a real worker, and check every invariant
    Demo(demo::Demo),
    /// The same with real orders at many times their speed
    Drill(drill::Drill),
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
    /// Print the completions for a shell
    Completions(completions::Completions),
    /// Write a manual page for each command
    Man(completions::Man),
}

/// Writes the failure of a command to standard error.
pub(crate) fn report_failure(failure: &Failure) {
    output::report(format!("error: {failure}"));
}

impl Cli {
    const fn is_worker(&self) -> bool {
        matches!(self.command, Command::Run(_))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// What went wrong, with the exit code and the next step.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.global.warn_of_passwords();
        let settings = self.global.settings()?;
        let writing = if self.is_worker() { Writing::Beside } else { Writing::AtOnce };
        telemetry::install(&self.log(&settings), writing).map_err(Failure::configuration)?;
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
            Command::Health(health) => health.run(&settings).await,
            Command::Status(status) => status.run(&settings).await,
            Command::Parked(parked) => parked.run(&settings).await,
            Command::Rebuild(rebuild) => rebuild.run(&settings).await,
            Command::Alert(alert) => alert.run(&settings).await,
            Command::Publish(publish) => publish.run(&settings).await,
            Command::Explain(explain) => explain.run(&settings).await,
            Command::Effect(effect) => effect.run(&settings).await,
            Command::Init(init) => init.run(),
            Command::Demo(demo) => demo.run(&settings).await,
            Command::Drill(drill) => drill.run(&settings).await,
            Command::Database(database) => database.run(&settings).await,
            Command::Permissions(permissions) => permissions.run(&settings),
            Command::Export(export) => export.run(&settings),
            Command::ExitPlugin(exit) => exit.run(&settings).await,
            Command::Config => setup::show(&settings),
            Command::Completions(completions) => completions.run(Self::command()),
            Command::Man(man) => man.run(Self::command()),
        }
    }

    /// Commands that end with a report say less on the way, unless the settings ask for something else.
    fn log(&self, settings: &Settings) -> LogSettings {
        let mut log = settings.log.clone();
        let reports = matches!(self.command, Command::Demo(_) | Command::Drill(_));
        if reports && log.filter == Settings::default().log.filter {
            "warn".clone_into(&mut log.filter);
        }
        log
    }
}
