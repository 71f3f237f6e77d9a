//! The container that a service runs in, if it does.

use std::{fs, process::Command, time::Duration};

use super::cgroup;

/// A container whose CPU time can be read here.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    file: String,
}

impl Container {
    /// The one that publishes this port of the machine. `None` where no engine on this machine knows one, or its control
    /// group cannot be read. Blocks for as long as the engine takes to answer.
    pub(crate) fn publishing(port: u16) -> Option<Self> {
        let filter = format!("publish={port}");
        let found = engine(&["ps", "--quiet", "--filter", &filter])?;
        found.lines().find_map(Self::named)
    }

    /// The one with this name or id.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let process = engine(&["inspect", "--format", "{{.State.Pid}}", name])?;
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.trim())).ok()?;
        let here = |file: &String| fs::exists(file).is_ok_and(|there| there);
        let file = cgroup::files(&groups).into_iter().find(here)?;
        let container = Self { file };
        container.cpu().map(|_| container)
    }

    /// CPU time so far of all its processes.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        cgroup::cpu(&fs::read_to_string(&self.file).ok()?)
    }
}

fn engine(arguments: &[&str]) -> Option<String> {
    let output = Command::new("docker").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then_some(text)
}
