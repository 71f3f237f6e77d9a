//! `overdue bench publish`: what publishing with confirms costs.

use std::{io::Write, path::PathBuf};

use clap::Args;
use tempfile::TempDir;

use super::finished::Finished;
use crate::{
    bench::publish::{self, Program, PublishSetup, WINDOW, order_id, report::PublishReport},
    broker::{Management, TopologyChange},
    cli::{
        exit::Failure,
        output::{Output, report_step},
        setup,
    },
    config::Settings,
    topology::{Topology, route::Delay},
};

/// The rival, for a Python with pika.
const SCRIPT: &str = include_str!("../../bench/publish/script.py");

/// Publishes notices with the AMQP client alone, with this program's publisher, with `overdue publish`, and with a script in
/// Python where there is one with pika; all with as many unconfirmed messages.
///
/// In a topology of its own, `overdue-bench-…`, in the virtual host of the settings, which is removed at the end.
#[derive(Debug, Args)]
pub(in crate::cli) struct Publish {
    /// Notices of a round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    messages: u32,
    /// Rounds of each way; one more is not counted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// A Python that has pika; without it the script is left out
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

impl Publish {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        finished.print(self.output)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<PublishReport>, Failure> {
        let stop = setup::stop_on_signals()?;
        let management = setup::management(settings)?;
        let name = format!("overdue-bench-{:08x}", rand::random::<u32>());
        report_step(&format!("in {}, exchanges and queues called {name}.*", management.address()));
        let measured = tokio::select! {
            measured = self.measure(settings, &management, &name) => measured,
            () = stop.requested() => Err(Failure::failed("interrupted")),
        };
        let removed = management.remove_topology(&name).await;
        let report = measured?;
        removed?;
        Ok(Finished::of(report, true))
    }

    async fn measure(
        &self,
        settings: &Settings,
        management: &Management,
        name: &str,
    ) -> Result<PublishReport, Failure> {
        let text = format!(
            "name = \"{name}\"\ndelay.levels = [\"1h\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1h\"\n"
        );
        let topology =
            Topology::parse(&text).map_err(|findings| Failure::failed(format!("{findings:?}")))?;
        TopologyChange::new(management, &topology).apply().await?;
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let messages = of(self.messages);
        let folder = tempfile::tempdir().map_err(not_written)?;
        let setup = self.setup(settings, &folder, &text, topology).map_err(not_written)?;
        let measured = publish::run(&setup, messages, of(self.rounds), report_step).await;
        measured.map_err(|error| Failure::failed(crate::text::error_chain(&error)))
    }

    fn setup(
        &self,
        settings: &Settings,
        folder: &TempDir,
        text: &str,
        topology: Topology,
    ) -> std::io::Result<PublishSetup> {
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("topology.toml"), text)?;
        std::fs::write(file("script.py"), SCRIPT)?;
        let mut lines = std::io::BufWriter::new(std::fs::File::create(file("lines"))?);
        for number in 0..self.messages {
            let id = order_id(usize::try_from(number).unwrap_or(usize::MAX));
            writeln!(lines, "{{\"order_id\":\"{id}\"}}")?;
        }
        lines.flush()?;
        let broker = settings.broker.url.expose().to_owned();
        let shown = |name: &str| file(name).display().to_string();
        let command = Program {
            path: std::env::current_exe()?,
            arguments: ["--topology", &shown("topology.toml"), "publish"].map(str::to_owned).into(),
            environment: vec![("OVERDUE_BROKER__URL".to_owned(), broker.clone())],
            input: file("lines"),
        };
        let entry = topology.entry_exchange();
        let route = topology.route("unpaid", &Delay::Usual);
        let key = route.map(|route| route.routing_key).unwrap_or_default();
        let script = self.python.as_ref().map(|python| Program {
            path: python.clone(),
            arguments: vec![shown("script.py"), broker, entry, key, WINDOW.to_string()],
            environment: Vec::new(),
            input: file("lines"),
        });
        let address =
            setup::address(settings).map_err(|failure| std::io::Error::other(failure.text))?;
        Ok(PublishSetup { address, topology, command, script })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_written(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot prepare the rivals: {error}"))
}
