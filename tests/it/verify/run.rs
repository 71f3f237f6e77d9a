//! A command of the program, run to its end.

use std::{fmt, process::Command};

use serde_json::Value;

/// What a command printed, and how it ended.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

impl Run {
    /// The answer as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// `<severity> <rule> <kind of subject> <its name>` of every finding of `verify -o json`.
    pub(crate) fn findings(&self) -> Vec<String> {
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

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
