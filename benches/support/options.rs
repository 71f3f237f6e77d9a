//! The options that every benchmark has.

use std::path::PathBuf;

use clap::ValueEnum;

use super::rivals::Rival;

/// Form of the printed result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Text,
    Json,
}

/// Options of every benchmark. It works in its own virtual host and schema, which are removed at its end.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only check that everything runs, as small as possible, and measure no speed
    #[arg(long)]
    pub quick: bool,
    /// Rounds of each contestant; every round begins with another one
    #[arg(long)]
    rounds: Option<usize>,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Form,
    /// Programs whose `overdue run` is measured, e.g. of two versions [default: the one that was built with this]
    #[arg(long, value_name = "FILE")]
    pub program: Vec<PathBuf>,
    /// Container of the database, for its CPU time [default: the container that publishes its port]
    #[arg(long, value_name = "NAME")]
    pub database_container: Option<String>,
    /// Container of the broker, or of each of its nodes, for the CPU time [default: the container that publishes its port]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub broker_container: Vec<String>,
    /// An administrator of the broker; its virtual host is replaced
    #[arg(long, hide_default_value = true, default_value_t = environment("OVERDUE_BROKER__URL", "amqp://admin:admin@127.0.0.1:28672/%2f"))]
    pub broker_url: String,
    /// The management API
    #[arg(long, hide_default_value = true, default_value_t = environment("OVERDUE_BROKER__MANAGEMENT_URL", "http://admin:admin@127.0.0.1:28673"))]
    pub management_url: String,
    /// The database; its user may create schemas
    #[arg(long, hide_default_value = true, default_value_t = environment("OVERDUE_DATABASE__URL", "postgres://overdue:overdue@127.0.0.1:28432/overdue?sslmode=disable"))]
    pub database_url: String,
    /// The rival that this process must run instead of measuring
    #[arg(long, hide = true, value_enum)]
    pub rival: Option<Rival>,
    /// The queue or exchange of a rival
    #[arg(long, hide = true, default_value = "")]
    pub target: String,
    /// Messages of a rival
    #[arg(long, hide = true, default_value_t = 0)]
    pub count: usize,
    /// The schema of a rival
    #[arg(long, hide = true, default_value = "")]
    pub schema: String,
    /// The argument that cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// Number of counted rounds; one with `--quick`.
    pub fn rounds_or(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { usual }).max(1)
    }

    /// Each program whose worker is measured, with its label.
    pub fn programs(&self) -> Vec<(PathBuf, String)> {
        if self.program.is_empty() {
            return vec![(env!("CARGO_BIN_EXE_overdue").into(), String::new())];
        }
        let labelled = |file: &PathBuf| (file.clone(), format!(" ({})", file.display()));
        self.program.iter().map(labelled).collect()
    }
}

/// A variable of the environment, or its value at a service of `make services`.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads no settings file")]
fn environment(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}
