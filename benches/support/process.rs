//! A process that is measured by itself: a worker, or a rival.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{Result, until};

/// Until a process that was asked to end has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process that is killed when this goes.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts a program; what it writes to standard error goes to that of this process.
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

    /// Fails where it no longer runs.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => {
                Err(format!("{} ended ({status}); what it wrote is above", self.name).into())
            }
            None => Ok(()),
        }
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.id().to_string()]).status()?;
        let ended = async || Ok(self.child.try_wait()?);
        until("a process does not end", LOOK_EVERY, ended).await.map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Where it has ended there is nothing left to kill.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
