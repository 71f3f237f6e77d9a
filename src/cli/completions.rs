//! `overdue completions` and `overdue man`: what a package installs beside the program.

use std::{fs, path::PathBuf};

use clap::{Args, Command, ValueEnum};
use clap_complete::{aot, generate};

use super::{
    exit::Failure,
    output::{print, write_control},
};

/// Print the completions for a shell
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// To be sourced, or a file in /usr/share/bash-completion/completions
    Bash,
    /// A file `_overdue` in a folder of $fpath
    Zsh,
    /// A file in ~/.config/fish/completions
    Fish,
}

impl Completions {
    pub(super) fn run(&self, mut program: Command) -> Result<(), Failure> {
        let shell = match self.shell {
            Shell::Bash => aot::Shell::Bash,
            Shell::Zsh => aot::Shell::Zsh,
            Shell::Fish => aot::Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut program, "overdue", &mut script);
        // All of it is ours, and a shell reads it.
        write_control(&String::from_utf8_lossy(&script))
    }
}

/// Write a manual page for each command
#[derive(Debug, Args)]
pub(super) struct Man {
    /// The folder, e.g. /usr/local/share/man/man1; it is made where there is none
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn run(&self, program: Command) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            let folder = self.folder.display();
            Failure::failed(format!("cannot write manual pages to {folder}: {error}"))
        };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        clap_mangen::generate_to(program, &self.folder).map_err(failed)?;
        print(format!("the manual pages are in {}: man overdue", self.folder.display()))
    }
}
