//! A contestant as a process of its own, so that what it uses is counted apart.

use std::{
    io,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::usage::ProcessUsage;

/// As long as a worker may take to drain, and some more.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why a contestant does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// It was not started.
    #[error("cannot start {program}")]
    Start {
        /// Which program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It has ended before it was to.
    #[error("{program} ended by itself ({status}); what it wrote is above")]
    Ended {
        /// Which program.
        program: String,
        /// How.
        status: ExitStatus,
    },
}

/// A process that is killed when this goes.
pub(crate) struct Process {
    program: String,
    child: Child,
}

impl Process {
    /// Starts a program; what it writes to standard error goes to ours.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
    ) -> Result<Self, ProcessError> {
        let environment = environment.iter().map(|(name, value)| (name, value));
        let mut command = Command::new(program);
        command.args(arguments).envs(environment).stdin(Stdio::null()).stdout(Stdio::null());
        let program = format!("{} {}", program.display(), arguments.join(" "));
        match command.spawn() {
            Ok(child) => Ok(Self { program, child }),
            Err(source) => Err(ProcessError::Start { program, source }),
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Option<ProcessUsage> {
        ProcessUsage::of(self.id())
    }

    /// Looks whether it still runs.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn check(&mut self) -> Result<(), ProcessError> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(ProcessError::Ended { program: self.program.clone(), status }),
            _ => Ok(()),
        }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(mut self) {
        let asked = Pid::from_raw(self.id().cast_signed());
        if asked.is_none_or(|pid| kill_process(pid, Signal::TERM).is_err()) {
            return;
        }
        let began = Instant::now();
        while self.check().is_ok() && began.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, where there is nothing left to kill.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
