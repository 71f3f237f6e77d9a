//! What cargo-mutants lists.

use std::{path::Path, process::Command};

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArmGuard,
    MatchArm,
    StructField,
}

/// A line counts from 1, and so does a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Position,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    /// From 1: 0 is none.
    #[serde(skip)]
    pub(crate) id: u32,
    pub(crate) file: String,
    pub(crate) genre: Genre,
    pub(crate) name: String,
    pub(crate) replacement: String,
    pub(crate) span: Span,
}

impl Mutant {
    /// Its name without line and column, which change with each edit.
    pub(crate) fn key(&self) -> String {
        let rest = self.name.splitn(4, ':').nth(3).unwrap_or_default();
        format!("{}:{rest}", self.file)
    }
}

pub(crate) fn list(core: &Path, rooms: &[String]) -> Vec<Mutant> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json"]).current_dir(core);
    for room in rooms {
        command.args(["-f", &format!("src/{room}.rs"), "-f", &format!("src/{room}/**")]);
    }
    let listed = command.output().expect("cargo-mutants runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let mut mutants: Vec<Mutant> =
        serde_json::from_slice(&listed.stdout).expect("what cargo-mutants lists");
    for (id, mutant) in (1..).zip(&mut mutants) {
        mutant.id = id;
    }
    mutants
}
