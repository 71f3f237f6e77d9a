//! The program: its command line, one match, the runtime and the exit code. Commands write data to standard output, and
//! everything else to standard error.

mod apply;
mod check;
mod database;
mod demo;
mod doctor;
mod effect;
mod exit_plugin;
mod explain;
mod export;
mod generate;
mod global_options;
mod health;
mod init;
mod output;
mod parked;
mod pause;
mod permissions;
mod plan;
mod progress;
mod publish;
mod rebuild;
mod remove;
mod run;
mod setup;
mod status;
mod ui;
mod verify;

use std::process::ExitCode;

use clap::{
    Args as _, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ErrorKind},
};

use crate::{
    config::{LogSettings, Settings},
    oncall::failure as exit,
    telemetry::{self, Writing},
};
use exit::Failure;
use global_options::Global;

/// Where `--help` says to begin.
const BEGIN: &str = "\
Begin with `overdue demo` to see it work, or with `overdue init --table TABLE` for a table of yours.
Later `overdue status` shows whether orders are closed on time, if not why, and what to type.";

/// Groups of commands in `--help`: a group begins with its first command, in the order of [`Command`].
const GROUPS: [(&str, &str); 4] =
    [("Set up", "init"), ("Run", "demo"), ("Look", "status"), ("Repair", "parked")];

/// Closes unpaid orders at their deadline, with RabbitMQ and PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "overdue", version, arg_required_else_help = true)]
#[command(help_template = help_template(), after_help = exit::help())]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Help texts are the doc comments of these types.
#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    #[command(subcommand)]
    Database(database::Database),
    #[command(subcommand)]
    Effect(effect::EffectCommand),
    Check(check::Check),
    Plan(plan::PlanArgs),
    Apply(apply::Apply),
    Remove(remove::Remove),
    Permissions(permissions::Permissions),
    ExitPlugin(exit_plugin::ExitPlugin),
    Export(export::Export),
    #[command(subcommand)]
    Generate(generate::Generate),
    Demo(demo::DemoArgs),
    Run(run::Run),
    Health(health::Health),
    Publish(publish::Publish),
    Status(status::Status),
    Explain(explain::Explain),
    Doctor(doctor::Doctor),
    Verify(verify::Verify),
    Ui(ui::UiArgs),
    Config(setup::Config),
    #[command(subcommand)]
    Parked(parked::Parked),
    Pause(pause::PauseArgs),
    Resume(pause::Resume),
    Pauses(pause::Pauses),
    Rebuild(rebuild::Rebuild),
}

/// The help of the program. Clap has no headings for commands, so that their list is written here, from the texts that each command
/// has for its own help.
fn help_template() -> String {
    let program = Global::augment_args(clap::Command::new("overdue").version("0"));
    let options = program.help_template("{all-args}").render_help().ansi().to_string();
    let options = options.trim_end();
    let commands = Command::augment_subcommands(clap::Command::new("overdue"));
    let styles = commands.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let line = |command: &clap::Command| {
        let name = command.get_name();
        let group = GROUPS.iter().find(|(_, first)| *first == name);
        let group = group.map(|(group, _)| format!("\n{header}{group}:{header:#}\n"));
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("{}  {literal}{name:<11}{literal:#}  {about}\n", group.unwrap_or_default())
    };
    let list: Vec<String> = commands.get_subcommands().map(line).collect();
    let list = list.concat();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{BEGIN}\n{list}\n{options}{{after-help}}"
    )
}

/// The command line, for docs/commands.md.
pub fn command() -> clap::Command {
    Cli::command()
}

impl Cli {
    const fn is_worker(&self) -> bool {
        matches!(self.command, Command::Run(_))
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.global.warn_of_passwords();
        let settings = self.global.settings()?;
        let writing = if self.is_worker() { Writing::Beside } else { Writing::AtOnce };
        telemetry::install(&self.log(&settings), writing).map_err(Failure::configuration)?;
        match self.command {
            Command::Init(init) => init.run(&settings).await,
            Command::Database(database) => database.run(&settings).await,
            Command::Effect(effect) => effect.run(&settings).await,
            Command::Check(check) => check.run(&settings),
            Command::Plan(plan) => plan.run(&settings).await,
            Command::Apply(apply) => apply.run(&settings).await,
            Command::Remove(remove) => remove.run(&settings).await,
            Command::Permissions(permissions) => permissions.run(&settings),
            Command::ExitPlugin(exit) => exit.run(&settings).await,
            Command::Export(export) => export.run(&settings).await,
            Command::Generate(generate) => generate.run(Self::command()),
            Command::Demo(demo) => demo.run(&settings).await,
            Command::Run(run) => run.run(&settings).await,
            Command::Health(health) => health.run(&settings).await,
            Command::Publish(publish) => publish.run(&settings).await,
            Command::Status(status) => status.run(&settings).await,
            Command::Explain(explain) => explain.run(&settings).await,
            Command::Doctor(doctor) => doctor.run(&settings).await,
            Command::Verify(verify) => verify.run(&settings).await,
            Command::Ui(ui) => ui.run(&settings).await,
            Command::Config(config) => config.run(&settings),
            Command::Parked(parked) => parked.run(&settings).await,
            Command::Pause(pause) => pause.run(&settings).await,
            Command::Resume(resume) => resume.run(&settings).await,
            Command::Pauses(pauses) => pauses.run(&settings).await,
            Command::Rebuild(rebuild) => rebuild.run(&settings).await,
        }
    }

    /// Commands that end with a report log only warnings, unless the settings have a filter of their own.
    fn log(&self, settings: &Settings) -> LogSettings {
        let mut log = settings.log.clone();
        let reports = matches!(self.command, Command::Demo(_));
        if reports && log.filter == Settings::default().log.filter {
            "warn".clone_into(&mut log.filter);
        }
        log
    }
}

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(error),
    };
    // Flushes the log, also after a panic.
    let _log = telemetry::LogEnd;
    let threads = threads(&cli);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(cli.run());
            // Do not wait for a file read or a name lookup that is still running.
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(Failure::failed(format!("cannot start the runtime: {error}"))),
    };
    // If standard error takes no log lines, writing the error would block, too.
    let is_heard = telemetry::flush_log();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if is_heard {
                output::report(format!("error: {failure}"));
            }
            failure.exit_code()
        }
    }
}

/// Threads of the runtime. A worker mostly waits, and waking another thread costs more than that thread's work: half of the cores
/// are left to the threads of the AMQP client. Other commands have at least two.
fn threads(cli: &Cli) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    if cli.is_worker() { (cores / 2).max(1) } else { cores.max(2) }
}

/// Help and version go to standard output with 0. A usage error exits with 64, because clap's 2 means findings here.
fn usage(mut error: clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::ArgumentConflict {
        // clap would build the usage line from the options around the conflict.
        error.remove(ContextKind::Usage);
    }
    // Standard output may be closed.
    let _printed = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}
