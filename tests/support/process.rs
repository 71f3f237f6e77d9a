//! The real binary: commands that end, and the worker as a process.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::Value;
use url::Url;

use super::{World, python, until, wait::PATIENCE};

/// The output and the end of a command.
#[derive(Clone, Debug)]
pub struct Run {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        writeln!(f, "exit code: {code}")?;
        writeln!(f, "--- stdout\n{}", self.stdout.trim_end())?;
        write!(f, "--- stderr\n{}", self.stderr.trim_end())
    }
}

impl Run {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Asserts that standard output contains the text.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text}: {self}");
        self
    }

    /// Asserts that standard error contains the text.
    #[track_caller]
    pub fn reports(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text}: {self}");
        self
    }

    /// The output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// `<severity> <rule> <kind of subject> <its name>` of every finding of `verify -o json`.
    pub fn findings(&self) -> Vec<String> {
        let report = self.json();
        let found = report["findings"].as_array().unwrap();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let line = |finding: &Value| {
            let subject = &finding["subject"];
            let kind = word(&subject["kind"]).replace('_', " ");
            let parts = [&finding["severity"], &finding["rule"]].map(word);
            format!("{} {kind} {}", parts.join(" "), word(&subject["name"]))
        };
        found.iter().map(line).collect()
    }
}

/// `overdue` without the variables of the caller's environment that it would read.
pub fn overdue(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdue"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    for name in ["PATH", "HOME", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Setting for `apply --wait`, which stops waiting when no count has fallen for some intervals: a slow broker counts late.
pub const LATE_COUNTS: (&str, &str) = ("OVERDUE_BROKER__STATISTICS_INTERVAL", "5s");

/// Runs a command to its end.
///
/// # Panics
/// The command does not end; it is killed then.
pub fn finish(mut command: Command, input: Option<&[u8]>) -> Run {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    let id = child.id();
    if let Some(input) = input {
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        // A command that refuses its input before the end closes the pipe.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait_with_output().unwrap()));
    let output = end.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        send_signal(id, "KILL");
        let output = end.recv().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!("{command:?} did not end within {PATIENCE:?}\n{stderr}")
    });
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn send_signal(process: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {process}");
}

impl World {
    /// `overdue` on this world: its topology, virtual host and schema.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = overdue(arguments);
        command
            .current_dir(self.dir.path())
            .env("OVERDUE_BROKER__URL", self.broker_url())
            .env("OVERDUE_BROKER__MANAGEMENT_URL", self.services.management.as_str())
            .env("OVERDUE_BROKER__STATISTICS_INTERVAL", &self.services.statistics_interval)
            .env("OVERDUE_BROKER__DEAD_LETTER_SLOTS", &self.services.dead_letter_slots)
            .env("OVERDUE_DATABASE__URL", self.services.database_url(None))
            .env("OVERDUE_DATABASE__SEARCH_PATH", &self.search_path)
            .envs([self.services.timing_variable()])
            // Concurrent tests would find the port in use.
            .env("OVERDUE_WORKER__LISTEN", "");
        command
    }

    /// Like [`World::command`], as a user of the broker.
    pub fn command_as(&self, arguments: &[&str], user: &str) -> Command {
        let mut command = self.command(arguments);
        self.set_user(&mut command, user);
        command
    }

    fn set_user(&self, command: &mut Command, user: &str) {
        let [broker, management] = self.urls_of(Some(user));
        command.env("OVERDUE_BROKER__URL", broker);
        command.env("OVERDUE_BROKER__MANAGEMENT_URL", management);
    }

    /// Runs `overdue` as a user of the broker to its end.
    pub fn overdue_as(&self, arguments: &[&str], user: &str) -> Run {
        let mut command = self.ending(arguments);
        self.set_user(&mut command, user);
        finish(command, None)
    }

    /// Runs `overdue` on this world with more environment variables to its end.
    pub fn overdue_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let mut command = self.ending(arguments);
        command.envs(environment.iter().copied());
        finish(command, None)
    }

    /// A command's output, with names in place of ports, random names and folders.
    pub fn shown(&self, run: &Run) -> String {
        let services = &self.services;
        let port = |url: &Url| format!(":{}", url.port_or_known_default().unwrap_or_default());
        run.to_string()
            .replace(&self.vhost, "<world>")
            .replace(&self.dir.path().display().to_string(), "<folder>")
            .replace(&port(&services.broker), ":<amqp>")
            .replace(&port(&services.management), ":<management>")
            .replace(&port(&services.database), ":<postgres>")
    }

    /// Runs `overdue` on this world to its end.
    pub fn overdue(&self, arguments: &[&str]) -> Run {
        finish(self.ending(arguments), None)
    }

    /// Runs `overdue` on a thread of its own, while the test continues.
    pub async fn overdue_meanwhile(&self, arguments: &'static [&'static str]) -> Run {
        let command = self.command(arguments);
        tokio::task::spawn_blocking(move || finish(command, None)).await.unwrap()
    }

    /// A command that ends by itself; for `run`, without the first line, which has the time.
    fn ending(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        if arguments.contains(&"run") {
            command.env("OVERDUE_LOG__FILTER", "warn");
        }
        command
    }

    /// Runs `overdue` on this world with a standard input.
    pub fn overdue_with_input(&self, arguments: &[&str], input: &str) -> Run {
        finish(self.command(arguments), Some(input.as_bytes()))
    }

    /// Runs `overdue` on this world at a terminal, where a person types `keys`.
    pub fn overdue_at_terminal(&self, arguments: &[&str], keys: &str) -> Run {
        finish(self.command_at_terminal(arguments), Some(keys.as_bytes()))
    }

    /// Starts `overdue` at a terminal, where [`WorkerProcess::types`] types.
    pub fn spawn_at_terminal(&self, arguments: &[&str]) -> WorkerProcess {
        let mut command = self.command_at_terminal(arguments);
        command.stdin(Stdio::piped());
        self.spawn(command)
    }

    fn command_at_terminal(&self, arguments: &[&str]) -> Command {
        let overdue = self.command(arguments);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/at_terminal.py");
        let mut command = Command::new(python::interpreter());
        command.arg(script).arg(overdue.get_program()).args(overdue.get_args());
        command.current_dir(self.dir.path()).env_clear();
        command.envs(overdue.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Starts `overdue run`; `change` may set more of its environment.
    pub fn start(&self, change: impl FnOnce(&mut Command)) -> WorkerProcess {
        let mut command = self.command(&["run"]);
        command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h").env("OVERDUE_WORKER__SWEEP_GRACE", "1h");
        // A database that is silent for a while must not end the worker before its batches.
        command.env("OVERDUE_WORKER__DRAIN", "1m");
        change(&mut command);
        self.spawn(command)
    }

    /// Starts any command; its standard error is the log.
    pub fn spawn(&self, mut command: Command) -> WorkerProcess {
        command.stdout(Stdio::null());
        self.spawn_with_output(command)
    }

    /// Like [`World::spawn`], with the standard output of `command`.
    pub fn spawn_with_output(&self, mut command: Command) -> WorkerProcess {
        let log = self.dir.path().join(format!("worker-{:08x}.log", rand::random::<u32>()));
        let file = File::create(&log).unwrap();
        command.stderr(file);
        WorkerProcess { child: command.spawn().unwrap(), log }
    }

    /// Starts `overdue run` and waits until it consumes.
    pub async fn started(&self, change: impl FnOnce(&mut Command)) -> WorkerProcess {
        let mut process = self.start(change);
        process.until_logged("worker ready").await;
        process
    }

    /// Starts `overdue run` as a user of the broker, and waits until it consumes.
    pub async fn started_as(&self, user: &str) -> WorkerProcess {
        self.started(|command| self.set_user(command, user)).await
    }
}

/// `overdue run` as a process; drop kills it.
pub struct WorkerProcess {
    child: Child,
    log: PathBuf,
}

impl WorkerProcess {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the process has logged `text`.
    pub async fn until_logged(&mut self, text: &str) {
        until(
            &format!("`{text}` in the worker's log"),
            async || self.log(),
            |log| log.contains(text),
        )
        .await;
    }

    /// How often the process has logged `text`.
    pub fn logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Types `keys` at its terminal; possible once.
    pub fn types(&mut self, keys: &str) {
        self.child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a signal, e.g. `TERM`.
    pub fn signal(&self, name: &str) {
        send_signal(self.id(), name);
    }

    /// Sends SIGKILL, and waits for the end of the process.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, and waits until the process has ended with success.
    pub async fn stops(&mut self) {
        self.signal("TERM");
        assert!(self.ended().await.success(), "{}", self.log());
    }

    /// Stops and consumes the process.
    pub async fn stopped(mut self) {
        self.stops().await;
    }

    /// Waits until the process has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let look = async || self.child.try_wait().unwrap();
        until("the end of the process", look, Option::is_some).await.unwrap()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Fails if the test has ended the process.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of worker {}\n{}", self.id(), self.log());
        }
    }
}
