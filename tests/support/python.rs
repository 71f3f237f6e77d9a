//! Programs in Python, run as processes.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Run, process};

/// The interpreter of a virtual environment with pika.
///
/// # Panics
/// There is no such interpreter.
pub fn interpreter() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    #[expect(clippy::disallowed_methods, reason = "`make test` says which interpreter has pika")]
    let named = std::env::var("OVERDUE_TEST_PYTHON");
    let interpreter = named.map_or_else(|_| root.join("target/python/bin/python"), Into::into);
    assert!(
        interpreter.exists(),
        "this test needs a Python with pika, and there is no {}\n  `make test` makes one; by hand: \
         python3 -m venv target/python && target/python/bin/pip install -r tests/python/requirements.txt",
        interpreter.display()
    );
    interpreter
}

/// Runs a script of this repository with [`interpreter`].
///
/// # Panics
/// There is no such interpreter.
pub fn python(script: &str, arguments: &[&str], input: &str) -> Run {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(interpreter());
    command.arg(root.join(script)).args(arguments).env("PYTHONUNBUFFERED", "1");
    process::finish(command, Some(input.as_bytes()))
}

/// Parses the documents of a YAML file.
///
/// # Panics
/// The text is not YAML.
pub fn manifests(yaml: &str) -> Vec<serde_json::Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut command = Command::new(interpreter());
    command.args(["-c", script]);
    let run = process::finish(command, Some(yaml.as_bytes())).exits(0);
    serde_json::from_str(&run.stdout).unwrap()
}
