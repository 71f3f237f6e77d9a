//! `overdue export`: the topology for other tools, and as a picture; only `--live` asks a broker.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};

use super::{exit::Failure, output::print, setup};
use crate::{
    config::Settings,
    export::{definitions, kubernetes, ladder, rabbitmqadmin, terraform},
    graph::{Graph, Live, mermaid, svg},
    topology::Topology,
};

/// Print the topology for other tools, or draw it, with --live what waits in it
#[derive(Debug, Args)]
pub(super) struct Export {
    /// For which tool
    #[arg(long, value_enum)]
    format: Format,
    /// svg, mermaid: what waits in the queues of the broker, retired queues included
    #[arg(long)]
    live: bool,
    /// The virtual host [default: the one of broker.url]
    #[arg(long, value_name = "VHOST")]
    vhost: Option<String>,
    /// Write to a file instead
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// definitions: create the virtual host too, for a broker that boots empty; one that exists loses its
    /// description, tags and default queue type
    #[arg(long)]
    create_vhost: bool,
    /// kubernetes: the RabbitmqCluster [default: rabbitmq]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// kubernetes: the namespace of the objects [default: the one kubectl uses]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

/// Tools that can create the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON the broker loads at boot or imports.
    Definitions,
    /// Commands of rabbitmqadmin v2.
    Rabbitmqadmin,
    /// Resources of the provider cyrilgdn/rabbitmq.
    Terraform,
    /// Objects of the messaging topology operator.
    Kubernetes,
    /// JSON for publishers in any language: the exchanges and units of the ladder.
    Ladder,
    /// A picture for documents and browsers.
    Svg,
    /// A picture for Markdown pages of code hosts.
    Mermaid,
}

impl Format {
    const fn is_picture(self) -> bool {
        matches!(self, Self::Svg | Self::Mermaid)
    }
}

impl Export {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        self.check()?;
        let topology = setup::topology(settings)?;
        let text = self.render(&topology, settings).await?;
        match &self.save {
            None => print(text),
            Some(path) => fs::write(path, text).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            }),
        }
    }

    /// A flag of another format is a mistake, not to be passed over in silence.
    fn check(&self) -> Result<(), Failure> {
        let only = |flag: &str, format: &str| {
            Err(Failure::usage(format!("{flag} is for --format {format} only")))
        };
        if self.create_vhost && self.format != Format::Definitions {
            return only("--create-vhost", "definitions");
        }
        if self.live && !self.format.is_picture() {
            return only("--live", "svg or mermaid");
        }
        if self.vhost.is_some() && (self.format == Format::Ladder || self.format.is_picture()) {
            return only("--vhost", "definitions, rabbitmqadmin, terraform or kubernetes");
        }
        if self.cluster_name.is_some() && self.format != Format::Kubernetes {
            return only("--cluster-name", "kubernetes");
        }
        if self.namespace.is_some() && self.format != Format::Kubernetes {
            return only("--namespace", "kubernetes");
        }
        Ok(())
    }

    async fn graph(&self, topology: &Topology, settings: &Settings) -> Result<Graph, Failure> {
        if !self.live {
            return Ok(Graph::of(topology, None));
        }
        let management = setup::management(settings)?;
        let live = Live::of(topology, &management.observe().await?);
        let live = live.counted_every(management.statistics_interval());
        Ok(Graph::of(topology, Some(&live)))
    }

    async fn render(&self, topology: &Topology, settings: &Settings) -> Result<String, Failure> {
        let vhost = || virtual_host(self.vhost.clone(), settings);
        Ok(match self.format {
            Format::Ladder => ladder::render(topology).ok_or_else(|| no_ladder(topology))?,
            Format::Definitions => definitions::render(topology, &vhost()?, self.create_vhost),
            Format::Rabbitmqadmin => rabbitmqadmin::render(topology, &vhost()?),
            Format::Terraform => terraform::render(topology, &vhost()?),
            Format::Kubernetes => {
                let cluster = self.cluster_name.clone().unwrap_or_else(|| "rabbitmq".to_owned());
                let (vhost, namespace) = (vhost()?, self.namespace.clone());
                kubernetes::render(topology, &kubernetes::Target { vhost, cluster, namespace })
            }
            Format::Svg => svg::render(&self.graph(topology, settings).await?),
            Format::Mermaid => mermaid::render(&self.graph(topology, settings).await?),
        })
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

/// The virtual host a text is for: as given, or the one of the settings.
pub(super) fn virtual_host(given: Option<String>, settings: &Settings) -> Result<String, Failure> {
    let vhost = match given {
        Some(vhost) => vhost,
        None => setup::address(settings)?.virtual_host().to_owned(),
    };
    printable("the virtual host", &vhost)?;
    Ok(vhost)
}

/// A line break in a name would end the comment or command it stands in.
pub(super) fn printable(what: &str, text: &str) -> Result<(), Failure> {
    if text.chars().any(char::is_control) {
        return Err(Failure::usage(format!("{what} has a control character: {text:?}")));
    }
    Ok(())
}
