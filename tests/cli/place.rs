//! A folder to run commands in, and texts without what differs from run to run.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::support::{Run, World, overdue, process::finish};

/// A folder with files, and `overdue` in it, without any service.
pub struct Place {
    dir: TempDir,
}

impl Place {
    /// A folder with these files (name, content).
    pub fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        Self { dir }
    }

    /// Runs a command with environment variables.
    pub fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        finish(command, None)
    }

    /// A command, not yet run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = overdue(arguments);
        command.current_dir(self.dir.path());
        command
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Runs a command on a world with more environment variables.
pub fn run(world: &World, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let mut command = world.command(arguments);
    command.envs(environment.iter().copied());
    finish(command, None)
}

/// What a command printed, with names in place of ports, random names and folders.
pub fn shown(world: &World, run: &Run) -> String {
    let services = &world.services;
    let port = |url: &url::Url| format!(":{}", url.port_or_known_default().unwrap_or_default());
    run.to_string()
        .replace(&world.vhost, "<world>")
        .replace(&folder(world.dir.path()), "<folder>")
        .replace(&port(&services.broker), ":<amqp>")
        .replace(&port(&services.management), ":<management>")
        .replace(&port(&services.database), ":<postgres>")
}

fn folder(path: &Path) -> String {
    path.display().to_string()
}
