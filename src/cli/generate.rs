//! `overdue generate`: writes the files that a package installs next to the program, and the schemas of its formats.

use std::{fs, path::PathBuf};

use clap::{Command, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::{
    exit::Failure,
    output::{print, print_json, write_control},
};
use crate::{plan, topology};

/// Write completions, manual pages and schemas
#[derive(Debug, Subcommand)]
pub(super) enum Generate {
    /// Print completions for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write a manual page for each command
    Man {
        /// The folder, e.g. /usr/local/share/man/man1; it is created if missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the JSON Schema of the topology file (for editors) or of a plan
    Schema {
        /// Document that the schema describes
        #[arg(value_enum, default_value_t)]
        of: Described,
    },
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Described {
    /// topology.toml
    #[default]
    Topology,
    /// The JSON of `overdue plan`
    Plan,
}

impl Generate {
    pub(super) fn run(self, mut program: Command) -> Result<(), Failure> {
        match self {
            Self::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut program, "overdue", &mut script);
                // Printed unescaped: a shell reads the script, and it has no text from outside.
                write_control(&String::from_utf8_lossy(&script)).map(drop)
            }
            Self::Man { folder } => {
                let failed = |error: std::io::Error| {
                    let folder = folder.display();
                    Failure::failed(format!("cannot write manual pages to {folder}: {error}"))
                };
                fs::create_dir_all(&folder).map_err(failed)?;
                clap_mangen::generate_to(program, &folder).map_err(failed)?;
                print(format!("the manual pages are in {}: man overdue", folder.display()))
            }
            Self::Schema { of: Described::Topology } => print_json(&topology::file::schema()),
            Self::Schema { of: Described::Plan } => print_json(&plan::json::schema()),
        }
    }
}
