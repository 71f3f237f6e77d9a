//! `overdue schema`: the JSON Schema of topology.toml, for editors, or of a plan, for programs that read one.

use clap::{Args, ValueEnum};

use super::{exit::Failure, output::print_json};
use crate::{plan, topology};

/// Print the JSON Schema of the topology file, for editors, or of a plan
#[derive(Debug, Args)]
pub(super) struct Schema {
    /// What is described
    #[arg(value_enum, default_value_t)]
    of: Described,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Described {
    /// topology.toml
    #[default]
    Topology,
    /// The JSON of `overdue plan`, also of a saved plan
    Plan,
}

impl Schema {
    pub(super) fn run(&self) -> Result<(), Failure> {
        match self.of {
            Described::Topology => print_json(&topology::file::schema()),
            Described::Plan => print_json(&plan::saved::schema()),
        }
    }
}
