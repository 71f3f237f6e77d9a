//! `overdue init`: files to start from, for tables of one's own.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{exit::Failure, output::print};

/// Name and content: the example of docs/your-own-tables.md, which a test runs.
const FILES: [(&str, &str); 4] = [
    ("topology.toml", include_str!("../../examples/own-tables/topology.toml")),
    ("overdue.toml", include_str!("../../examples/own-tables/overdue.toml")),
    ("expire.sql", include_str!("../../examples/own-tables/expire.sql")),
    ("expire_overdue.sql", include_str!("../../examples/own-tables/expire_overdue.sql")),
];
const NEXT: &str = "next: write your tables' names into expire.sql and expire_overdue.sql, then run \
                    `overdue database init`, `overdue effect check --all`, `overdue apply` and `overdue run` \
                    (docs/your-own-tables.md)";

/// Write topology.toml, overdue.toml and the SQL of an effect to start from
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder
    #[arg(default_value = ".")]
    folder: PathBuf,
}

impl Init {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let there = FILES.iter().map(|(name, _)| *name);
        let there: Vec<&str> = there.filter(|name| self.folder.join(name).exists()).collect();
        if !there.is_empty() {
            return Err(Failure::failed(format!(
                "{} already has {}: nothing was written; name another folder",
                self.folder.display(),
                there.join(", ")
            )));
        }
        for (name, content) in FILES {
            let path = self.folder.join(name);
            write_new(&path, content).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            })?;
            print(path.display())?;
        }
        print(NEXT)
    }
}

/// Also where somebody else has made the file meanwhile, nothing is overwritten.
fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if path.ends_with("overdue.toml") {
        // Passwords come into it.
        options.mode(0o600);
    }
    options.open(path)?.write_all(content.as_bytes())
}
