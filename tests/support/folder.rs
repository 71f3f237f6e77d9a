//! A folder to run commands that need no service.

use std::{path::PathBuf, process::Command};

use tempfile::TempDir;

use super::{Run, overdue, process::finish};

/// A folder with files, to run `overdue` in; drop deletes it.
pub struct Folder(TempDir);

impl Folder {
    /// Creates a folder with these files (name, content).
    pub fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        Self(dir)
    }

    /// Runs a command with environment variables.
    pub fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        finish(command, None)
    }

    /// Runs a command in the subfolder `below`.
    pub fn run_in(&self, below: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let mut command = self.command(arguments);
        command.current_dir(self.path(below)).envs(environment.iter().copied());
        finish(command, None)
    }

    /// A command, not yet run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = overdue(arguments);
        command.current_dir(self.0.path());
        command
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
