//! A program that publishes.

use std::{
    fs::File,
    path::PathBuf,
    process::{Command, Stdio},
};

use super::error::PublishBenchError;

/// A program that publishes all messages and then ends.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// What it is called with.
    pub arguments: Vec<String>,
    /// Its environment, beside that of this process.
    pub environment: Vec<(String, String)>,
    /// What it reads.
    pub input: PathBuf,
}

impl Program {
    /// Runs it to its end.
    pub(super) async fn run(&self) -> Result<(), PublishBenchError> {
        let program = self.path.display().to_string();
        let failed = |program: &str| {
            let program = program.to_owned();
            move |source| PublishBenchError::Run { program, source }
        };
        let input = File::open(&self.input).map_err(failed(&self.input.display().to_string()))?;
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        command.stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
        // The thread waits for it; it ends by itself where this is given up.
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ended.map_err(std::io::Error::other).and_then(|output| output);
        let output = output.map_err(failed(&program))?;
        if output.status.success() {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(PublishBenchError::Failed { program, output })
    }
}
