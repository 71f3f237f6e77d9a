//! A process that is measured alone: a worker, or a rival.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{Result, until};

/// Polling interval until a stopped process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process that is killed when this is dropped.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts a program, which inherits standard error.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        environment: &[(&'static str, String)],
    ) -> Result<Self> {
        let name = format!("{} {}", program.display(), arguments.join(" "));
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Self { name, child })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => {
                Err(format!("{} ended ({status}); what it wrote is above", self.name).into())
            }
            None => Ok(()),
        }
    }

    /// Sends SIGTERM, and waits until the process has ended.
    pub async fn stop(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.id().to_string()]).status()?;
        let ended = async || Ok(self.child.try_wait()?);
        until("a process does not end", LOOK_EVERY, ended).await.map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
