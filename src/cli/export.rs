//! `overdue export`: the topology as definitions, picture or ladder; only `--live` asks a broker.

use clap::{Args, ValueEnum};

use super::{exit::Failure, output::print, setup};
use crate::{
    config::Settings,
    export::{definitions, ladder},
    graph::{Graph, Live, mermaid},
    topology::Topology,
};

/// Print the topology as definitions, as a picture, or as a ladder
///
/// A broker imports the definitions; a publisher reads the ladder, which has the exchange for each delay.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// Format of the text
    #[arg(long, value_enum)]
    format: Format,
    /// mermaid: show the messages in the broker's queues, including retired queues
    #[arg(long)]
    live: bool,
    /// definitions: the virtual host [default: from broker.url]
    #[arg(long, value_name = "VHOST")]
    vhost: Option<String>,
    /// definitions: create the virtual host as well, for an empty broker; an existing one loses its description, tags and default
    /// queue type
    #[arg(long)]
    create_vhost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON the broker loads at boot or imports.
    Definitions,
    /// JSON for publishers in any language: the exchanges and units of the ladder.
    Ladder,
    /// A picture for Markdown pages of code hosts.
    Mermaid,
}

impl Export {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        self.check()?;
        let topology = setup::topology(settings)?;
        let text = match self.format {
            Format::Ladder => ladder::render(&topology).ok_or_else(|| no_ladder(&topology))?,
            Format::Definitions => {
                let vhost = virtual_host(self.vhost, settings)?;
                definitions::render(&topology, &vhost, self.create_vhost)
            }
            Format::Mermaid if self.live => {
                let management = setup::management(settings)?;
                let live = Live::of(&topology, &management.observe().await?);
                let live = live.counted_every(management.statistics_interval());
                mermaid::render(&Graph::of(&topology, Some(&live)))
            }
            Format::Mermaid => mermaid::render(&Graph::of(&topology, None)),
        };
        print(text)
    }

    /// Refuses a flag that belongs to another format, instead of ignoring it.
    fn check(&self) -> Result<(), Failure> {
        for (is_given, flag, format, name) in [
            (self.create_vhost, "--create-vhost", Format::Definitions, "definitions"),
            (self.vhost.is_some(), "--vhost", Format::Definitions, "definitions"),
            (self.live, "--live", Format::Mermaid, "mermaid"),
        ] {
            if is_given && self.format != format {
                return Err(Failure::usage(format!("{flag} is for --format {name} only")));
            }
        }
        Ok(())
    }
}

fn no_ladder(topology: &Topology) -> Failure {
    Failure::configuration(format!(
        "topology `{}` has the strategy `{}`, and no ladder: publishers name a level in the routing key, or set the \
         header x-delay (docs/wire.md)",
        topology.name,
        topology.strategy.as_str()
    ))
}

/// The virtual host that the text is for: the given one, or that in the settings.
pub(super) fn virtual_host(given: Option<String>, settings: &Settings) -> Result<String, Failure> {
    let vhost = match given {
        Some(vhost) => vhost,
        None => setup::address(settings)?.virtual_host().to_owned(),
    };
    printable("the virtual host", &vhost)?;
    Ok(vhost)
}

/// Refuses control characters: a line break in a name would end the comment or the command around it.
pub(super) fn printable(what: &str, text: &str) -> Result<(), Failure> {
    if text.chars().any(char::is_control) {
        return Err(Failure::usage(format!("{what} has a control character: {text:?}")));
    }
    Ok(())
}
