//! `overdue graph`: the topology as a picture, alone or with what waits in it.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};

use super::{exit::Failure, output::print, setup};
use crate::{
    config::Settings,
    graph::{self, Live, dot, mermaid, svg},
};

/// Draw the topology, with --live what waits in it
#[derive(Debug, Args)]
pub(super) struct Graph {
    /// The language of the picture
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the broker's queues and their messages on it, retired queues included
    #[arg(long)]
    live: bool,
    /// Write it to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Languages of pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For documents and browsers; needs no other program.
    #[default]
    Svg,
    /// For Markdown pages of code hosts.
    Mermaid,
    /// For Graphviz.
    Dot,
}

impl Graph {
    pub(super) async fn run(&self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let live = if self.live {
            let management = setup::management(settings)?;
            let observed = management.observe().await?;
            let live = Live::of(&topology, &observed);
            Some(live.counted_every(management.statistics_interval()))
        } else {
            None
        };
        let graph = graph::Graph::of(&topology, live.as_ref());
        let picture = match self.format {
            Format::Svg => svg::render(&graph),
            Format::Mermaid => mermaid::render(&graph),
            Format::Dot => dot::render(&graph),
        };
        match &self.out {
            None => print(picture),
            Some(path) => fs::write(path, picture).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            }),
        }
    }
}
